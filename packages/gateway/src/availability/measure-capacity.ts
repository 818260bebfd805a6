/** Capacity out of a round: of each model where the node splits its numbers, else of the whole node. */

import { CapacityMeter, type CapacitySample, type FleetTable } from "@zml/engine";
import type { Adapter, NodeReading } from "./adapters/index.ts";
import type { RoundResult } from "./poll-round.ts";
import type { PolledNode } from "./polled-node.ts";

/** A measured capacity of one model, by the node's name for it; null: of every model of the node. */
export interface MeasuredCapacity {
  readonly upstreamId: string | null;
  readonly sample: CapacitySample;
}

/** Takes the engine's counters, or else what our own attempts brought, and returns what they complete. */
export function measureCapacity(
  node: PolledNode,
  adapter: Adapter,
  reading: NodeReading,
  { table, result, nowMs }: { table: FleetTable; result: RoundResult; nowMs: number },
): MeasuredCapacity[] {
  const { running, waiting, concurrencyLimit, generationTokensTotal, byModel } = reading;
  const scrape = { atMs: result.scrapedAtMs, uncertainMs: result.scrapeUncertainMs, concurrencyLimit };
  const ofOwn = node.ownMeter.take(
    {
      atMs: nowMs,
      uncertainMs: 0,
      tokensTotal: node.ownTokens,
      running: Atomics.load(table.total.inFlight, node.spec.row),
      waiting,
      concurrencyLimit,
    },
    "completion",
  );
  if (byModel !== null) {
    const served = new Set(byModel.map(({ id }) => id));
    for (const id of node.modelMeters.keys()) if (!served.has(id)) node.modelMeters.delete(id);
    return byModel.flatMap((load) => {
      const meter = node.modelMeters.get(load.id) ?? new CapacityMeter();
      node.modelMeters.set(load.id, meter);
      const sample = meter.take(
        { ...scrape, tokensTotal: load.generationTokensTotal, running: load.running, waiting: load.waiting },
        adapter.countsTokensAt,
      );
      return sample === null ? [] : [{ upstreamId: load.id, sample }];
    });
  }
  const ofEngine = node.meter.take(
    { ...scrape, tokensTotal: generationTokensTotal, running, waiting },
    adapter.countsTokensAt,
  );
  const sample = Number.isNaN(generationTokensTotal) ? ofOwn : ofEngine;
  return sample === null ? [] : [{ upstreamId: null, sample }];
}
