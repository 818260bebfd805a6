/** A real Prometheus server reads the gateway's metrics, under our alert rules, and asks our dashboard's questions. */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const MONITORING = new URL("../../../docs/operations/monitoring/", import.meta.url);
const STOP_MS_MAX = 10_000;

const POLICY = `policies:
  - { name: fast, accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }], cost_priority: latency }
models: [{ name: m, policy: fast }]
health: { poll_interval_ms: 200, timeout_ms: 5000 }
`;

function hasPrometheus(t: TestContext): boolean {
  const { status } = spawnSync("prometheus", ["--version"]);
  if (status === 0) return true;
  const hint = "prometheus is not installed: apt-get install prometheus";
  assert.equal(process.env.CI, undefined, hint);
  t.skip(`left out: ${hint}`);
  return false;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return address.port;
}

/** Starts a server that scrapes the admin port each second. It asks every second, as a test can't wait for minutes. */
async function startPrometheus(t: TestContext, admin: string) {
  const home = folder(t);
  const port = await freePort();
  const rules = readFileSync(new URL("alerts.yml", MONITORING), "utf8").replaceAll(/^( +for:) \d+m$/gm, "$1 1s");
  writeFileSync(join(home, "alerts.yml"), rules);
  writeFileSync(
    join(home, "prometheus.yml"),
    `global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [alerts.yml]
scrape_configs: [{ job_name: zml, static_configs: [{ targets: ["${admin}"] }] }]
`,
  );
  const args = [
    `--config.file=${join(home, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(home, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
    "--log.level=error",
  ];
  const child = spawn("prometheus", args, { stdio: ["ignore", "ignore", "inherit"] });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  t.after(async () => {
    child.kill("SIGTERM");
    const killer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    await closed;
    clearTimeout(killer);
  });
  const ask = async (path: string): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`).catch(() => null);
    // it says so while it starts
    if (answer === null || answer.status === 503) return null;
    const { status, data, error } = (await answer.json()) as { status: string; data: unknown; error?: string };
    assert.equal(status, "success", `${path}: ${error}`);
    return data;
  };
  return {
    ask,
    /** Values of an expression by its labels. */
    async query(expression: string): Promise<{ metric: Record<string, string>; value: number }[]> {
      const data = (await ask(`query?query=${encodeURIComponent(expression)}`)) as {
        result: { metric: Record<string, string>; value: [number, string] }[];
      } | null;
      return (data?.result ?? []).map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
    },
  };
}

test("Prometheus reads what was sent, evaluates every rule and panel, and a node that goes fires its alert", async (t) => {
  if (!hasPrometheus(t)) return;
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const nodes = `nodes:
  - { id: a, url: "${a.url}", family: H100, cost: { usd_per_gpu_hour: 2 } }
  - { id: b, url: "${b.url}", family: MI300X, cost: { usd_per_gpu_hour: 1 } }
`;
  const { gateway } = await startOn(t, PORTS + nodes + POLICY);
  const prometheus = await startPrometheus(t, gateway.adminUrl.replace("http://", ""));
  const is = (expression: string, expected: number) =>
    until(`${expression} is ${expected}`, async () => (await prometheus.query(expression))[0]?.value === expected);

  await is('up{job="zml"}', 1);
  for (let count = 0; count < 5; count++) await (await chat(gateway, { stream: count % 2 === 0 })).text();
  await (await chat(gateway, { model: "nobody" })).text();
  a.faults.status(500, "{}", {}, 1);
  await (await chat(gateway)).text();

  await is('sum(zml_requests_total{policy="fast", outcome="delivered"})', 6);
  await is('sum(zml_requests_total{family="H100"})', 5);
  await is('zml_errors_total{code="model_not_found"}', 1);
  await is("zml_failover_redispatches_total", 1);
  await is('zml_dispatch_attempts_total{node="b", outcome="success"}', 1);
  await is('sum(gen_ai_server_request_duration_seconds_count{policy="fast"})', 6);
  await is('zml_cost_node_price_usd_per_hour{node="a"}', 2);
  await is('zml_availability_nodes{state="healthy"}', 1);
  const [quantile] = await prometheus.query(
    'histogram_quantile(0.5, sum by (le) (gen_ai_server_request_duration_seconds_bucket{policy="fast"}))',
  );
  assert.ok(quantile !== undefined && quantile.value > 0 && quantile.value < 10, String(quantile?.value));

  await b.stop();
  const firing = async () => {
    const data = (await prometheus.ask("alerts")) as { alerts: { labels: Record<string, string>; state: string }[] };
    return data.alerts
      .filter(({ state }) => state === "firing")
      .map(({ labels }) => [labels["alertname"], labels["node"]]);
  };
  await until("the alert of the node fires", async () =>
    (await firing()).some(([name, node]) => name === "ZmlNodeOut" && node === "b"),
  );
  assert.ok(!(await firing()).some(([name]) => name === "ZmlDown"), "the gateway itself is up");

  const { groups } = (await prometheus.ask("rules")) as { groups: { rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  await until("every rule was evaluated", async () => {
    const now = (await prometheus.ask("rules")) as { groups: { rules: Rule[] }[] };
    return now.groups.flatMap((group) => group.rules).every(({ health }) => health === "ok");
  });
  assert.ok(rules.length >= 10);
  for (const expression of dashboardExpressions()) await prometheus.query(expression);
});

interface Rule {
  readonly name: string;
  /** `ok`: its last evaluation went well. */
  readonly health: string;
}

/** What the panels of the Grafana dashboard ask, with Grafana's variables filled in. */
function dashboardExpressions(): string[] {
  const { panels } = JSON.parse(readFileSync(new URL("grafana-dashboard.json", MONITORING), "utf8")) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  assert.ok(expressions.length >= 10);
  return expressions.map((expression) =>
    expression.replaceAll(/\$__rate_interval|\$__interval|\$__range/g, "1m").replaceAll(/\$\{?\w+(?::\w+)?\}?/g, ".*"),
  );
}
