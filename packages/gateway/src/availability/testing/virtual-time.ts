/** A poller in virtual time: its timers run when the test says so, in order, and its nodes are functions. */

import { setImmediate as turn } from "node:timers/promises";
import { createFleetTable, takeNodeRow, takePlacementRow } from "@zml/engine";
import type { NodeSpec } from "../node-spec.ts";
import type { PollClient } from "../poll-fetch.ts";
import { Poller } from "../poller.ts";
import type { PollerOptions } from "../poller-options.ts";

/** Timers and answers in virtual time. */
export class VirtualTime {
  nowMs = 1_000;
  #next = 0;
  readonly #timers = new Map<number, { atMs: number; callback: () => void }>();

  after(delayMs: number, callback: () => void): () => void {
    const id = this.#next++;
    this.#timers.set(id, { atMs: this.nowMs + delayMs, callback });
    return () => this.#timers.delete(id);
  }

  get pending(): number {
    return this.#timers.size;
  }

  /** Runs everything that is due up to `untilMs`; `onStep` sees each moment just before its timers run. */
  async run(untilMs: number, onStep: () => void): Promise<void> {
    for (;;) {
      await turn();
      const due = [...this.#timers].sort(([, a], [, b]) => a.atMs - b.atMs)[0];
      if (due === undefined || due[1].atMs > untilMs) break;
      const [id, { atMs, callback }] = due;
      this.nowMs = Math.max(this.nowMs, atMs);
      onStep();
      this.#timers.delete(id);
      callback();
    }
    this.nowMs = untilMs;
  }
}

/** A poller with its nodes, all vLLM of one model unless told otherwise. */
export function fleetOf(
  time: VirtualTime,
  options: {
    nodes: number;
    client: PollClient;
    random: () => number;
    pollIntervalMs?: number;
    spec?: (row: number) => Partial<NodeSpec>;
    poller?: Partial<PollerOptions>;
  },
) {
  const table = createFleetTable({ nodes: options.nodes, workers: 1 });
  const poller = new Poller({
    table,
    clock: { nowMs: () => time.nowMs, after: (delayMs, callback) => time.after(delayMs, callback) },
    random: options.random,
    client: options.client,
    ...options.poller,
  });
  for (let row = 0; row < options.nodes; row++) {
    takeNodeRow(table, row, { family: 0, identity: row, maxInFlight: 1, cooldownMs: 1, priceUsdPerHour: 1 });
    takePlacementRow(table, row);
    const spec: NodeSpec = {
      row,
      id: `node-${row}`,
      url: `http://node-${row}`,
      engine: "vllm",
      apiKey: null,
      healthPath: null,
      health: { pollIntervalMs: options.pollIntervalMs ?? 5_000, timeoutMs: 4_000, unhealthyAfter: 2, healthyAfter: 1 },
      maxInFlight: null,
      placements: [{ model: 0, name: "m", upstreamId: "m", placement: row }],
      ...options.spec?.(row),
    };
    poller.addNode(spec);
  }
  return { table, poller };
}
