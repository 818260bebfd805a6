/** A long series as a screen can show it: of each stretch the extremes of every line, so that no spike is lost. */

import type { Column } from "../live-model.ts";

/** @param atMs rising. @param pointsMax points of the result, at most. O(points). */
export function thinned(
  atMs: readonly number[],
  lines: readonly { readonly values: Column }[],
  pointsMax: number,
): { atMs: readonly number[]; columns: readonly Column[] } {
  const count = atMs.length;
  if (count <= pointsMax) return { atMs, columns: lines.map(({ values }) => values) };
  // of each line two points of a stretch; the first and the last point stay
  const stretches = Math.max(1, Math.floor((pointsMax - 2) / (2 * Math.max(1, lines.length))));
  const kept = new Set<number>([0, count - 1]);
  for (let stretch = 0; stretch < stretches; stretch++) {
    const from = Math.floor((stretch * count) / stretches);
    const to = Math.floor(((stretch + 1) * count) / stretches);
    for (const { values } of lines) {
      let [least, most] = [-1, -1];
      for (let at = from; at < to; at++) {
        const value = values[at] ?? null;
        if (value === null) continue;
        if (least < 0 || value < (values[least] as number)) least = at;
        if (most < 0 || value > (values[most] as number)) most = at;
      }
      if (least >= 0) kept.add(least);
      if (most >= 0) kept.add(most);
    }
  }
  const places = [...kept].sort((a, b) => a - b);
  return {
    atMs: places.map((at) => atMs[at] as number),
    columns: lines.map(({ values }) => places.map((at) => values[at] ?? null)),
  };
}
