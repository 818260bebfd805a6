/** One round of polls of one node: every path at once, under one deadline. */

import type { FleetTable } from "@zml/engine";
import type { EngineName } from "@zml/protocol";
import type { Adapter, PollResponse, PollResponses } from "./adapters/adapter.ts";
import { DETECTION_PATHS, type DetectionAnswers, detectEngine } from "./adapters/detect.ts";
import type { NodeSpec } from "./node-spec.ts";
import { PollError, type PollFault, type PollFetch } from "./poll-fetch.ts";
import { pathOf } from "./url.ts";

/** What to ask in a round. */
export interface RoundPlan {
  readonly spec: NodeSpec;
  /** Null: find out which engine it is. */
  readonly adapter: Adapter | null;
  /** Also models and limits, which change rarely. */
  readonly isFull: boolean;
  /** The node refused the metrics path before: ask the adapter's fallback. */
  readonly usesFallback: boolean;
}

/** What came back. */
export interface RoundResult {
  readonly responses: PollResponses;
  /** Engine that was found, null: none was looked for, or it is not clear yet. */
  readonly detected: EngineName | null;
  /** Why the health path gave no answer; null: it gave one. */
  readonly healthFault: PollFault | null;
  /** The metrics path is refused: ask the fallback from now on. */
  readonly usesFallback: boolean;
  /** When the load was told, engine clock ms: the middle between asking and the answer. */
  readonly scrapedAtMs: number;
  /** Half of the time between the two, ms. */
  readonly scrapeUncertainMs: number;
  /** Our in-flight count at the scrape: mean of sending and receipt, requests. */
  readonly ownAtScrape: number;
  /** The same of other gateways. */
  readonly elsewhereAtScrape: number;
}

/** An answer that said nothing usable; unlike null it is one. */
const UNUSABLE: PollResponse = Object.freeze({ status: 0, contentType: null, body: "" });

/** What a round reads and asks with. */
export interface RoundSources {
  readonly table: FleetTable;
  readonly fetch: PollFetch;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
}

/** What every adapter takes for a node that is not ready. */
const NOT_READY = 503;

/** Asks everything that the plan says. Never rejects; returns when all answered or `signal` aborted. */
export async function pollRound(
  { table, fetch, nowMs }: RoundSources,
  plan: RoundPlan,
  signal: AbortSignal,
): Promise<RoundResult> {
  const { spec, adapter } = plan;
  const { row } = spec;
  let healthFault: PollFault | null = null;
  const target = {
    origin: new URL(spec.url).origin,
    headers: {
      accept: "*/*",
      "user-agent": "zml",
      ...(spec.apiKey === null ? {} : { authorization: `Bearer ${spec.apiKey}` }),
    },
    signal,
  };
  const get = async (path: string | null): Promise<PollResponse | null> => {
    if (path === null) return null;
    try {
      return await fetch({ ...target, path: pathOf(spec.url, path) });
    } catch (error) {
      return error instanceof PollError && error.fault === "too_large" ? UNUSABLE : null;
    }
  };
  const getHealth = async (path: string): Promise<PollResponse | null> => {
    try {
      const response = await fetch({ ...target, path: pathOf(spec.url, path) });
      const isRefusal = response.status >= 400 && spec.isHealthPathStated === true;
      return isRefusal ? { ...response, status: NOT_READY } : response;
    } catch (error) {
      healthFault = error instanceof PollError ? error.fault : "reset";
      return null;
    }
  };
  const load = countsAt(table, row);
  let loadAfter = load;
  let askedAtMs = nowMs();
  let answeredAtMs = askedAtMs;
  let usesFallback = plan.usesFallback;
  const getLoad = async (path: string | null, fallback: string | null): Promise<PollResponse | null> => {
    let response = await get(usesFallback ? fallback : path);
    if (!usesFallback && fallback !== null && (response?.status === 501 || response?.status === 404)) {
      usesFallback = true;
      askedAtMs = nowMs();
      response = await get(fallback);
    }
    loadAfter = countsAt(table, row);
    answeredAtMs = nowMs();
    return response;
  };
  const finish = (responses: PollResponses, detected: EngineName | null): RoundResult => ({
    responses,
    detected,
    healthFault,
    usesFallback,
    scrapedAtMs: (askedAtMs + answeredAtMs) / 2,
    scrapeUncertainMs: (answeredAtMs - askedAtMs) / 2,
    ownAtScrape: (load.own + loadAfter.own) / 2,
    elsewhereAtScrape: (load.elsewhere + loadAfter.elsewhere) / 2,
  });

  if (adapter === null) {
    const answers = await detectionAnswers(get, getHealth, getLoad, spec);
    const detected = detectEngine(answers);
    return finish(responsesOf(answers, detected), detected);
  }
  const { probes } = adapter;
  const [health, metrics, models, extra] = await Promise.all([
    getHealth(spec.healthPath ?? probes.health),
    getLoad(probes.metrics, probes.metricsFallback),
    get(plan.isFull ? probes.models : null),
    get(plan.isFull ? probes.extra : null),
  ]);
  return finish({ health, metrics, models, extra }, null);
}

type Get = (path: string | null) => Promise<PollResponse | null>;

async function detectionAnswers(
  get: Get,
  getHealth: (path: string) => Promise<PollResponse | null>,
  getLoad: (path: string, fallback: null) => Promise<PollResponse | null>,
  spec: NodeSpec,
): Promise<DetectionAnswers> {
  const [health, metrics, models, props, info] = await Promise.all([
    getHealth(spec.healthPath ?? DETECTION_PATHS.health),
    getLoad(DETECTION_PATHS.metrics, null),
    get(DETECTION_PATHS.models),
    get(DETECTION_PATHS.props),
    get(DETECTION_PATHS.info),
  ]);
  return { health, metrics, models, props, info };
}

/** The answers of a detection serve as the first round of the engine that was found. */
function responsesOf(answers: DetectionAnswers, detected: EngineName | null): PollResponses {
  const { health, metrics, models } = answers;
  const extra = detected === "llamacpp" ? answers.props : detected === "tgi" ? answers.info : null;
  return { health, metrics, models, extra };
}

function countsAt(table: FleetTable, row: number): { own: number; elsewhere: number } {
  return { own: Atomics.load(table.total.inFlight, row), elsewhere: table.elsewhere[row] ?? 0 };
}
