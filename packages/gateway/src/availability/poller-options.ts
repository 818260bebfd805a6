/** What a poller works with, and whom it tells. */

import type { FleetTable } from "@zml/engine";
import type { EngineName } from "@zml/protocol";
import type { NodeReading, ReportedModel } from "./adapters/index.ts";
import type { PollClient } from "./poll-fetch.ts";
import type { DownCause } from "./polled-node.ts";

/** Time, as the poller sees it. */
export interface PollerClock {
  /** Engine clock, ms. */
  nowMs(): number;
  /** Runs `callback` after `delayMs`. Returns what cancels it. Default: `setTimeout`. */
  after?(delayMs: number, callback: () => void): () => void;
}

/** Settings of the whole fleet. */
export interface FleetHealthSettings {
  /** Share of a model's nodes that may be out by health alone, 0..1. */
  readonly maxEjectedShare: number;
  /** Polls at once of nodes that answered last time, and as many of those that did not. */
  readonly maxPollsAtOnce: number;
}

/** What a poller works with. Callbacks run on the caller's thread, right after the row was published. */
export interface PollerOptions {
  readonly table: FleetTable;
  readonly clock: PollerClock;
  /** 0 ≤ x < 1. Default: `Math.random`. */
  readonly random?: () => number;
  /** Default: real sockets. */
  readonly client?: PollClient;
  /** Time of the last success that the data plane saw on a row, engine clock ms; NaN: none. Default: the table's. */
  readonly lastTrafficAtMs?: (row: number) => number;
  /** The models that a node reports, at first and when they changed; declared models don't matter here. */
  readonly onModels?: (row: number, models: readonly ReportedModel[]) => void;
  /** The engine of a node: as configured, or as found out. */
  readonly onEngine?: (row: number, engine: EngineName) => void;
  readonly onReading?: (row: number, reading: NodeReading) => void;
  /**
   * A node was taken out. On `refused` (also later, when a silent node begins to refuse) nothing listens there any
   * more, so that requests before their commit point can be failed.
   */
  readonly onDown?: (row: number, cause: DownCause) => void;
  readonly onUp?: (row: number) => void;
  /** Health would take the node out, and too many nodes of a model of it are out already: it stays in, or is again. */
  readonly onKeptIn?: (row: number, cause: DownCause) => void;
  /** An exception in a poll or in one of these callbacks, a fault of ours. The poll counts as failed; polls go on. */
  readonly onError?: (row: number, error: unknown) => void;
}
