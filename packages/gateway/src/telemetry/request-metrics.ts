/**
 * Requests and attempts, counted since the start from what the workers report. A worker that dies takes nothing with it
 * but its last quarter of a second.
 */

import {
  type AttemptSample,
  ENDINGS,
  ENDPOINTS,
  type Ending,
  MODELS_MAX,
  OUTCOMES,
  type Outcome,
  REASONS,
} from "@zml/engine";
import { ERROR_CODES } from "@zml/protocol/errors";
import { FAMILIES_MAX, type NameRegistry, type NameTable } from "../control/name-registry.ts";
import { REQUEST_FIELDS } from "../thread-messages.ts";
import { Histogram } from "./histogram.ts";
import type { MetricFamily, MetricSample } from "./metric-family.ts";

const FIELDS = REQUEST_FIELDS.length;
const AT = Object.fromEntries(REQUEST_FIELDS.map((name, index) => [name, index])) as Readonly<
  Record<(typeof REQUEST_FIELDS)[number], number>
>;

/** Bounds of OpenTelemetry's semantic conventions for generative AI, s. */
const DURATION_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
/** A decision takes microseconds; the goal is 50 µs for 100 nodes and 500 µs for 10,000. */
const DECISION_S = [2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2];
/** `max_queue_ms` is 30 s unless the policy says otherwise. */
const WAIT_S = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Who a series is about. Indexes into the registry of names; -1: none. */
interface Subject {
  readonly policy: number;
  readonly model: number;
  readonly family: number;
  readonly endpoint: number;
}

interface Served extends Subject {
  readonly duration: Histogram;
  readonly firstToken: Histogram;
  readonly token: Histogram;
  inputTokens: number;
  outputTokens: number;
}

interface Ended extends Subject {
  readonly ending: number;
  readonly reason: number;
  count: number;
}

/** Requests of one policy on one family. */
export interface RequestFlow {
  readonly account: string;
  readonly policy: string;
  /** "": no node was chosen. */
  readonly family: string;
  requests: number;
  delivered: number;
}

/** Requests of one policy that had a target for the whole response. */
export interface TargetCount {
  readonly account: string;
  readonly policy: string;
  readonly judged: number;
  /** Of them, those that met it. */
  readonly within: number;
}

/** Counts since the start. */
export interface RequestTotals {
  readonly requests: number;
  readonly endings: Readonly<Record<Ending, number>>;
  readonly flows: readonly RequestFlow[];
  /** By node id. */
  readonly attempts: ReadonlyMap<string, { readonly attempts: number; readonly failed: number }>;
  readonly redispatches: number;
  /** Requests that had a target for the whole response, and those that met it. */
  readonly judged: number;
  readonly withinTarget: number;
  /** The same by policy. */
  readonly targets: readonly TargetCount[];
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface RequestMetricsOptions {
  readonly names: NameRegistry;
  /** Target of a policy's whole responses, ms; NaN: it has none. */
  readonly targetMs: (policy: number) => number;
  /** Series of one metric that are kept; what is beyond is counted under the label value `other`. */
  readonly seriesMax: () => number;
}

export class RequestMetrics {
  readonly #options: RequestMetricsOptions;
  readonly #ended = new Map<number, Ended>();
  readonly #served = new Map<number, Served>();
  readonly #waits = new Map<number, Histogram>();
  readonly #refusals = new Float64Array(ERROR_CODES.length);
  /** By identity × outcome. */
  readonly #attempts = new Map<number, number>();
  /** By policy: requests that had a target, and those that met it. */
  readonly #targets = new Map<number, { judged: number; met: number }>();
  readonly #decisions = new Histogram(DECISION_S);
  #redispatches = 0;
  #dropped = 0;

  constructor(options: RequestMetricsOptions) {
    this.#options = options;
  }

  /** @param flat `REQUEST_FIELDS` per request. @param dropped requests that a worker could not report. */
  takeRequests(flat: Float64Array, dropped: number): void {
    this.#dropped += dropped;
    for (let start = 0; start + FIELDS <= flat.length; start += FIELDS) this.#takeRequest(flat, start);
  }

