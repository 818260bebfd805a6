/** What the admin port asks of a running gateway, from its parts. */

import type { FleetTable } from "@zml/engine";
import type { FleetReportJson } from "@zml/protocol/admin";
import { adminAccess } from "../admin/admin-access.ts";
import type { AdminSources } from "../admin/admin-sources.ts";
import type { AdminAccess } from "../admin/authorize.ts";
import { priceHistory, pricesReport } from "../cost/index.ts";
import { discoveryReport } from "../discovery/index.ts";
import { type WhatIfSources, whatIf } from "../evidence/what-if.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Configuration, Draft } from "./configuration.ts";
import { type GatewayStatusSources, gatewayStatus } from "./gateway-status.ts";
import type { KeptState } from "./kept-state.ts";
import type { NameRegistry } from "./name-registry.ts";
import { NodeActions } from "./node-actions.ts";
import { workerKeys } from "./worker-view.ts";

/** The parts of a gateway that the admin port reads, and what only the gateway itself can tell or do. */
export interface AdminParts
  extends GatewayStatusSources,
    Pick<AdminSources, "log" | "logControl" | "objects" | "decisions" | "backtests" | "reload" | "metrics"> {
  readonly table: FleetTable;
  readonly names: NameRegistry;
  readonly configuration: Configuration;
  readonly prices: Parameters<typeof pricesReport>[0];
  /** Null: nothing outlives the process. */
  readonly kept: Pick<KeptState, "priceHistory"> | null;
  readonly discovery: Parameters<typeof discoveryReport>[0];
  readonly telemetry: Telemetry;
  report(): FleetReportJson;
}

export function adminSources(parts: AdminParts): AdminSources {
  const { clock, configuration, fleet, table, telemetry } = parts;
  return {
    log: parts.log,
    logControl: parts.logControl,
    access: accessInForce(configuration),
    limits: () => configuration.config.admin,
    isReady: () => parts.isReady() && parts.workers.listening > 0,
    metrics: () => parts.metrics(),
    objects: parts.objects,
    fleet: () => parts.report(),
    live: (since) => telemetry.live.answer(since),
    history: () => telemetry.history(),
    money: (question) => telemetry.moneyOf(question),
    whatIf: (call, changes) => whatIf(whatIfSources(parts), call, changes),
    prices: () => pricesReport(parts.prices, clock.nowMs()),
    priceHistory: (question) => priceHistory(question, { book: parts.prices, kept: parts.kept }),
    discovery: () => discoveryReport(parts.discovery, clock.nowMs()),
    decisions: parts.decisions,
    backtests: parts.backtests,
    status: () => gatewayStatus(parts),
    reload: () => parts.reload(),
    version: () => fleet.version,
    nodes: new NodeActions({ table, fleet, nowMs: () => clock.nowMs() }),
  };
}

/** Who may ask on the admin port, worked out once per configuration in force. */
function accessInForce(configuration: Configuration): () => AdminAccess {
  let known: { readonly draft: Draft; readonly access: AdminAccess } | null = null;
  return () => {
    const draft = configuration.inForce;
    if (known?.draft !== draft) {
      const { config, secrets } = draft;
      known = { draft, access: adminAccess(workerKeys(secrets), config.admin.allowUnauthenticated) };
    }
    return known.access;
  };
}

function whatIfSources({ table, fleet, names, clock, unixOriginMs }: AdminParts): WhatIfSources {
  return {
    table,
    directory: fleet.directory,
    names,
    nodes: fleet.nodes,
    version: fleet.version,
    nowMs: clock.nowMs(),
    unixOriginMs,
    draw: 0,
  };
}
