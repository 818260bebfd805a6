/** Tells the poller which nodes to poll. Many that come at once are polled once the workers have them. */

import type { NodeSpec } from "../availability/index.ts";
import type { FleetChange } from "./fleet.ts";

/**
 * From so many new nodes on. Connecting to thousands keeps this thread busy while the workers need it to hand them their
 * slices: to the acknowledgment of 10,000 nodes it took 1.4 s of CPU with the polls, 0.7 to 1.0 s without.
 */
const MANY = 500;

export interface PolledNodes {
  addNode(spec: NodeSpec): void;
  updateNode(spec: NodeSpec): void;
  removeNode(row: number): void;
}

export class PollChanges {
  readonly #poller: PolledNodes;
  /** Nodes that are not polled yet, by row. */
  readonly #waiting = new Map<number, NodeSpec>();

  constructor(poller: PolledNodes) {
    this.#poller = poller;
  }

  /** @param acknowledged when the workers have the version; null: don't wait for that. */
  take({ added, updated, removed }: FleetPollChange, acknowledged: (() => Promise<unknown>) | null): void {
    for (const row of removed) if (!this.#waiting.delete(row)) this.#poller.removeNode(row);
    for (const spec of updated) {
      if (this.#waiting.has(spec.row)) this.#waiting.set(spec.row, spec);
      else this.#poller.updateNode(spec);
    }
    if (acknowledged === null || added.length < MANY) {
      for (const spec of added) this.#poller.addNode(spec);
      return;
    }
    for (const spec of added) this.#waiting.set(spec.row, spec);
    void acknowledged().then(() => this.#begin());
  }

  /** Those that wait never come. */
  stop(): void {
    this.#waiting.clear();
  }

  #begin(): void {
    const specs = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const spec of specs) this.#poller.addNode(spec);
  }
}

type FleetPollChange = Pick<FleetChange, "added" | "updated" | "removed">;
