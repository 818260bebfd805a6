/** Writes the speeds that decisions use into the fleet table. */

import { effectiveSpeeds } from "../availability/speeds.ts";
import { DEFAULT_STREAM_TOKENS_PER_SECOND, DEFAULT_TOKENS_PER_SECOND } from "../bounds.ts";
import { type FleetTable, publish } from "../fleet-table.ts";

/** A placement with what its medians are grouped by. */
export interface PlacedModel {
  readonly row: number;
  readonly model: number;
  readonly placement: number;
}

/** Writes `tokensPerSecond` and `streamTokensPerSecond` of all placements. O(n log n). */
export function refreshSpeeds(table: FleetTable, placed: readonly PlacedModel[]): void {
  const speedsOf = (measured: Float64Array, fallback: number): Float64Array =>
    effectiveSpeeds(
      placed.map(({ row, model, placement }) => ({
        family: table.family[row] as number,
        model,
        measured: measured[placement] as number,
      })),
      fallback,
    );
  const capacity = speedsOf(table.measuredTokensPerSecond, DEFAULT_TOKENS_PER_SECOND);
  const stream = speedsOf(table.measuredStreamTokensPerSecond, DEFAULT_STREAM_TOKENS_PER_SECOND);
  publish(table, () => {
    placed.forEach(({ placement }, index) => {
      table.tokensPerSecond[placement] = capacity[index] as number;
      table.streamTokensPerSecond[placement] = stream[index] as number;
    });
  });
}
