/** For tests: an admin port on a socket, over objects in memory and canned reports. */

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { createFleetTable } from "@zml/engine";
import { ADMIN_PROBLEMS, type FleetReportJson, type ProblemJson, problemSchema } from "@zml/protocol/admin";
import { SILENT_CONTROL, SILENT_LOG } from "../../control/gateway-log.ts";
import { createNameRegistry } from "../../control/name-registry.ts";
import { NOT_KEPT } from "../../evidence/kept/kept-decisions.ts";
import { keptStatus } from "../../evidence/kept/kept-status.ts";
import { History } from "../../telemetry/history.ts";
import { LiveFeed } from "../../telemetry/live-feed.ts";
import { moneyReport } from "../../telemetry/money-report.ts";
import { RequestMetrics } from "../../telemetry/request-metrics.ts";
import { AdminPort } from "../admin-port.ts";
import type { AdminSources } from "../admin-sources.ts";
import type { AdminKey } from "../authorize.ts";
import { MemoryObjects } from "./memory-objects.ts";

/** Keys by their value. */
export const KEYS: Readonly<Record<string, AdminKey>> = {
  "ops-key": { name: "ops", account: "default", scopes: ["admin"], expiresAtMs: null },
  "reader-key": { name: "reader", account: "default", scopes: ["read"], expiresAtMs: null },
  "app-key": { name: "app", account: "default", scopes: ["infer"], expiresAtMs: null },
  "tenant-key": { name: "tenant-ops", account: "tenant", scopes: ["admin"], expiresAtMs: null },
  "tenant-reader-key": { name: "tenant-reader", account: "tenant", scopes: ["read"], expiresAtMs: null },
  "old-key": { name: "old", account: "default", scopes: ["admin"], expiresAtMs: 1 },
};

export interface FixtureOptions {
  readonly keys?: Readonly<Record<string, AdminKey>>;
  readonly allowUnauthenticated?: boolean;
  readonly limits?: Partial<ReturnType<AdminSources["limits"]>>;
  readonly sources?: Partial<AdminSources>;
}

export interface AdminFixture {
  readonly port: AdminPort;
  readonly number: number;
  readonly url: string;
  readonly objects: MemoryObjects;
  readonly limits: { bodyBytes: number; requestMs: number; connections: number };
  /** Asks as the holder of a key, or of none. */
  ask(path: string, init?: RequestInit & { readonly key?: string | null }): Promise<Response>;
}

/** Starts a port that goes with the test. */
export async function startAdmin(t: TestContext, options: FixtureOptions = {}): Promise<AdminFixture> {
  const { keys = KEYS, allowUnauthenticated = false } = options;
  const objects = new MemoryObjects();
  const limits = { bodyBytes: 64 * 1024, requestMs: 10_000, connections: 64, ...options.limits };
  const port = new AdminPort({
    ...cannedSources(objects, () => limits, { keys, allowUnauthenticated }),
    ...options.sources,
  });
  const number = await port.listen({ host: "127.0.0.1", port: 0 });
  t.after(() => port.close());
  const url = `http://127.0.0.1:${number}`;
  const isAsked = Object.keys(keys).length > 0;
  return {
    port,
    number,
    url,
    objects,
    limits,
    ask: (path, { key = isAsked ? "ops-key" : null, headers, ...init } = {}) =>
      fetch(`${url}${path}`, {
        ...init,
        headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...headers },
      }),
  };
}

/** The problem that an answer is; every problem has its whole shape. */
export async function problemOf(response: Response): Promise<ProblemJson> {
  assert.equal(response.headers.get("content-type"), "application/problem+json", `status ${response.status}`);
  const problem = problemSchema.parse(await response.json()) as ProblemJson;
  assert.equal(problem.status, response.status);
  assert.equal(problem.status, ADMIN_PROBLEMS[problem.code].status);
  assert.equal(problem.request_id, response.headers.get("x-request-id"));
  return problem;
}

/** The body of a request with JSON. */
export function json(value: unknown): { headers: Record<string, string>; body: string } {
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}

