/** What each model on a node is known to be able to do: stated by the operator, else told by the node, else by its engine. */

import { type FleetTable, type PlacementCapabilities, writeCapabilities } from "@zml/engine";
import type { Capabilities, NodeReading } from "./adapters/adapter.ts";
import type { NodeSpec } from "./node-spec.ts";

/**
 * Writes the capabilities of each placement of a node, within one `publish`.
 *
 * @param reading null: the node has told nothing yet. @param ofEngine what any model on its engine can do.
 */
export function writePlacements(
  table: FleetTable,
  spec: NodeSpec,
  reading: NodeReading | null,
  ofEngine: Capabilities,
): void {
  const models = reading?.models ?? [];
  for (const { placement, upstreamId, stated = NOTHING_STATED } of spec.placements) {
    const reported = models.find((model) => model.id === upstreamId);
    // a server with one model answers as that, whatever name it is registered under
    const model = reported ?? (models.length === 1 ? models[0] : undefined);
    writeCapabilities(table, placement, {
      contextTokens: Number.isNaN(stated.contextTokens) ? (model?.contextTokens ?? Number.NaN) : stated.contextTokens,
      readsImages: stated.readsImages ?? model?.readsImages ?? ofEngine.readsImages,
      endpoints: stated.endpoints ?? model?.endpoints ?? ofEngine.endpoints,
    });
  }
}

const NOTHING_STATED: PlacementCapabilities = Object.freeze({
  contextTokens: Number.NaN,
  readsImages: null,
  endpoints: null,
});
