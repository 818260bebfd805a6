/** Which models a node serves, by what the file says and what the node tells. Pure. */

import type { PlacedModel } from "./compile-directory.ts";
import type { FleetNode } from "./fleet.ts";

/** Names of what a node serves: what it declares, else what it last reported. */
export function servedNames({ config, reported }: FleetNode): string[] {
  if (config.models !== null) return [...new Set(config.models.map(({ name }) => name))];
  return [...new Set((reported ?? []).map(({ id }) => id))];
}

/** The models that a node serves, with what each is an adapter of: as stated, else as the node told. */
export function placedModels({ config, reported, placements }: FleetNode): PlacedModel[] {
  const isAnyAdapter = config.models?.some((model) => model.adapterOf !== null) ?? false;
  if (!isAnyAdapter && !(reported?.some((model) => model.parent !== null) ?? false)) {
    return Array.from(placements, ([name, placement]) => ({ name, placement, adapterOf: null }));
  }
  const stated = new Map(config.models?.map((model) => [model.name, model]));
  const told = new Map(reported?.map((model) => [model.id, model.parent]));
  const upstreamOf = (name: string) => stated.get(name)?.upstreamModel ?? name;
  // a node tells its own names; several names of callers may stand for one of them, and the first will do
  const names = new Map([...placements.keys()].reverse().map((name) => [upstreamOf(name), name]));
  return Array.from(placements, ([name, placement]) => {
    const parent = told.get(upstreamOf(name)) ?? null;
    const ofNode = parent === null ? null : (names.get(parent) ?? parent);
    return { name, placement, adapterOf: stated.get(name)?.adapterOf ?? ofNode };
  });
}
