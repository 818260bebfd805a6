/** `zml drain`, `cooldown`, `status`, `decisions`, `audit`, `reload`, `export` against an admin port that a test plays. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { audit } from "./audit.ts";
import { decisions } from "./decisions.ts";
import { cooldown, type DrainOptions, drain } from "./drain.ts";
import { EXIT } from "./exit-codes.ts";
import { exportConfiguration, logLevel, reload } from "./gateway-commands.ts";
import { models } from "./models.ts";
import { status } from "./status.ts";
import { cannedAdmin, object, problem } from "./testing/canned-admin.ts";
import { node, report } from "./testing/fleet-fixture.ts";
import { keptTerminal } from "./testing/kept-terminal.ts";
import type { Watch } from "./watch-page.ts";

/** A clock that only waiting moves. */
function clock(): Watch & { waits: number[] } {
  const waits: number[] = [];
  let nowMs = 0;
  return {
    stop: new AbortController().signal,
    nowMs: () => nowMs,
    waits,
    wait: async (ms) => {
      waits.push(ms);
      nowMs += ms;
    },
  };
}

const SPENT = {
  seconds: 3600,
  fleet_usd_per_hour: 12,
  total: { usd: 1.5, usd_per_hour: 1.5, savings_usd: 0.25, savings_usd_per_hour: 0.25 },
  rows: [],
};

function draining(admin: string, more: Partial<DrainOptions> = {}): DrainOptions {
  return { admin, id: "a", json: false, wait: true, timeout: "2s", ...more };
}

const state = (inFlight: number) => ({
  body: { id: "a", account: "default", is_draining: true, cooldown_remaining_ms: null, in_flight: inFlight },
});

test("drain --wait tells what is left each time that it changes, and ends when nothing runs there", async (t) => {
  const left = [3, 3, 1, 0];
  const admin = await cannedAdmin(t, (question) =>
    question === "POST /admin/v1/nodes/a/drain"
      ? state(3)
      : { body: report([node("a", { in_flight: left.shift() ?? 0 }), node("b", { in_flight: 9 })]) },
  );
  const terminal = keptTerminal();
  const watch = clock();
  assert.equal(await drain(terminal, draining(admin.url, { timeout: "1m" }), watch), EXIT.ok);
  assert.equal(terminal.stderr(), "a: 3 requests left after 0.0s\na: 1 request left after 1.5s\n");
  assert.equal(terminal.stdout(), "node a is drained\n");
  assert.deepEqual(watch.waits, [500, 500, 500, 500]);
});

test("drain --wait ends with 8 at its deadline, and a node that has left the fleet has nothing that runs", async (t) => {
  const admin = await cannedAdmin(t, (question) =>
    question.startsWith("POST") ? state(2) : { body: report([node("a", { in_flight: 2 })]) },
  );
  const terminal = keptTerminal();
  const watch = clock();
  assert.equal(await drain(terminal, draining(admin.url, { timeout: "1200ms" }), watch), EXIT.timedOut);
  assert.deepEqual(watch.waits, [500, 500, 200]);
  assert.match(terminal.stderr(), /--timeout 1200ms is over: 2 requests still run on node a; it gets no new ones\n$/);
  const gone = await cannedAdmin(t, (question) => (question.startsWith("POST") ? state(2) : { body: report([]) }));
  assert.equal(await drain(keptTerminal(), draining(gone.url), clock()), EXIT.ok);
});

test("drain without --wait looks once, and an unknown node is told with the nearest one", async (t) => {
  const admin = await cannedAdmin(t, (question) => {
    if (question.endsWith("/nodes/a/drain")) return state(2);
    return question === "GET /admin/v1/fleet" ? { body: report([node("mi300x-a")]) } : undefined;
  });
  const terminal = keptTerminal();
  assert.equal(await drain(terminal, draining(admin.url, { wait: false }), clock()), EXIT.ok);
  assert.equal(terminal.stdout(), "node a gets no new request; 2 requests still run there\n");
  assert.equal(admin.asked.length, 1);
  const unknown = keptTerminal();
  assert.equal(await drain(unknown, draining(admin.url, { id: "mi300x-b" }), clock()), EXIT.notFound);
  assert.equal(unknown.stderr(), 'zml: the gateway has no node "mi300x-b": is it mi300x-a?\n');
  assert.equal(await drain(keptTerminal(), draining(admin.url, { timeout: "soon" }), clock()), EXIT.usage);
});

