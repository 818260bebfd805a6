/**
 * Speeds that decisions use: measured, else the family's median for the model, else the family's, else the default. The
 * default for a family that has shown nothing yet is what the model does on the others: a fixed number would put every
 * new family far behind or far before those that are measured, and a family that is far behind never gets the traffic
 * that would show what it can. Only where nobody has shown anything is it a number.
 */

import {
  DEFAULT_STREAM_TOKENS_PER_SECOND,
  DEFAULT_TOKENS_PER_SECOND,
  type FleetTable,
  medianOfKnown,
  publish,
} from "@zml/engine";

/** A placement with what its medians are grouped by. */
export interface PlacedModel {
  readonly row: number;
  readonly model: number;
  readonly placement: number;
}

/** Writes `tokensPerSecond` and `streamTokensPerSecond` of all placements. O(n log n). */
export function refreshSpeeds(table: FleetTable, placed: readonly PlacedModel[]): void {
  const capacity = effective(table, placed, table.measuredTokensPerSecond, DEFAULT_TOKENS_PER_SECOND);
  const stream = effective(table, placed, table.measuredStreamTokensPerSecond, DEFAULT_STREAM_TOKENS_PER_SECOND);
  publish(table, () => {
    placed.forEach(({ placement }, index) => {
      table.tokensPerSecond[placement] = capacity[index] as number;
      table.streamTokensPerSecond[placement] = stream[index] as number;
    });
  });
}

function effective(
  table: FleetTable,
  placed: readonly PlacedModel[],
  measured: Float64Array,
  fallback: number,
): Float64Array {
  const ofModel = new Map<string, number[]>();
  const ofFamily = new Map<string, number[]>();
  const elsewhere = new Map<string, number[]>();
  const keysOf = (entry: PlacedModel) => {
    const family = `${table.family[entry.row]}`;
    return { family, model: `${family} ${entry.model}` };
  };
  for (const entry of placed) {
    const speed = measured[entry.placement] as number;
    if (Number.isNaN(speed)) continue;
    const { family, model } = keysOf(entry);
    push(ofModel, model, speed);
    push(ofFamily, family, speed);
    push(elsewhere, `${entry.model}`, speed);
  }
  const medianOfModel = medians(ofModel);
  const medianOfFamily = medians(ofFamily);
  const medianElsewhere = medians(elsewhere);
  return Float64Array.from(placed, (entry) => {
    const own = measured[entry.placement] as number;
    if (!Number.isNaN(own)) return own;
    const { family, model } = keysOf(entry);
    return medianOfModel.get(model) ?? medianOfFamily.get(family) ?? medianElsewhere.get(`${entry.model}`) ?? fallback;
  });
}

function push(groups: Map<string, number[]>, key: string, value: number): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [value]);
  else group.push(value);
}

function medians(groups: ReadonlyMap<string, readonly number[]>): Map<string, number> {
  return new Map(Array.from(groups, ([key, values]) => [key, medianOfKnown(values)]));
}
