/** Checks one node end to end, under one deadline. */

import type { Endpoint } from "@zml/engine";
import type { Config, NodeConfig, ServedModel } from "@zml/protocol";
import type { PollFetch } from "../availability/poll-fetch.ts";
import { pathOf } from "../availability/url.ts";
import type { NodeTls } from "../http1/open-socket.ts";
import { askModel } from "./check-nodes-ask.ts";
import type { AskedModel, Findings } from "./check-nodes-findings.ts";
import { askHttp2, type Http2Answer } from "./check-nodes-http2.ts";
import { type Polled, pollOnce, specOf } from "./check-nodes-poll.ts";
import { reach, type SocketTarget, watchIdle } from "./check-nodes-socket.ts";

export interface CheckOptions {
  readonly config: NodeConfig;
  /** The node's own key; null: none. */
  readonly apiKey: string | null;
  /** Its own TLS; null: the system's authorities. */
  readonly tls: NodeTls | null;
  /** Models that the file registers, of any account. */
  readonly registered: Config["models"];
  readonly fetch: PollFetch;
  /** For everything, ms. */
  readonly timeoutMs: number;
}

/** Models that are asked where the file does not say which there are. */
const MODELS_MAX = 16;
/** Of one node at once: a check is no load test. */
const ASKED_AT_ONCE = 2;
/** An idle connection is watched no longer than this, ms; the default of `keep_alive_ms` is 4000. */
const IDLE_MS_MAX = 10_000;

/** Never rejects, and ends in time whatever the node does. */
export async function checkNode(options: CheckOptions): Promise<Findings> {
  const { config, apiKey, tls, fetch, timeoutMs } = options;
  const signal = AbortSignal.timeout(timeoutMs);
  const spec = specOf(config, apiKey, tls);
  const { url, serverName, allowLinkLocal, timeouts, health, keepAliveMs } = config;
  const target = { url, serverName, allowsLinkLocal: allowLinkLocal, tls, connectMs: timeouts.connectMs, signal };
  const nothing = { config, polled: null, keepAlive: null, http2: null, models: [], unasked: 0 };
  const reached = await reach(target);
  if (!reached.isReached) return { ...nothing, reach: reached, nowMs: Date.now() };
  const watched = watchIdle(reached.socket, {
    host: serverName ?? new URL(url).host,
    path: pathOf(url, spec.healthPath ?? "/health"),
    waitMs: Math.min(keepAliveMs, IDLE_MS_MAX),
    signal,
  });
  const http2 = config.httpVersion === "2" ? sayHello(target) : null;
  const poll = () => pollOnce(spec, fetch, AbortSignal.any([signal, AbortSignal.timeout(health.timeoutMs)]));
  let polled = await poll();
  const isAnswering = polled.result.responses.health !== null || polled.reading.models !== null;
  const { chosen, unasked } = isAnswering ? modelsToAsk(options, polled) : { chosen: [], unasked: 0 };
  const models = await atMost(ASKED_AT_ONCE, chosen, async (served): Promise<AskedModel> => {
    const endpoints = endpointsOf(served, polled);
    const question = { model: served.upstreamModel, endpoints, adapter: polled.adapter };
    return { served, asked: await askModel(spec, question, signal) };
  });
  // some engines tell their load from the first request on
  if (Number.isNaN(polled.reading.running) && models.some(({ asked }) => asked.verdict === "success"))
    polled = await poll();
  const [keepAlive, answer] = await Promise.all([watched, http2]);
  return { config, reach: reached, polled, keepAlive, http2: answer, models, unasked, nowMs: Date.now() };
}

/** Models are asked and polls are made over HTTP/1.1: traffic to this node will not be. */
async function sayHello(target: SocketTarget): Promise<Http2Answer> {
  const reached = await reach({ ...target, protocol: "h2" });
  const signal = AbortSignal.any([target.signal, AbortSignal.timeout(target.connectMs)]);
  // a handshake without a common protocol ends with an alert
  return reached.isReached ? askHttp2(reached.socket, signal) : "alpn";
}

/** Those that the file states for the node, else those that it reports: registered ones first. */
function modelsToAsk(
  { config, registered }: CheckOptions,
  { reading }: Polled,
): { chosen: ServedModel[]; unasked: number } {
  if (config.models !== null) return { chosen: [...config.models], unasked: 0 };
  const names = new Set(registered.filter(({ account }) => account === config.account).map(({ name }) => name));
  const reported = (reading.models ?? []).map(({ id }) => id);
  const wanted = reported.filter((id) => names.has(id));
  const chosen = (wanted.length > 0 ? wanted : reported).slice(0, MODELS_MAX);
  return {
    chosen: chosen.map((name) => ({
      name,
      upstreamModel: name,
      contextTokens: Number.NaN,
      readsImages: null,
      endpoints: null,
      adapterOf: null,
    })),
    unasked: reported.length - chosen.length,
  };
}

function endpointsOf(
  { upstreamModel, endpoints }: ServedModel,
  { adapter, reading }: Polled,
): readonly Endpoint[] | null {
  const reported = reading.models?.find(({ id }) => id === upstreamModel)?.endpoints ?? null;
  return endpoints ?? reported ?? adapter.capabilities(reading).endpoints;
}

/** Runs `work` on each, `limit` at once; results in order. */
export async function atMost<T, R>(limit: number, items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(items.length);
  const waiting = items.entries();
  const run = async (): Promise<void> => {
    for (const [index, item] of waiting) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, run));
  return results;
}