test("cooldown says for how long, and --clear ends it", async (t) => {
  const admin = await cannedAdmin(t, (question) => ({
    body: { ...state(0).body, cooldown_remaining_ms: question.endsWith("/cooldown") ? 300_000 : null },
  }));
  const line = { admin: admin.url, id: "x/y", json: false, clear: false, for: "5m" };
  const terminal = keptTerminal();
  assert.equal(await cooldown(terminal, line), EXIT.ok);
  await cooldown(terminal, { ...line, clear: true });
  assert.equal(terminal.stdout(), "node a gets no traffic for 5m, then one trial\nnode a does not cool down\n");
  const [first, second] = admin.asked;
  assert.deepEqual([first?.url, first?.body], ["/admin/v1/nodes/x%2Fy/cooldown", { seconds: 300 }]);
  assert.deepEqual([second?.url, second?.body], ["/admin/v1/nodes/x%2Fy/clear-cooldown", {}]);
});

const STATUS = {
  product_version: "0.1.0",
  uptime_seconds: 90,
  version: 12,
  acknowledged_version: 11,
  is_ready: true,
  data_address: "127.0.0.1:8080",
  admin_address: "127.0.0.1:8081",
  workers: { configured: 3, listening: 2, crashes: 1 },
  store: { state: "degraded", reason: "the disk is full" },
  decisions: {
    state: "degraded",
    reason: "the file is locked",
    dropped: { overwritten: 3, store: 4 },
    stored: { records: 1200, oldest_at: "2026-01-01T00:00:00Z" },
  },
  objects: [
    { kind: "node", total: 3, owners: { file: 2, api: 1, discovery: 0 } },
    { kind: "key", total: 0, owners: { file: 0, api: 0, discovery: 0 } },
  ],
  reloads: {
    applied: 2,
    refused: 1,
    last: { at: "2026-01-01T00:00:00Z", kind: "refused", problems: ["zml.yaml:3:1 x"] },
  },
};

test("status says which thread is behind, why the store takes no changes and why the file was refused", async (t) => {
  const admin = await cannedAdmin(t, (question) => {
    if (question === "GET /admin/v1/money") return { body: SPENT };
    return question === "GET /admin/v1/status" ? { body: STATUS } : { body: report([node("a")]) };
  });
  const terminal = keptTerminal();
  assert.equal(await status(terminal, { admin: admin.url, json: false }, null), EXIT.ok);
  assert.equal(
    terminal.stdout(),
    `gateway  zml 0.1.0, ready, up 90s
ports    data 127.0.0.1:8080, admin 127.0.0.1:8081
version  12; every serving thread has 11
threads  2 of 3 serve, 1 crash
store    degraded: the disk is full
nodes    1 of 1 healthy, 0 requests running, 0 parked
decided  1200 decisions kept since 2026-01-01T00:00:00Z, 7 dropped; the file is locked
money    requests of the last 60m cost 1.50 USD an hour, 0.250 less than on preferred families; the fleet costs 12.00 an hour, used or idle
objects  3 nodes (2 file, 1 api)
reloads  2 applied, 1 refused; the last, at 2026-01-01T00:00:00Z, was refused
         zml.yaml:3:1 x
`,
  );
});

test("decisions goes on while pages hold less than was asked for, and asks for what was chosen", async (t) => {
  const decision = (id: string) => ({
    decision: id,
    decided_at: "2026-01-01T00:00:00Z",
    request: { model: "m" },
    policy: { name: "chat" },
    choice: { node: "a", family: "H100", reason: "cheapest", depth: 2 },
    attempt: 1,
    outcome: { kind: "success", status: 200, duration_ms: 345.6 },
  });
  const admin = await cannedAdmin(t, (_, { url }) =>
    url.includes("cursor=")
      ? { body: { items: [decision("two"), decision("three")], next_cursor: "x" } }
      : { body: { items: [decision("one")], next_cursor: "next" } },
  );
  const terminal = keptTerminal();
  const options = { admin: admin.url, limit: 2, node: "a", redispatched: false, wide: false, json: false };
  assert.equal(await decisions(terminal, options, null), EXIT.ok);
  const [, one = "", two = "", last = ""] = terminal.stdout().split("\n");
  assert.match(one, /^one .* m .* chat .* a .* H100 .* cheapest .* success +200 +346ms$/);
  assert.match(two, /^two /);
  assert.match(last, /^2 decisions, newest first; zml explain ID/);
  assert.match(admin.asked[0]?.url ?? "", /\?limit=2&node=a$/);
});

