/**
 * Speeds that decisions use: measured, else the family's median for the model, else the family's, else the default. The
 * default for a family that has shown nothing yet is what the model does on the others: a fixed number would put every
 * new family far behind or far before those that are measured, and a family that is far behind never gets the traffic
 * that would show what it can. Only where nobody has shown anything is it a number.
 */

import { medianOfKnown } from "./throughput.ts";

/** A placement with what its medians are grouped by. */
export interface PlacementSpeed {
  readonly family: number;
  readonly model: number;
  /** Tokens/s; NaN: not measured. */
  readonly measured: number;
}

/**
 * The speed of each placement, in order, tokens/s. O(n log n).
 *
 * @param fallback where nobody has shown anything, tokens/s.
 */
export function effectiveSpeeds(placements: readonly PlacementSpeed[], fallback: number): Float64Array {
  const ofModel = new Map<string, number[]>();
  const ofFamily = new Map<number, number[]>();
  const elsewhere = new Map<number, number[]>();
  for (const { family, model, measured } of placements) {
    if (Number.isNaN(measured)) continue;
    push(ofModel, `${family} ${model}`, measured);
    push(ofFamily, family, measured);
    push(elsewhere, model, measured);
  }
  const medianOfModel = medians(ofModel);
  const medianOfFamily = medians(ofFamily);
  const medianElsewhere = medians(elsewhere);
  return Float64Array.from(placements, ({ family, model, measured }) => {
    if (!Number.isNaN(measured)) return measured;
    const shown = medianOfModel.get(`${family} ${model}`) ?? medianOfFamily.get(family) ?? medianElsewhere.get(model);
    return shown ?? fallback;
  });
}

function push<K>(groups: Map<K, number[]>, key: K, value: number): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [value]);
  else group.push(value);
}

function medians<K>(groups: ReadonlyMap<K, readonly number[]>): Map<K, number> {
  return new Map(Array.from(groups, ([key, values]) => [key, medianOfKnown(values)]));
}
