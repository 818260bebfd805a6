/**
 * Polls of all nodes by all gateways: what a gateway knows is as old as its last poll. A node that is down refuses, one
 * in a blackout is silent.
 */

import type { Reading, VirtualGateway } from "./virtual-gateway.ts";
import type { VirtualNode } from "./virtual-node.ts";

/** Polls where every decision sees the load as it is: they still bring the counters. */
const HOUSEKEEPING_MS = 50;

/** One look of a gateway at every node. */
interface Snapshot {
  readonly readAtMs: number;
  readonly readings: readonly (Reading | "refused" | "silent")[];
  /** Own requests in flight at the look. */
  readonly own: Int32Array;
}

export class Polls {
  /** Between two polls of a gateway, ms. */
  readonly everyMs: number;
  /** From reading to knowing, ms. */
  readonly delayMs: number;
  /** Failures that hold a node down, and blackouts that hide it; several may overlap. */
  readonly downs: Int32Array;
  readonly blackouts: Int32Array;

  readonly #isFresh: boolean;
  readonly #nodes: readonly VirtualNode[];
  readonly #gateways: readonly VirtualGateway[];
  /** Looks that are not known yet, by gateway. */
  readonly #onTheWay: Snapshot[][];

  /** @param options `intervalMs` 0: every decision sees the load as it is. */
  constructor(
    nodes: readonly VirtualNode[],
    gateways: readonly VirtualGateway[],
    { intervalMs, delayMs }: { intervalMs: number; delayMs: number },
  ) {
    this.#nodes = nodes;
    this.#gateways = gateways;
    this.#isFresh = intervalMs === 0;
    this.everyMs = intervalMs > 0 ? intervalMs : HOUSEKEEPING_MS;
    this.delayMs = delayMs;
    this.downs = new Int32Array(nodes.length);
    this.blackouts = new Int32Array(nodes.length);
    this.#onTheWay = gateways.map(() => []);
  }

  /** Looks at every node. True: what it saw is known after `delayMs`, by a call of `know`. */
  read(index: number, nowMs: number): boolean {
    const snapshot = this.#look(index, nowMs);
    if (this.delayMs === 0) this.#take(index, snapshot, nowMs);
    else this.#onTheWay[index]?.push(snapshot);
    return this.delayMs > 0;
  }

  /** The oldest look that is on its way has come. */
  know(index: number, nowMs: number): void {
    const snapshot = this.#onTheWay[index]?.shift();
    if (snapshot !== undefined) this.#take(index, snapshot, nowMs);
  }

  /** The first look, before any request, is known at once. */
  begin(index: number): void {
    this.#take(index, this.#look(index, 0), 0);
  }

  /** Before a decision: load as it is, where numbers do not age. */
  freshen(gateway: VirtualGateway): void {
    if (!this.#isFresh) return;
    for (const [row, node] of this.#nodes.entries()) {
      if (this.isDown(row) || (this.blackouts[row] as number) > 0) continue;
      const ownAtScrape = gateway.table.total.inFlight[row] as number;
      gateway.noteLoad(row, { running: node.runningCount, waiting: node.waitingCount }, ownAtScrape);
    }
  }

  isDown(row: number): boolean {
    return (this.downs[row] as number) > 0;
  }

  #look(index: number, readAtMs: number): Snapshot {
    const readings = this.#nodes.map((node, row) => {
      if (this.isDown(row)) return "refused";
      return (this.blackouts[row] as number) > 0 ? "silent" : readingOf(node, readAtMs);
    });
    const own = this.#gateways[index]?.table.total.inFlight.slice(0, this.#nodes.length) ?? new Int32Array(0);
    return { readAtMs, readings, own };
  }

  #take(index: number, { readAtMs, readings, own }: Snapshot, nowMs: number): void {
    const gateway = this.#gateways[index];
    for (const [row, reading] of readings.entries()) {
      if (typeof reading !== "string") {
        gateway?.takeReading(row, reading, { readAtMs, nowMs, ownAtScrape: own[row] as number });
      } else gateway?.missReading(row, { startMs: readAtMs, isRefused: reading === "refused", nowMs });
    }
  }
}

function readingOf(node: VirtualNode, nowMs: number): Reading {
  return {
    running: node.runningCount,
    waiting: node.waitingCount,
    outputTokens: node.outputTokensAt(nowMs),
    kvUse: node.usedTokens / node.capacityTokens,
  };
}
