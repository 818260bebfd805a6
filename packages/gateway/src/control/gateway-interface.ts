/** A gateway from outside: what it is started with, and what it can be asked. */

import type { Config } from "@zml/protocol";
import type { DecisionJson } from "@zml/protocol/admin";
import type { ConfigSource } from "../config/read-config.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { Predecessor } from "../takeover/predecessor.ts";
import type { FleetReportJson } from "./fleet-report.ts";
import type { GatewayLog, LogControl } from "./gateway-log.ts";
import type { ManagedObjects } from "./objects/managed-objects.ts";
import type { IsAsRead, ReadAgain, ReloadResult } from "./reload.ts";

export interface GatewayOptions {
  readonly config: Config;
  readonly secrets: ConfigSecrets;
  /** The file that both are from. */
  readonly source: ConfigSource;
  /** For people. */
  readonly productVersion?: string;
  /** Default: silent. */
  readonly log?: GatewayLog;
  /** Where `log` writes, as far as the gateway changes it. Default: nowhere. */
  readonly logControl?: LogControl;
  /** Reads the configuration anew; absent: `reload` refuses. */
  readonly readAgain?: ReadAgain;
  /** Whether that would find what was read before, without waiting for anything. Default: no. */
  readonly isAsRead?: IsAsRead;
  /** Folder of the store. Absent or ":memory:": nothing outlives the process. */
  readonly storeFolder?: string;
  /** Watched for changes; null or absent: not watched. */
  readonly configPath?: string | null;
  /** Entry of the workers; default: the product's. */
  readonly workerUrl?: URL;
  /** Seed of all draws; worker `i` gets `seed + i`. Default: random. */
  readonly seed?: number;
  /** The gateway that runs and that this one takes over. */
  readonly predecessor?: Predecessor;
  /** Another process has taken over: this one has to stop. Absent: it can't be taken over. */
  readonly onTakenOver?: () => void;
  /** Deadline of the first polls, ms. Default: the longest `health.timeout_ms`, at most 5,000. */
  readonly firstRoundMs?: number;
}

export interface GatewayStats {
  readonly workerCrashes: number;
  readonly reloads: number;
  readonly refusedReloads: number;
  readonly fleet: FleetReportJson;
}

/** A running gateway. */
export interface Gateway {
  readonly dataAddress: { readonly host: string; readonly port: number };
  readonly adminAddress: { readonly host: string; readonly port: number };
  /** What people and scripts manage while it runs. */
  readonly objects: ManagedObjects;
  /** Base URLs without a slash at their end. */
  readonly dataUrl: string;
  readonly adminUrl: string;
  /** Reads the configuration again and applies it as one version, or refuses it as a whole. One at a time. */
  reload(): Promise<ReloadResult>;
  /** Drains and ends everything. `graceMs` default: `timeouts.drain_ms`. Later calls give the first one's result. */
  stop(graceMs?: number): Promise<{ interrupted: number; isClean: boolean }>;
  stats(): GatewayStats;
  /** The page that Prometheus scrapes. */
  metrics(): string;
  /** The story of a decision; null: no such record. */
  explain(id: string): DecisionJson | null;
}
