/**
 * Samples come up to one message after their attempts ended, when the row may have been given to another node and the
 * placement to another model. Pure.
 */

import type { AttemptSample } from "@zml/engine";
import type { FleetNode } from "./fleet.ts";
import type { NameRegistry } from "./name-registry.ts";
import type { ReportedSample } from "./read-samples.ts";
import { servesAccount } from "./shared-nodes.ts";

/** What tells whose a row is now. */
export interface RowOwners {
  readonly fleet: { nodeAt(row: number): FleetNode | undefined };
  readonly names: NameRegistry;
}

/** Samples of rows that still belong to the node they were taken on; without a placement that is another model's now. */
export function currentSamples(samples: readonly ReportedSample[], { fleet, names }: RowOwners): AttemptSample[] {
  const current: AttemptSample[] = [];
  for (const sample of samples) {
    const node = fleet.nodeAt(sample.row);
    if (node === undefined || names.identities.find(node.config.url, node.config.id) !== sample.identity) continue;
    const model = names.models.nameOf(sample.model);
    const placement =
      model !== null && servesAccount(node.config, model.scope) ? node.placements.get(model.name) : undefined;
    current.push(placement === sample.placement ? sample : { ...sample, placement: -1 });
  }
  return current;
}
