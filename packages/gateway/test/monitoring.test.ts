/** The page of metrics, the alert rules and the dashboard tell of metrics that exist. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createFleetTable } from "@zml/engine";
import { EMPTY_DIRECTORY } from "../src/control/compile-directory.ts";
import { SILENT_LOG } from "../src/control/gateway-log.ts";
import { createNameRegistry } from "../src/control/name-registry.ts";
import { NOT_KEPT } from "../src/evidence/kept/kept-decisions.ts";
import { logMetrics } from "../src/telemetry/log-metrics.ts";
import { RequestExports } from "../src/telemetry/request-exports.ts";
import { Telemetry } from "../src/telemetry/telemetry.ts";

const OPERATIONS = new URL("../../../docs/operations/", import.meta.url);
const read = (name: string) => readFileSync(new URL(name, OPERATIONS), "utf8");

/** Type of each metric that the gateway has. */
function metricTypes(): Map<string, string> {
  const totals = { parked: 0, workers: 0, listening_workers: 0, worker_crashes: 0 };
  const exports = new RequestExports({
    log: SILENT_LOG,
    ...{ unixOriginMs: 0, productVersion: "", format: "json", writeLines: () => undefined },
  });
  const telemetry = new Telemetry({
    names: createNameRegistry(),
    targetMs: () => Number.NaN,
    table: createFleetTable({ nodes: 1, workers: 1 }),
    directory: () => EMPTY_DIRECTORY,
    moneyRowsMax: () => 1,
    seriesMax: () => 1,
    fleet: () => ({
      version: 1,
      nodes: [],
      models: [],
      totals: {
        ...totals,
        nodes: 0,
        healthy_nodes: 0,
        depth: 0,
        in_flight: 0,
        tokens_per_second: 0,
        price_usd_per_hour: null,
        control_delay_p99_ms: null,
        control_delay_max_ms: null,
      },
    }),
    reloads: () => ({ applied: 0, refused: 0 }),
    busySeconds: () => [],
    keptDecisions: () => NOT_KEPT,
    beside: () => [...exports.metrics(), ...logMetrics({ unread: 0, repeated: 0 })],
    unixStartMs: 0,
    sample: () => ({ parked: 0, depth: 0, healthyNodes: 0, priceUsdPerHour: null }),
    live: { nodes: () => [], table: createFleetTable({ nodes: 1, workers: 1 }), version: () => 1, parked: () => 0 },
    nowMs: () => 0,
  });
  return new Map(telemetry.families().map(({ name, type }) => [name, type]));
}

/** Names of metrics in an expression: what stands before labels or a range, and no word of the language. */
function namesIn(expression: string): string[] {
  const bare = expression.replaceAll(/\{[^}]*\}/g, "").replaceAll(/\b(by|on|without|ignoring) *\([^)]*\)/g, "");
  return bare.match(/\b(zml|gen_ai|process|inference)_\w+/g) ?? [];
}

function assertExist(expressions: readonly string[], from: string): void {
  const types = metricTypes();
  const names = expressions.flatMap(namesIn);
  assert.ok(names.length >= expressions.length, `${from}: each expression names a metric`);
  for (const name of names) {
    const series = /^(.*)_(bucket|sum|count)$/.exec(name)?.[1];
    const isThere = types.has(name) || (series !== undefined && types.get(series) === "histogram");
    assert.ok(isThere, `${from} names ${name}, which does not exist`);
  }
}

test("docs/operations/metrics.md lists every metric, and none that does not exist", () => {
  const listed = [...read("metrics.md").matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  assert.deepEqual(listed.toSorted(), [...metricTypes().keys()].toSorted());
});

test("the alert rules name metrics that exist", () => {
  const text = read("monitoring/alerts.yml");
  const alerts = text.split(/^ {6}- alert: /m).slice(1);
  const expressions = alerts.map((alert) => /expr: ([\s\S]*?)\n {8}(?:for|labels):/.exec(alert)?.[1] ?? "");
  // up is Prometheus's own
  assertExist(
    expressions.filter((expression) => !expression.startsWith("up{")),
    "alerts.yml",
  );
});

test("the dashboard names metrics that exist, and no panel covers another", () => {
  const { panels, templating } = JSON.parse(read("monitoring/grafana-dashboard.json")) as {
    panels: {
      id: number;
      title: string;
      gridPos: { x: number; y: number; w: number; h: number };
      targets?: { expr: string }[];
    }[];
    templating: { list: { query: unknown }[] };
  };
  assertExist(
    panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    "grafana-dashboard.json",
  );
  assertExist(namesIn(JSON.stringify(templating)), "grafana-dashboard.json");
  const cells = new Set<string>();
  for (const { title, gridPos } of panels) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        assert.ok(x < 24 && !cells.has(`${x},${y}`), `${title} stands where another panel does`);
        cells.add(`${x},${y}`);
      }
    }
  }
});
