/** What of a configuration the poller has to know. Pure. */

import type { NodeSpec } from "../availability/index.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { FleetNode } from "./fleet.ts";
import type { NameRegistry } from "./name-registry.ts";

/** A node as it is polled. */
export function pollerNode(entry: FleetNode, secrets: ConfigSecrets, names: NameRegistry): NodeSpec {
  const { config } = entry;
  const upstream = new Map(config.models?.map(({ name, upstreamModel }) => [name, upstreamModel]));
  return {
    row: entry.row,
    id: config.id,
    url: config.url,
    engine: config.engine,
    apiKey: secrets.nodes.get(config.id)?.reveal() ?? null,
    healthPath: config.engine === "custom" ? config.custom.healthPath : null,
    isHealthPathStated: config.engine === "custom" && config.custom.isStated,
    metricsUrl: config.metricsUrl,
    custom: config.engine === "custom" ? config.custom : null,
    gpuExporter: config.gpuExporter,
    allowsLinkLocal: config.allowLinkLocal,
    health: config.health,
    maxInFlight: config.maxInFlight,
    placements: [...entry.placements].flatMap(([name, placement]) => {
      const model = names.models.find(config.account, name);
      return model < 0 ? [] : [{ model, name, upstreamId: upstream.get(name) ?? name, placement }];
    }),
  };
}
