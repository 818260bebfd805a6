/** What a check of a node finds out, and the judgements that it makes of that. */

import type { NodeConfig, ServedModel } from "@zml/protocol";
import type { Asked } from "./check-nodes-ask.ts";
import type { Http2Answer } from "./check-nodes-http2.ts";
import type { Polled } from "./check-nodes-poll.ts";
import type { KeepAlive, Reach } from "./check-nodes-socket.ts";

/** What is looked at, in the order of the output. */
export const POINTS = [
  "reachable",
  "tls",
  "http2",
  "ready",
  "engine",
  "platform",
  "model",
  "context",
  "limit",
  "metrics",
  "keep_alive",
  "price",
  "router",
] as const;

/** Green: as it should be. Yellow: it works, and something is worse than it could be, or can't be told. Red: it fails. */
export type Level = "green" | "yellow" | "red";

/** A judgement. */
export interface Point {
  readonly point: (typeof POINTS)[number];
  /** The model that it is about, as callers name it; null: the node. */
  readonly model: string | null;
  readonly level: Level;
  readonly text: string;
  /** What to do; null: nothing. */
  readonly advice: string | null;
}

/** A model that was asked. */
export interface AskedModel {
  readonly served: ServedModel;
  readonly asked: Asked;
}

/** Everything that was found out about a node. */
export interface Findings {
  readonly config: NodeConfig;
  readonly reach: Reach;
  /** Null: not reached. */
  readonly polled: Polled | null;
  readonly keepAlive: KeepAlive | null;
  /** Null: the node is not spoken to in HTTP/2. */
  readonly http2: Http2Answer | null;
  readonly models: readonly AskedModel[];
  /** Models that were left out, since there are too many to ask. */
  readonly unasked: number;
  /** Wall clock, ms. */
  readonly nowMs: number;
}

/** A judgement about the node as a whole. */
export function point(name: Point["point"], level: Level, text: string, advice: string | null = null): Point {
  return { point: name, model: null, level, text, advice };
}
