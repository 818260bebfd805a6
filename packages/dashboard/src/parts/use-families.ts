/** Families that there are, for forms that propose them. */

import { type Following, isTenant } from "../live.ts";
import type { ManagedObject } from "../types.ts";
import { useAnswer } from "./use-answer.ts";

const POLICIES_PATH = "/policies?limit=200";

/** Sorted. A key that is not shown the fleet knows those that its policies name. */
export function useFamilies({ names, who }: Following): string[] {
  const policies = useAnswer<{ items: readonly ManagedObject[] }>(isTenant(who) ? POLICIES_PATH : null).value;
  const named = (policies?.items ?? []).flatMap(({ spec }) => {
    const chain = spec["accelerator_preference"];
    return Array.isArray(chain) ? chain.map(({ family }: { family?: unknown }) => String(family)) : [];
  });
  return [...new Set([...names.family, ...named])].sort();
}