  takeAttempts(samples: readonly (AttemptSample & { readonly identity: number })[]): void {
    for (const { identity, outcome } of samples) {
      const key = identity * OUTCOMES.length + OUTCOMES.indexOf(outcome);
      const seen = this.#attempts.get(key);
      if (seen === undefined && this.#attempts.size >= this.#options.seriesMax()) {
        const other = -OUTCOMES.length + OUTCOMES.indexOf(outcome);
        this.#attempts.set(other, (this.#attempts.get(other) ?? 0) + 1);
      } else this.#attempts.set(key, (seen ?? 0) + 1);
    }
  }

  #takeRequest(flat: Float64Array, start: number): void {
    const at = (name: (typeof REQUEST_FIELDS)[number]) => flat[start + AT[name]] as number;
    const [policy, family, reason, ending] = [at("policy"), at("family"), at("reason"), at("ending")];
    const subject = { policy, model: at("model"), family, endpoint: at("endpoint") };
    this.#endedOf(subject, ending, reason).count += 1;
    const code = at("code");
    if (code >= 0) this.#refusals[code] = (this.#refusals[code] as number) + 1;
    const dispatches = at("dispatches");
    if (dispatches > 1) this.#redispatches += dispatches - 1;
    if (policy < 0) return;
    this.#decisions.add(at("decideMs") / 1000);
    const waitedMs = at("waitedMs");
    if (waitedMs > 0) this.#waitOf(policy).add(waitedMs / 1000);
    const isServed = ENDINGS[ending] === "delivered" && at("status") < 400;
    if (isServed || MISSES.has(ENDINGS[ending] as Ending)) this.#judge(policy, isServed ? at("durationMs") : Infinity);
    if (!isServed) return;
    const served = this.#servedOf(subject);
    served.duration.add(at("durationMs") / 1000);
    served.firstToken.add(at("firstTokenMs") / 1000);
    const [inputTokens, outputTokens] = [at("promptTokens"), at("outputTokens")];
    if (outputTokens > 1) served.token.add(at("tokensMs") / 1000 / (outputTokens - 1));
    if (inputTokens > 0) served.inputTokens += inputTokens;
    if (outputTokens > 0) served.outputTokens += outputTokens;
  }

