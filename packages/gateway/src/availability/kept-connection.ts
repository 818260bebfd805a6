/**
 * The connection of a node's polls between two rounds. Half of what a round costs is its connection, so it is kept where
 * that is safe; a GET that meets a closed one is asked again on a fresh one.
 */

import type { EngineName } from "@zml/protocol";
import type { NodeConnection } from "../http1/node-connection.ts";

/**
 * Servers to which an idle connection is a few kilobytes. llama.cpp's spends one of its few threads on each, and what a
 * server of no known engine does is unknown.
 */
const KEEPERS: ReadonlySet<EngineName> = new Set<EngineName>(["vllm", "sglang", "tgi", "trtllm"]);

/** uvicorn closes after 5 s without a request: what was idle for longer than this may be closed just now. */
const IDLE_MS_MAX = 4_500;

/** Rounds after which the name is looked up again, as it is for traffic. */
const ROUNDS_MAX = 60;

/** Idle connections of all polls: beyond, a fleet would take the files that traffic needs. */
const KEPT_MAX = 4_096;

/** Idle connections of one poller. */
export class KeptConnections {
  #count = 0;

  /** A place for one node's connection. */
  createPlace(): KeptPlace {
    return new KeptPlace({
      take: () => {
        if (this.#count >= KEPT_MAX) return false;
        this.#count += 1;
        return true;
      },
      give: () => {
        this.#count -= 1;
      },
    });
  }
}

/** At most one idle connection. */
export class KeptPlace {
  readonly #budget: { take(): boolean; give(): void };
  #connection: NodeConnection | null = null;
  #keptAtMs = Number.NaN;
  #rounds = 0;

  constructor(budget: { take(): boolean; give(): void }) {
    this.#budget = budget;
  }

  /** The connection, for a round that starts now; null: there is none that may be used. Monotonic clock, ms. */
  take(nowMs: number): NodeConnection | null {
    const connection = this.#connection;
    if (connection === null) return null;
    const isFresh = nowMs - this.#keptAtMs <= Math.min(IDLE_MS_MAX, hintOf(connection));
    if (isFresh && this.#rounds < ROUNDS_MAX) {
      this.#connection = null;
      this.#budget.give();
      return connection;
    }
    this.close();
    return null;
  }

  /** True when a connection of this engine may be kept for so long. */
  mayKeep(engine: EngineName | null, idleMs: number): boolean {
    return engine !== null && KEEPERS.has(engine) && idleMs < IDLE_MS_MAX;
  }

  /** Keeps a connection after a round. */
  keep(connection: NodeConnection, nowMs: number): void {
    if (!this.#budget.take()) {
      connection.abort();
      return;
    }
    this.#connection = connection;
    this.#keptAtMs = nowMs;
    this.#rounds += 1;
  }

  /** Closes what is kept. */
  close(): void {
    this.#rounds = 0;
    if (this.#connection === null) return;
    this.#connection.abort();
    this.#connection = null;
    this.#budget.give();
  }
}

function hintOf(connection: NodeConnection): number {
  const hintMs = connection.keepAliveHintMs;
  return Number.isNaN(hintMs) ? Number.POSITIVE_INFINITY : hintMs;
}