test("audit tells who changed which value to which", async (t) => {
  const record = {
    at: "2026-01-01T00:00:00Z",
    actor: { kind: "key", name: "ops", account: "default" },
    ...{ kind: "policy", account: "default", name: "chat", action: "updated", version: 4 },
    before: { cost_priority: "balanced", latency_target_ms: 10 },
    after: { cost_priority: "cost", latency_target_ms: 10 },
  };
  const drained = { ...record, kind: "node", name: "a", action: "drained", before: null, after: null, version: null };
  const admin = await cannedAdmin(t, () => ({
    body: { items: [record, { ...drained, actor: { kind: "loopback", name: "loopback", account: "default" } }] },
  }));
  const terminal = keptTerminal();
  assert.equal(await audit(terminal, { admin: admin.url, limit: 5, json: false }, null), EXIT.ok);
  assert.equal(
    terminal.stdout(),
    `2026-01-01T00:00:00Z  updated policy chat, by key default/ops, version 4
    cost_priority: balanced → cost
2026-01-01T00:00:00Z  drained node a, by loopback
`,
  );
});

test("reload prints each line of a refused file, and export writes no file over another", async (t) => {
  const errors = [{ path: "", message: "zml.yaml:3:1 nodes: expected a list", hint: "" }];
  const admin = await cannedAdmin(t, (question) => {
    if (question === "POST /admin/v1/reload")
      return problem(422, "configuration_refused", "refused, the old one runs on", errors);
    return { body: "nodes: []\n", headers: { "content-type": "application/yaml; charset=utf-8" } };
  });
  const refused = keptTerminal();
  assert.equal(await reload(refused, { admin: admin.url, json: false }), EXIT.failed);
  assert.equal(refused.stderr(), "zml: refused, the old one runs on\nzml.yaml:3:1 nodes: expected a list\n");
  const folder = mkdtempSync(join(tmpdir(), "zml-export-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const options = { admin: admin.url, output: join(folder, "out.yaml"), json: false, force: false };
  assert.equal(await exportConfiguration(keptTerminal(), options), EXIT.ok);
  assert.equal(readFileSync(options.output, "utf8"), "nodes: []\n");
  const again = keptTerminal();
  assert.equal(await exportConfiguration(again, options), EXIT.failed);
  assert.match(again.stderr(), /is there already: overwrite it with --force/);
});

test("log-level asks for the level, and sets one that is named", async (t) => {
  const admin = await cannedAdmin(t, (question) => ({
    body: { level: question.startsWith("PUT") ? "debug" : "info", left_out_lines: 0 },
  }));
  const terminal = keptTerminal();
  assert.equal(await logLevel(terminal, { admin: admin.url, json: false, level: undefined }), EXIT.ok);
  assert.equal(await logLevel(terminal, { admin: admin.url, json: false, level: "debug" }), EXIT.ok);
  assert.equal(terminal.stdout(), "info\ndebug\n");
  assert.deepEqual(
    admin.asked.map(({ method, url, body }) => [method, url, body]),
    [
      ["GET", "/admin/v1/log/level", undefined],
      ["PUT", "/admin/v1/log/level", { level: "debug" }],
    ],
  );
});

test("models of an account are its registrations, where the fleet is for operators only", async (t) => {
  const admin = await cannedAdmin(t, (question) =>
    question === "GET /admin/v1/fleet"
      ? problem(403, "operator_only", "only operators may")
      : { body: { items: [object("model", "m", { policy: "p" })], next_cursor: null } },
  );
  const terminal = keptTerminal();
  assert.equal(await models(terminal, { admin: admin.url, json: false, wide: false }, null), EXIT.ok);
  assert.match(terminal.stdout(), /^NAME .*\nm +default +p +api/);
});
