/** How the gateway itself is, for `GET /admin/v1/status`. */

import type { FleetTable } from "@zml/engine";
import { formatListen, type ListenAddress } from "@zml/protocol";
import type { StatusJson } from "@zml/protocol/admin";
import type { Clock } from "../clock.ts";
import type { KeptDecisions } from "../evidence/kept/kept-decisions.ts";
import { keptStatus } from "../evidence/kept/kept-status.ts";
import type { Store } from "../store/store.ts";
import type { Fleet } from "./fleet.ts";
import type { FileReloads } from "./reload.ts";
import type { Workers } from "./workers.ts";

export interface GatewayStatusSources {
  /** For people. */
  readonly productVersion: string;
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
  readonly clock: Clock;
  readonly fleet: Fleet;
  readonly table: FleetTable;
  readonly workers: Workers;
  readonly reloads: FileReloads;
  /** Null: nothing outlives the process. */
  readonly store: Store | null;
  readonly keptDecisions: KeptDecisions;
  isReady(): boolean;
  addresses(): { readonly data: ListenAddress; readonly admin: ListenAddress };
}

/** All but the counts of objects. */
export function gatewayStatus(sources: GatewayStatusSources): Omit<StatusJson, "objects"> {
  const { reloads, store, workers } = sources;
  const { data, admin } = sources.addresses();
  return {
    product_version: sources.productVersion,
    started_at: new Date(sources.unixOriginMs).toISOString(),
    uptime_seconds: Math.round(sources.clock.nowMs()) / 1000,
    version: sources.fleet.version,
    acknowledged_version: workers.ackedVersion,
    is_ready: sources.isReady(),
    data_address: formatListen(data),
    admin_address: formatListen(admin),
    workers: { configured: sources.table.workers, listening: workers.listening, crashes: workers.crashes },
    store: storeStatus(store),
    decisions: keptStatus(sources.keptDecisions.status),
    reloads: { applied: reloads.applied, refused: reloads.refused, last: reloads.last },
  };
}

function storeStatus(store: Store | null): StatusJson["store"] {
  if (store === null) return { state: "none", reason: null };
  const { state, reason } = store.status;
  return { state, reason };
}