const NO_FLEET: FleetReportJson = {
  version: 1,
  totals: {
    nodes: 0,
    healthy_nodes: 0,
    depth: 0,
    in_flight: 0,
    parked: 0,
    tokens_per_second: 0,
    price_usd_per_hour: null,
    workers: 1,
    listening_workers: 1,
    worker_crashes: 0,
    control_delay_p99_ms: null,
    control_delay_max_ms: null,
  },
  nodes: [],
  models: [],
};

const NO_TOTALS = new RequestMetrics({
  names: createNameRegistry(),
  targetMs: () => Number.NaN,
  seriesMax: () => 100,
}).totals();

function cannedSources(
  objects: MemoryObjects,
  limits: AdminSources["limits"],
  { keys, allowUnauthenticated }: { keys: Readonly<Record<string, AdminKey>>; allowUnauthenticated: boolean },
): AdminSources {
  const cooling = new Map<string, number>();
  const state = (account: string, id: string) => {
    if (objects.get("node", account, id) === null) return null;
    const left = cooling.get(id) ?? null;
    return { id, account, is_draining: objects.draining.has(id), cooldown_remaining_ms: left, in_flight: 0 };
  };
  const live = new LiveFeed({
    nodes: () => [],
    table: createFleetTable({ nodes: 1, workers: 1 }),
    version: () => 1,
    totals: () => NO_TOTALS,
    money: () => ({ costUsd: 0, failedUsd: 0, comparedUsd: 0, baselineUsd: 0 }),
    parked: () => 0,
    nowMs: () => 0,
    unixMs: () => 0,
  });
  return {
    log: SILENT_LOG,
    logControl: SILENT_CONTROL,
    objects,
    limits,
    access: () => ({
      hasAdminKey: Object.values(keys).some(({ scopes }) => scopes.includes("admin")),
      allowUnauthenticated,
      findKey: (value) => keys[value] ?? null,
    }),
    isReady: () => true,
    metrics: () => "zml_up 1\n",
    fleet: () => NO_FLEET,
    live: (since) => live.answer(since),
    history: () => new History().toJson(),
    money: (question) =>
      moneyReport(question, {
        subjects: [],
        values: new Float64Array(0),
        before: { values: new Float64Array(0), atMs: 0 },
        names: createNameRegistry(),
        nowMs: 0,
        unixMs: 0,
        fleetUsdPerHour: 12,
      }),
    whatIf: (call) => ({
      kind: "refused",
      refusal: { kind: "refused", code: "model_not_found", name: call.model, known: [] },
    }),
    prices: () => ({ feeds: [], prices: [] }),
    priceHistory: async ({ key }) => ({ key, at_ms: [], usd_per_gpu_hour: [], is_cut: false, is_kept: false }),
    discovery: () => ({ sources: [] }),
    backtests: { start: async () => ({ kind: "not_kept" }), find: () => null, list: () => [], cancel: () => null },
    decisions: {
      find: async () => null,
      page: async () => ({ items: [], next: null, lookedAt: 0 }),
      tail: () => ({ items: [], mark: "0", is_more: false, missed: 0, is_restarted: false }),
      remembered: () => "none is remembered",
      backup: async () => null,
    },
    version: () => 1,
    reload: async () => ({ kind: "unchanged" }),
    status: () => ({
      product_version: "0.0.0",
      started_at: "2026-01-01T00:00:00.000Z",
      uptime_seconds: 1,
      version: 1,
      acknowledged_version: 1,
      is_ready: true,
      data_address: "127.0.0.1:1",
      admin_address: "127.0.0.1:2",
      workers: { configured: 1, listening: 1, crashes: 0 },
      store: { state: "ok", reason: null },
      decisions: keptStatus(NOT_KEPT),
      reloads: { applied: 0, refused: 0, last: null },
    }),
    nodes: {
      state,
      cooldown: (account, id, lengthMs) => {
        cooling.set(id, lengthMs);
        return state(account, id);
      },
      clearCooldown: (account, id) => {
        cooling.delete(id);
        return state(account, id);
      },
    },
  };
}