  /** @param durationMs infinite for a request that was not served. */
  #judge(policy: number, durationMs: number): void {
    const targetMs = this.#options.targetMs(policy);
    if (Number.isNaN(targetMs)) return;
    const key = this.#targets.has(policy) || this.#targets.size < this.#options.seriesMax() ? policy : OTHER;
    const seen = this.#targets.get(key) ?? { judged: 0, met: 0 };
    seen.judged += 1;
    if (durationMs <= targetMs) seen.met += 1;
    this.#targets.set(key, seen);
  }

  #endedOf(subject: Subject, ending: number, reason: number): Ended {
    const make = (of: Subject): Ended => ({ ...of, ending, reason, count: 0 });
    return entryOf(this.#ended, this.#options.seriesMax(), subject, ending * REASONS.length + reason + 1, make);
  }

  #servedOf(subject: Subject): Served {
    const make = (of: Subject): Served => ({
      ...of,
      duration: new Histogram(DURATION_S),
      firstToken: new Histogram(FIRST_TOKEN_S),
      token: new Histogram(TOKEN_S),
      inputTokens: 0,
      outputTokens: 0,
    });
    return entryOf(this.#served, this.#options.seriesMax(), subject, 0, make);
  }

  #waitOf(policy: number): Histogram {
    const isFull = this.#waits.size >= this.#options.seriesMax();
    const key = this.#waits.has(policy) || !isFull ? policy : OTHER;
    const known = this.#waits.get(key) ?? new Histogram(WAIT_S);
    this.#waits.set(key, known);
    return known;
  }

  /** What was counted, as of now. */
  families(): MetricFamily[] {
    const served = [...this.#served.values()];
    const histogram = (name: string, help: string, of: (entry: Served) => Histogram): MetricFamily => ({
      name,
      help,
      type: "histogram",
      values: served.flatMap((entry) => {
        const counts = of(entry);
        return counts.isEmpty ? [] : counts.samples(name, this.#labelsOf(entry));
      }),
    });
    const tokens = (type: "input" | "output", of: (entry: Served) => number): MetricSample[] =>
      served.map((entry) => ({ labels: { ...this.#labelsOf(entry), gen_ai_token_type: type }, value: of(entry) }));
    return [
      {
        name: "zml_requests_total",
        help: "Requests that ended, by how they ended and why their node was chosen.",
        type: "counter",
        values: [...this.#ended.values()].map((entry) => ({
          labels: {
            ...this.#labelsOf(entry),
            outcome: ENDINGS[entry.ending] ?? "internal_error",
            reason: REASONS[entry.reason] ?? "",
          },
          value: entry.count,
        })),
      },
      {
        name: "zml_errors_total",
        help: "Errors of the gateway's own that callers were told, by code.",
        type: "counter",
        values: ERROR_CODES.map((code, index) => ({ labels: { code }, value: this.#refusals[index] as number })),
      },
      {
        name: "zml_requests_judged_total",
        help: "Requests under policies with a target for the whole response, but for those that the caller ended.",
        type: "counter",
        values: this.#perPolicy(({ judged }) => judged),
      },
      {
        name: "zml_requests_within_target_total",
        help: "Of them, those that were served within the target.",
        type: "counter",
        values: this.#perPolicy(({ met }) => met),
      },
      {
        name: "zml_decision_duration_seconds",
        help: "Time of steps 2 to 4 of a request, all its decisions together.",
        type: "histogram",
        values: this.#decisions.samples("zml_decision_duration_seconds", {}),
      },
      {
        name: "zml_admission_queue_wait_seconds",
        help: "Time that requests were parked for room, of those that were.",
        type: "histogram",
        values: [...this.#waits].flatMap(([policy, counts]) =>
          counts.samples("zml_admission_queue_wait_seconds", scoped(this.#options.names.policies, policy, "policy")),
        ),
      },
      histogram(
        "gen_ai_server_request_duration_seconds",
        "Time from a request's head to the end of its answer, of those that were served.",
        ({ duration }) => duration,
      ),
      histogram(
        "gen_ai_server_time_to_first_token_seconds",
        "Time from a request's head to the first token of its answer.",
        ({ firstToken }) => firstToken,
      ),
      histogram(
        "gen_ai_server_time_per_output_token_seconds",
        "Mean time between two tokens of an answer.",
        ({ token }) => token,
      ),
      {
        name: "zml_tokens_total",
        help: "Tokens of the requests that were served, as their engines report them.",
        type: "counter",
        values: [...tokens("input", (entry) => entry.inputTokens), ...tokens("output", (entry) => entry.outputTokens)],
      },
      {
        name: "zml_dispatch_attempts_total",
        help: "Attempts by node and outcome.",
        type: "counter",
        values: [...this.#attempts].map(([key, value]) => {
          const identity = Math.floor(key / OUTCOMES.length);
          const node = identity < 0 ? OTHER_NAME : nameAt(this.#options.names.identities, identity);
          return { labels: { node, outcome: OUTCOMES[key - identity * OUTCOMES.length] ?? "" }, value };
        }),
      },
      {
        name: "zml_failover_redispatches_total",
        help: "Dispatches of requests after their first one.",
        type: "counter",
        values: [{ labels: {}, value: this.#redispatches }],
      },
      {
        name: "zml_telemetry_dropped_requests_total",
        help: "Requests that are in no other metric, since a worker had no place left to report them.",
        type: "counter",
        values: [{ labels: {}, value: this.#dropped }],
      },
    ];
  }

  #perPolicy(of: (seen: { judged: number; met: number }) => number): MetricSample[] {
    const { policies } = this.#options.names;
    return [...this.#targets].map(([policy, seen]) => ({
      labels: scoped(policies, policy, "policy"),
      value: of(seen),
    }));
  }

  /** Totals since the start, for whoever looks at differences. O(series). */
  totals(): RequestTotals {
    const endings = ENDINGS.map(() => 0);
    const flows = new Map<string, RequestFlow>();
    const { policies, families, identities } = this.#options.names;
    for (const { policy, family, ending, count } of this.#ended.values()) {
      endings[ending] = (endings[ending] ?? 0) + count;
      if (policy === -1) continue;
      const key = `${policy} ${family}`;
      const { account, policy: name } = scoped(policies, policy, "policy");
      const flow = flows.get(key) ?? {
        account: account ?? "",
        policy: name ?? "",
        family: nameAt(families, family),
        requests: 0,
        delivered: 0,
      };
      flow.requests += count;
      if (ENDINGS[ending] === "delivered") flow.delivered += count;
      flows.set(key, flow);
    }
    const attempts = new Map<string, { attempts: number; failed: number }>();
    for (const [key, count] of this.#attempts) {
      const identity = Math.floor(key / OUTCOMES.length);
      const node = identity < 0 ? OTHER_NAME : nameAt(identities, identity);
      const seen = attempts.get(node) ?? { attempts: 0, failed: 0 };
      seen.attempts += count;
      if (FAILURES.has(OUTCOMES[key - identity * OUTCOMES.length] as Outcome)) seen.failed += count;
      attempts.set(node, seen);
    }
    const targets = [...this.#targets.values()];
    const served = [...this.#served.values()];
    const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
    return {
      requests: sum(endings),
      endings: Object.fromEntries(ENDINGS.map((ending, index) => [ending, endings[index] ?? 0])) as Record<
        Ending,
        number
      >,
      flows: [...flows.values()],
      attempts,
      redispatches: this.#redispatches,
      judged: sum(targets.map(({ judged }) => judged)),
      withinTarget: sum(targets.map(({ met }) => met)),
      targets: Array.from(this.#targets, ([index, { judged, met }]) => {
        const { account = "", policy = "" } = scoped(policies, index, "policy");
        return { account, policy, judged, within: met };
      }),
      inputTokens: sum(served.map(({ inputTokens }) => inputTokens)),
      outputTokens: sum(served.map(({ outputTokens }) => outputTokens)),
    };
  }

  #labelsOf({ policy, model, family, endpoint }: Subject): Record<string, string> {
    const { names } = this.#options;
    return {
      ...scoped(names.policies, policy, "policy"),
      family: nameAt(names.families, family),
      gen_ai_request_model: nameAt(names.models, model),
      gen_ai_operation_name: endpoint === OTHER ? OTHER_NAME : (ENDPOINTS[endpoint] ?? ""),
    };
  }
}

/** Outcomes that are the node's doing. */
const FAILURES: ReadonlySet<Outcome> = new Set(["failure", "interrupted", "overloaded", "misconfigured"]);

/** Endings that keep a target from being met; the caller's own doing is none. */
const MISSES: ReadonlySet<Ending> = new Set([
  "saturated",
  "parked_in_vain",
  "given_up",
  "interrupted",
  "over_time",
  "drained",
  "internal_error",
]);

/** Stands for all subjects beyond the bound. */
const OTHER = -2;
const OTHER_NAME = "other";

/** Label values of a name that belongs to an account. */
function scoped(table: NameTable, index: number, label: string): Record<string, string> {
  if (index === OTHER) return { account: OTHER_NAME, [label]: OTHER_NAME };
  const name = table.nameOf(index);
  return { account: name?.scope ?? "", [label]: name?.name ?? "" };
}

function nameAt(table: NameTable, index: number): string {
  return index === OTHER ? OTHER_NAME : (table.nameOf(index)?.name ?? "");
}

/**
 * The entry of a subject. Beyond the bound all subjects are one, so that what callers can vary (models that nodes list,
 * policies that teams make) can't fill this process or Prometheus.
 */
function entryOf<T>(
  entries: Map<number, T>,
  max: number,
  subject: Subject,
  detail: number,
  make: (subject: Subject) => T,
): T {
  const known = entries.get(keyOf(subject, detail));
  if (known !== undefined) return known;
  const of = entries.size < max ? subject : { policy: OTHER, model: OTHER, family: OTHER, endpoint: OTHER };
  const key = keyOf(of, detail);
  const entry = entries.get(key) ?? make(of);
  entries.set(key, entry);
  return entry;
}

/** One whole number per subject: below 2^53 with every index at its bound. */
function keyOf({ policy, model, family, endpoint }: Subject, detail: number): number {
  const names = ((policy + 2) * (MODELS_MAX + 2) + model + 2) * (FAMILIES_MAX + 2) + family + 2;
  return (names * (ENDPOINTS.length + 2) + endpoint + 2) * DETAILS + detail;
}

const DETAILS = ENDINGS.length * REASONS.length + 1;
