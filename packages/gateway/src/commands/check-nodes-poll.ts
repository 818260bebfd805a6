/** What a node says of itself, asked once with the adapters that the router polls with. */

import { createFleetTable } from "@zml/engine";
import type { EngineName, NodeConfig } from "@zml/protocol";
import { type Adapter, adapterFor, type NodeReading } from "../availability/adapters/index.ts";
import type { NodeSpec } from "../availability/index.ts";
import { nodeSpecOf } from "../availability/node-spec.ts";
import type { PollFetch } from "../availability/poll-fetch.ts";
import { pollRound, type RoundPlan, type RoundResult } from "../availability/poll-round.ts";
import type { NodeTls } from "../http1/open-socket.ts";

/** What was found out. */
export interface Polled {
  /** As configured, else as detected; null: not clear. */
  readonly engine: EngineName | null;
  /** What the answers show; null: nothing, or it was not asked. */
  readonly shown: EngineName | null;
  readonly adapter: Adapter;
  readonly reading: NodeReading;
  readonly result: RoundResult;
}

/** The rounds read our own counts of a row: a table of one row without traffic. */
const TABLE = createFleetTable({ nodes: 1, workers: 1 });

/** Asks a node everything that a full round of polls asks, and which engine it is. Never rejects. */
export async function pollOnce(spec: NodeSpec, fetch: PollFetch, signal: AbortSignal): Promise<Polled> {
  const ask = (plan: Omit<RoundPlan, "spec" | "isFull" | "usesFallback">) =>
    pollRound(
      { table: TABLE, fetch, nowMs: () => performance.now() },
      { ...plan, spec, isFull: true, usesFallback: false },
      signal,
    );
  const custom = spec.custom ?? null;
  if (spec.engine === null) {
    const first = await ask({ adapter: null });
    const adapter = adapterFor(first.detected, custom);
    const before = adapter.read(first.responses, null);
    const polled = { engine: first.detected, shown: first.detected, adapter };
    if (first.responses.health === null) return { ...polled, reading: before, result: first };
    const result = await ask({ adapter, reading: before });
    return { ...polled, reading: adapter.read(result.responses, before), result };
  }
  const adapter = adapterFor(spec.engine, custom);
  let result = await ask({ adapter });
  let reading = adapter.read(result.responses, null);
  if ((adapter.loadPaths?.(reading) ?? []).length > 0) {
    result = await ask({ adapter, reading });
    reading = adapter.read(result.responses, reading);
  }
  const polled = { engine: spec.engine, adapter, reading, result };
  if (adapter.detect(result.responses) !== null) return { ...polled, shown: spec.engine };
  // a detection would empty the metrics of the one engine whose page is read once only
  if (result.responses.health === null || spec.engine === "trtllm") return { ...polled, shown: null };
  return { ...polled, shown: (await ask({ adapter: null })).detected };
}

/** A node of the configuration, as it is polled. @param apiKey its own key; null: none. @param tls its own TLS; null: none. */
export function specOf(config: NodeConfig, apiKey: string | null, tls: NodeTls | null): NodeSpec {
  return { row: 0, ...nodeSpecOf(config, { apiKey, tls }), placements: [] };
}
