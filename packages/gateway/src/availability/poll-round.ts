/** One round of polls of one node: every path at once, under one deadline. */

import type { FleetTable } from "@zml/engine";
import type { EngineName } from "@zml/protocol";
import type { Adapter, FactProbe, NodeReading, PollResponse, PollResponses } from "./adapters/adapter.ts";
import { DETECTION_PATHS, detectEngine } from "./adapters/detect.ts";
import { adapterFor } from "./adapters/index.ts";
import type { NodeSpec } from "./node-spec.ts";
import { isAnswered, PollError, type PollFault, type PollFetch } from "./poll-fetch.ts";
import { pathOf } from "./url.ts";

/** What to ask in a round. */
export interface RoundPlan {
  readonly spec: NodeSpec;
  /** Null: find out which engine it is. */
  readonly adapter: Adapter | null;
  /** Also models and limits, which change rarely. */
  readonly isFull: boolean;
  /** What the node said last; null, the default: nothing. */
  readonly reading?: NodeReading | null;
  /** The node refused the metrics path before: ask the adapter's fallback. */
  readonly usesFallback: boolean;
}

/** What came back. */
export interface RoundResult {
  readonly responses: PollResponses;
  /** Engine that was found, null: none was looked for, or it is not clear yet. */
  readonly detected: EngineName | null;
  /** Why the health path gave no answer, or none that can be read; null: it gave one. */
  readonly healthFault: PollFault | null;
  /** The same of the metrics path. */
  readonly metricsFault: PollFault | null;
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
  let metricsFault: PollFault | null = null;
  const headers = { accept: "*/*", "user-agent": "zml" };
  const withKey = spec.apiKey === null ? headers : { ...headers, authorization: `Bearer ${spec.apiKey}` };
  const { serverName = null, allowsLinkLocal = false, tls = null } = spec;
  const target = { headers: withKey, signal, serverName, allowsLinkLocal, tls };
  const get = async (path: string | null, waitMs?: number): Promise<PollResponse | null> => {
    if (path === null) return null;
    try {
      const bounded = waitMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
      return await fetch({ ...target, ...addressOf(spec, path), signal: bounded });
    } catch (error) {
      return isAnswered(error) ? UNUSABLE : null;
    }
  };
  const getMetrics = async (path: string | null): Promise<PollResponse | null> => {
    if (path === null) return null;
    const { metricsUrl = null } = spec;
    metricsFault = null;
    try {
      if (metricsUrl === null) return await fetch({ ...target, ...addressOf(spec, path) });
      // the key is the node's: another host does not get it
      const isSameHost = new URL(metricsUrl).hostname === new URL(spec.url).hostname;
      const own = isSameHost ? { serverName, headers: withKey } : { serverName: null, tls: null, headers };
      return await fetch({ ...target, ...partsOf(metricsUrl), ...own });
    } catch (error) {
      metricsFault = faultOf(error);
      return isAnswered(error) ? UNUSABLE : null;
    }
  };
  const getHealth = async (path: string): Promise<PollResponse | null> => {
    try {
      const response = await fetch({ ...target, ...addressOf(spec, path) });
      const isRefusal = response.status >= 400 && spec.isHealthPathStated === true;
      return isRefusal ? { ...response, status: NOT_READY } : response;
    } catch (error) {
      healthFault = faultOf(error);
      return isAnswered(error) ? UNUSABLE : null;
    }
  };
  const load = countsAt(table, row);
  let loadAfter = load;
  let askedAtMs = nowMs();
  let answeredAtMs = askedAtMs;
  let usesFallback = plan.usesFallback;
  const getLoad = async (path: string | null, fallback: string | null): Promise<PollResponse | null> => {
    let response = await getMetrics(usesFallback ? fallback : path);
    const hasFallback = fallback !== null && (spec.metricsUrl ?? null) === null;
    if (!usesFallback && hasFallback && (response?.status === 501 || response?.status === 404)) {
      usesFallback = true;
      askedAtMs = nowMs();
      response = await getMetrics(fallback);
    }
    loadAfter = countsAt(table, row);
    answeredAtMs = nowMs();
    return response;
  };
  const finish = (responses: PollResponses, detected: EngineName | null): RoundResult => ({
    responses,
    detected,
    healthFault,
    metricsFault,
    usesFallback,
    scrapedAtMs: (askedAtMs + answeredAtMs) / 2,
    scrapeUncertainMs: (answeredAtMs - askedAtMs) / 2,
    ownAtScrape: (load.own + loadAfter.own) / 2,
    elsewhereAtScrape: (load.elsewhere + loadAfter.elsewhere) / 2,
  });

