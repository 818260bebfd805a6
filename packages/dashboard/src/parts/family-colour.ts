/** A family has the same colour on every page. */

const COLOURS = 6;

/** Classes `c0` to `c5` by family, in the order of their names. */
export function familyColours(families: readonly string[]): ReadonlyMap<string, string> {
  const names = [...new Set(families)].filter((name) => name !== "").sort();
  return new Map(names.map((name, at) => [name, `c${at % COLOURS}`]));
}
