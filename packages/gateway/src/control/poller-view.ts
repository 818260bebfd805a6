/** What of a configuration the poller has to know. Pure. */

import type { ServedModel } from "@zml/protocol";
import type { NodeSpec } from "../availability/index.ts";
import { nodeSpecOf, type PlacementSpec } from "../availability/node-spec.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { FleetNode } from "./fleet.ts";
import type { NameRegistry } from "./name-registry.ts";
import { nodeTls } from "./worker-view.ts";

/** A node as it is polled. */
export function pollerNode(entry: FleetNode, secrets: ConfigSecrets, names: NameRegistry): NodeSpec {
  const { config } = entry;
  const models = new Map(config.models?.map((served) => [served.name, served]));
  return {
    row: entry.row,
    ...nodeSpecOf(config, {
      apiKey: secrets.nodes.get(config.id)?.reveal() ?? null,
      tls: nodeTls(config.tls, secrets),
    }),
    placements: [...entry.placements].flatMap(([name, placement]) => {
      const model = names.models.find(config.account, name);
      if (model < 0) return [];
      const served = models.get(name);
      const stated = served === undefined ? {} : statedOf(served);
      return [{ model, name, upstreamId: served?.upstreamModel ?? name, placement, ...stated }];
    }),
  };
}

/** What the operator states about a model; nothing where the file says nothing. */
function statedOf({ contextTokens, readsImages, endpoints }: ServedModel): Pick<PlacementSpec, "stated"> {
  const isAnyStated = !Number.isNaN(contextTokens) || readsImages !== null || endpoints !== null;
  return isAnyStated ? { stated: { contextTokens, readsImages, endpoints } } : {};
}
