/** What the poller has to know about a node. */

import type { PlacementCapabilities } from "@zml/engine";
import type { CustomConfig, EngineName, GpuExporterConfig, NodeConfig } from "@zml/protocol";
import type { NodeTls } from "../http1/open-socket.ts";

/** A model on a node. */
export interface PlacementSpec {
  /** Index of the model in the fleet table. */
  readonly model: number;
  /** Name that callers use. */
  readonly name: string;
  /** Name that the node uses. */
  readonly upstreamId: string;
  /** Placement row. */
  readonly placement: number;
  /** What the operator states about it, which wins over what the node tells; absent: nothing. */
  readonly stated?: PlacementCapabilities;
}

/** When a node is asked, and when it counts as down. */
export interface HealthSettings {
  /** No row is older than this while its node answers within 500 ms. */
  readonly pollIntervalMs: number;
  /** A poll ends after this, whatever came. */
  readonly timeoutMs: number;
  /** Failed polls in a row that take the node out. */
  readonly unhealthyAfter: number;
  /** Good polls in a row that bring it back. */
  readonly healthyAfter: number;
  /** Looks in a row at a standstill, while requests run, that take the node out. Default: 6. */
  readonly stalledAfter?: number;
}

/** One node to be polled. The row and its placements are taken in the fleet table by the caller. */
export interface NodeSpec {
  readonly row: number;
  readonly id: string;
  /** Base URL, with prefix. */
  readonly url: string;
  /** Null: detect it. */
  readonly engine: EngineName | null;
  /** Sent with every poll as a bearer token; null: none. */
  readonly apiKey: string | null;
  /** In place of the engine's health path; null: the engine's. */
  readonly healthPath: string | null;
  /** The operator named `healthPath`: a refusal there (404 and the like) is then no sign of life. Default false. */
  readonly isHealthPathStated?: boolean;
  /** Page of its metrics, where that is not on its own port; default: the engine's path. */
  readonly metricsUrl?: string | null;
  /** How a `custom` node is read; default: health and models only. */
  readonly custom?: CustomConfig | null;
  /** Second source of its free memory; default: none. */
  readonly gpuExporter?: GpuExporterConfig | null;
  /** Its name in TLS and in the host field; default: the host of its url. */
  readonly serverName?: string | null;
  /** Its addresses may be link-local. Default false. */
  readonly allowsLinkLocal?: boolean;
  /** Default: the system's authorities, the host's name. */
  readonly tls?: NodeTls | null;
  readonly health: HealthSettings;
  /** Null: from the engine. */
  readonly maxInFlight: number | null;
  readonly placements: readonly PlacementSpec[];
}

/** What a configuration says about a node, without a row and models. @param apiKey its own key; null: none. */
export function nodeSpecOf(
  config: NodeConfig,
  { apiKey, tls }: { apiKey: string | null; tls: NodeTls | null },
): Omit<NodeSpec, "row" | "placements"> {
  const custom = config.engine === "custom" ? config.custom : null;
  return {
    id: config.id,
    url: config.url,
    engine: config.engine,
    apiKey,
    healthPath: custom?.healthPath ?? null,
    isHealthPathStated: custom?.isStated ?? false,
    metricsUrl: config.metricsUrl,
    custom,
    gpuExporter: config.gpuExporter,
    serverName: config.serverName,
    allowsLinkLocal: config.allowLinkLocal,
    tls,
    health: config.health,
    maxInFlight: config.maxInFlight,
  };
}