  if (adapter === null) {
    const [health, metrics, models, facts] = await Promise.all([
      getHealth(spec.healthPath ?? DETECTION_PATHS.health),
      getLoad(DETECTION_PATHS.metrics, null),
      get(DETECTION_PATHS.models),
      factsOf(
        get,
        DETECTION_PATHS.facts.map((path) => ({ path })),
      ),
    ]);
    const answers = { health, metrics, models, facts };
    const detected = detectEngine(answers);
    return finish(firstRoundOf(answers, spec, detected), detected);
  }
  const { probes } = adapter;
  const [health, metrics, models, facts] = await Promise.all([
    getHealth(spec.healthPath ?? probes.health),
    getLoad(probes.metrics, probes.metricsFallback),
    get(plan.isFull ? probes.models : null),
    factsOf(get, [...(plan.isFull ? probes.facts : []), ...loadProbesOf(plan)]),
  ]);
  return finish({ health, metrics: isFailing(metrics) ? null : metrics, models, facts }, null);
}

/** A page that fails says as little as one that is late. 501 is what an engine says that has none. */
function isFailing(metrics: PollResponse | null): boolean {
  return metrics !== null && metrics.status >= 500 && metrics.status !== 501;
}

function loadProbesOf({ adapter, reading = null }: RoundPlan): readonly FactProbe[] {
  const paths = reading === null ? [] : (adapter?.loadPaths?.(reading) ?? []);
  return paths.map((path) => ({ path }));
}

interface Address {
  readonly origin: string;
  readonly path: string;
}

/** Addresses that were made once: reading URLs would be a tenth of what a round costs besides its sockets. */
const addresses = new WeakMap<NodeSpec, Map<string, Address>>();

/** Where a probe goes: below the node's URL, or to another port of its host. */
function addressOf(spec: NodeSpec, probe: string): Address {
  const ofNode = addresses.get(spec) ?? new Map<string, Address>();
  addresses.set(spec, ofNode);
  const address = ofNode.get(probe) ?? makeAddress(spec.url, probe);
  ofNode.set(probe, address);
  return address;
}

function makeAddress(url: string, probe: string): Address {
  const { origin, protocol, hostname } = new URL(url);
  const [, port, path = "/"] = /^:(\d+)(\/.*)?$/.exec(probe) ?? [];
  return port === undefined
    ? { origin, path: pathOf(url, probe) }
    : { origin: `${protocol}//${hostname}:${port}`, path };
}

function partsOf(url: string): Address {
  const { origin, pathname, search } = new URL(url);
  return { origin, path: pathname + search };
}

function faultOf(error: unknown): PollFault {
  return error instanceof PollError ? error.fault : "reset";
}

async function factsOf(
  get: (path: string, waitMs?: number) => Promise<PollResponse | null>,
  probes: readonly FactProbe[],
): Promise<PollResponses["facts"]> {
  const answers = probes.map(async ({ path, waitMs }) => [path, await get(path, waitMs)] as const);
  return Object.fromEntries(await Promise.all(answers));
}

/** The answers of a detection, put where the engine that was found looks for them: they serve as its first round. */
function firstRoundOf(answers: PollResponses, spec: NodeSpec, detected: EngineName | null): PollResponses {
  const { probes } = adapterFor(detected);
  const byPath: Record<string, PollResponse | null> = {
    ...answers.facts,
    [DETECTION_PATHS.metrics]: answers.metrics,
    [DETECTION_PATHS.models]: answers.models,
    [spec.healthPath ?? DETECTION_PATHS.health]: answers.health,
  };
  const at = (path: string | null) => (path === null ? null : (byPath[path] ?? null));
  return {
    health: at(spec.healthPath ?? probes.health),
    metrics: at(probes.metrics),
    models: at(probes.models),
    facts: byPath,
  };
}

function countsAt(table: FleetTable, row: number): { own: number; elsewhere: number } {
  return { own: Atomics.load(table.total.inFlight, row), elsewhere: table.elsewhere[row] ?? 0 };
}
