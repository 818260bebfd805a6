/** Back-tests over the admin API and by the command, on what a gateway kept. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { BacktestJobJson, BacktestReportJson } from "@zml/protocol/admin";
import { makeRecords } from "../../../bench/backtest/made-records.ts";
import { backtest } from "../src/commands/backtest/backtest.ts";
import { runBacktest } from "../src/commands/backtest/run-backtest.ts";
import { keptTerminal } from "../src/commands/testing/kept-terminal.ts";
import { DecisionDatabase } from "../src/evidence/kept/decision-database.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const HOUR_MS = 3_600_000;
const DRAFT =
  "name: chat\naccelerator_preference: [{ family: H100, priority: 1 }]\ncost_priority: cost\nlatency_target_ms: 8000\n";

const DRAFTED = { account: "default", name: "chat", acceleratorPreference: [], costPriority: "cost" };

/** A folder with made records of the last hour. */
function made(t: TestContext, records = 3_000) {
  const store = folder(t);
  const path = join(store, "decisions.sqlite");
  const fromMs = Date.now() - HOUR_MS;
  makeRecords(path, { records, nodes: 4, fromMs, lengthMs: HOUR_MS * 0.9 });
  const window = { since: new Date(fromMs - 60_000).toISOString(), until: new Date(fromMs + HOUR_MS).toISOString() };
  const run = async (draft: string, options: Partial<Parameters<typeof backtest>[1]> = {}) => {
    const policy = join(store, "draft.yaml");
    writeFileSync(policy, draft);
    const terminal = keptTerminal();
    const watch = { stop: new AbortController().signal, wait: async () => {}, nowMs: () => Date.now() };
    const given = { policy, ...window, store, admin: "", json: true, ...options };
    const code = await backtest(terminal, given, watch);
    return { code, out: terminal.stdout(), error: terminal.stderr(), policy };
  };
  return { store, path, run };
}

test("a draft moves traffic, and the report says what that does to dollars, times and families", async (t) => {
  const { run } = made(t);
  const { code, out, error } = await run(DRAFT);
  assert.equal(code, 0, error);
  const report = JSON.parse(out) as BacktestReportJson;
  assert.equal(report.window.requests, 3_000);
  assert.equal(report.window.lost, 0);
  assert.deepEqual(report.figures.draft.families, { H100: 1, MI300X: 0 });
  assert.equal(report.figures.happened.requests, 3_000);
  assert.ok((report.figures.current.families["MI300X"] ?? 0) > 0.2);
  assert.equal(report.comparison.length, report.verdict.deviations.length);
  const [usd] = report.comparison;
  assert.equal(usd?.figure, "usd");
  assert.equal(usd?.difference_interval?.length, 2);
  assert.deepEqual(report.drafts, [{ account: "default", policy: "chat", replaces: "chat", requests: 3_000 }]);
  assert.deepEqual(
    report.timings.map(({ model, family }) => [model, family]),
    [
      ["m", "H100"],
      ["m", "MI300X"],
    ],
  );
  // 9 and 12 ms a token were made
  for (const [index, ms] of [9, 12].entries()) {
    const { token_error: off } = report.timings[index] ?? {};
    assert.ok((off ?? 1) < 0.06, `the fit is near ${ms} ms: ${off}`);
  }
  const again = await run(DRAFT);
  const strip = (text: string) => ({ ...JSON.parse(text), took_ms: 0 });
  assert.deepEqual(strip(again.out), strip(out), "the same records and draft give the same report");
});

test("the table names every figure, and a pipe gets a line for each phase", async (t) => {
  const { run } = made(t, 500);
  const { out, error } = await run(DRAFT, { json: false });
  for (const words of ["dollars", "targets met", "first token P99", "response P50", "refused", "on MI300X", "OFF BY"]) {
    assert.ok(out.includes(words), `${words} in:\n${out}`);
  }
  assert.match(out, /the replay of what is in force is (close to|roughly like|far from) what happened/);
  assert.equal(error, "zml: reading\nzml: fitting\nzml: replaying\nzml: summing up\n");
  const page = await run(DRAFT, { json: false, html: "/nowhere/report.html" });
  assert.equal(page.code, 1);
  assert.match(page.error, /\/nowhere\/report\.html can't be written/);
  assert.equal(page.out, out, "the report is told all the same");
});

test("a draft with errors: all of them, where they stand", async (t) => {
  const { run } = made(t, 200);
  const wrong = await run("name: chat\ncost_priority: cheap\nlatency_target_ms: soon\nlatncy: 3\n");
  assert.equal(wrong.code, 1);
  for (const line of [
    /draft\.yaml:2:\d+ cost_priority/,
    /draft\.yaml:3:\d+ latency_target_ms/,
    /draft\.yaml:4:\d+ latncy/,
  ]) {
    assert.match(wrong.error, line);
  }
  const missing = await run("", { policy: "/nowhere/draft.yaml" });
  assert.equal(missing.code, 1);
  assert.equal(
    missing.error,
    "zml: /nowhere/draft.yaml: there is no such file: name a file with --policy FILE, or standard input with --policy -\n",
  );
  const none = await run("");
  assert.equal(none.code, 1);
  assert.match(none.error, /draft\.yaml.*expected one policy.*it holds none/);
  const unknown = await run(
    "name: chat\naccelerator_preference:\n  - { family: H100, priority: 1 }\n  - { family: B200, priority: 2 }\n",
  );
  assert.match(
    unknown.error,
    /draft\.yaml:4:\d+ accelerator_preference\[1\]\.family: no node of the window is of family B200/,
  );
  assert.match(unknown.error, /there are H100, MI300X/);
  const nobody = await run("policies: [{ name: nobody }]\n");
  assert.match(
    nobody.error,
    /draft\.yaml:1:\d+ policies\[0\]\.name: no request of the window ran under nobody; there are chat/,
  );
  const replaced = await run(
    "policies: [{ name: nobody, accelerator_preference: [{ family: H100, priority: 1 }] }]\n",
    { replaces: "chat" },
  );
  assert.equal(replaced.code, 0, replaced.error);
});

test("windows without records say what there is; a lost part is told with its share", async (t) => {
  const { run, path, store } = made(t, 1_000);
  const empty = await run(DRAFT, { since: "30d", until: "20d" });
  assert.equal(empty.code, 1);
  assert.match(empty.error, /no decision is kept from 20.* to 20.*: the store has 20.* to 20/);
  const turned = await run(DRAFT, { since: "1h", until: "2h" });
  assert.equal(turned.code, 2);
  const nowhere = await run(DRAFT, { store: join(store, "nowhere") });
  assert.match(nowhere.error, /no decisions are kept at .*nowhere/);
  const database = new DecisionDatabase(path);
  const nowMs = Date.now();
  database.addLoss(1, { fromMs: nowMs - HOUR_MS / 2, toMs: nowMs - HOUR_MS / 4, records: 250, reason: "overwritten" });
  database.close();
  const { code, out, error } = await run(DRAFT);
  assert.equal(code, 0, error);
  const { window, warnings } = JSON.parse(out) as BacktestReportJson;
  assert.deepEqual([window.lost, window.lost_share], [250, 0.2]);
  assert.ok(warnings.some((text) => text.includes("250 of 1250 records of the window (20.0 %) were dropped")));
});

test("a window that ends while requests come is told of its own requests, and has those after it as company", async (t) => {
  const { path } = made(t, 3_000);
  const nowMs = Date.now();
  const options = { path, fromMs: nowMs - HOUR_MS * 0.8, drafts: [DRAFTED as never], replaces: null, account: null };
  const half = await runBacktest({ ...options, toMs: nowMs - HOUR_MS * 0.5 }, () => {});
  const { requests } = half.window;
  assert.ok(requests > 500 && requests < 1_500, `${requests} requests of a third of the time`);
  assert.deepEqual([half.figures.happened.requests, half.figures.current.requests], [requests, requests]);
  assert.equal(half.figures.current.served + half.figures.current.cancelled, requests, "none is left over at its end");
});

test("an account's back-test tells of its own traffic only", async (t) => {
  const { path } = made(t, 500);
  const options = { path, fromMs: 0, toMs: Date.now(), replaces: null };
  const other = { account: "other", name: "chat", acceleratorPreference: [] };
  await assert.rejects(
    runBacktest({ ...options, account: "other", drafts: [other as never] }, () => {}),
    /no request of the window ran under chat; there are none of account other/,
  );
});

async function admin<T>(gateway: { adminUrl: string }, path: string, init: RequestInit = {}) {
  const response = await fetch(`${gateway.adminUrl}/admin/v1/${path}`, init);
  return { status: response.status, body: (await response.json()) as T };
}

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

test("over the admin API: started, looked at until it is done, refused beside another one, cancelled", async (t) => {
  const node = await fakeNode(t);
  const storeFolder = join(folder(t), "zml-data");
  const text = `${PORTS}workers: 1\nevidence: { keep: {} }
nodes: [{ id: a, url: "${node.url}", family: H100, cost: { usd_per_gpu_hour: 3 } }]
policies: [{ name: chat, cost_priority: latency, latency_target_ms: 5000 }]
models: [{ name: m, policy: chat }]
`;
  const { gateway } = await startOn(t, text, { storeFolder });
  const nothing = await admin<{ code: string }>(gateway, "backtest/none");
  assert.deepEqual([nothing.status, nothing.body.code], [404, "not_found"]);
  for (let call = 0; call < 30; call++) await (await chat(gateway)).arrayBuffer();
  const draft = { policies: [{ name: "chat", cost_priority: "cost" }], since_s: 3600 };
  const started = await admin<BacktestJobJson>(gateway, "backtest", post(draft));
  assert.equal(started.status, 202, JSON.stringify(started.body));
  assert.equal(started.body.state, "running");
  const second = await admin<{ code: string }>(gateway, "backtest", post(draft));
  assert.deepEqual([second.status, second.body.code], [409, "already_running"]);
  const look = async () => (await admin<BacktestJobJson>(gateway, `backtest/${started.body.id}`)).body;
  await until("the back-test has ended", async () => (await look()).state !== "running");
  const done = await look();
  assert.equal(done.state, "done", JSON.stringify(done.problem));
  assert.equal(done.report?.window.requests, 30);
  assert.equal(done.progress, 1);
  const wrong = await admin<BacktestJobJson>(gateway, "backtest", post({ ...draft, policies: [{ name: "none" }] }));
  assert.equal(wrong.status, 202);
  const lookAt = async (id: string) => (await admin<BacktestJobJson>(gateway, `backtest/${id}`)).body;
  await until("it has failed", async () => (await lookAt(wrong.body.id)).state === "failed");
  assert.deepEqual(
    (await lookAt(wrong.body.id)).problem?.errors.map(({ path }) => path),
    ["policies[0].name"],
  );
  const third = await admin<BacktestJobJson>(gateway, "backtest", post(draft));
  const cancelled = await admin<BacktestJobJson>(gateway, `backtest/${third.body.id}`, { method: "DELETE" });
  assert.equal(cancelled.body.state, "cancelled");
  const { body } = await admin<{ items: BacktestJobJson[] }>(gateway, "backtest");
  assert.deepEqual(
    body.items.map(({ state, report }) => [state, report]),
    [
      ["cancelled", null],
      ["failed", null],
      ["done", null],
    ],
  );
  const empty = await admin<{ code: string }>(gateway, "backtest", post({ ...draft, until_s: 3600 }));
  assert.deepEqual([empty.status, empty.body.code], [400, "invalid_body"]);
});

test("without kept decisions a back-test is refused and says what to set", async (t) => {
  const node = await fakeNode(t);
  const { gateway } = await startOn(t, `${PORTS}nodes: [{ id: a, url: "${node.url}", family: H100 }]\n`);
  const answer = await admin<{ detail: string }>(gateway, "backtest", post({ policies: [{ name: "p" }] }));
  assert.equal(answer.status, 409);
  assert.match(answer.body.detail, /set evidence\.keep/);
});

test("a tenant replays no more than its bound, and can neither see nor end another's; an operator replays all", async (t) => {
  const node = await fakeNode(t);
  const storeFolder = join(folder(t), "zml-data");
  const text = `${PORTS}workers: 1
evidence: { keep: {}, backtests: { tenant_records: 1000 } }
keys:
  - { name: ops, value_env: KEY_OPS, scopes: [infer, read, admin] }
  - { name: a, account: a, value_env: KEY_A, scopes: [infer, read] }
  - { name: b, account: b, value_env: KEY_B, scopes: [read] }
accounts: [{ name: a }, { name: b }]
nodes: [{ id: a, account: a, url: "${node.url}", family: H100, cost: { usd_per_gpu_hour: 3 } }]
policies: [{ name: chat, account: a }]
models: [{ name: m, account: a, policy: chat }]
`;
  makeRecords(join(storeFolder, "decisions.sqlite"), {
    records: 1_200,
    nodes: 2,
    fromMs: Date.now() - HOUR_MS / 2,
    lengthMs: HOUR_MS / 4,
  });
  const env = { KEY_OPS: "ops-key-0123456789", KEY_A: "a-key-0123456789", KEY_B: "b-key-0123456789" };
  const { gateway } = await startOn(t, text, { storeFolder, env });
  const as = <T>(key: keyof typeof env, path: string, init: RequestInit = {}) =>
    admin<T>(gateway, path, { ...init, headers: { ...init.headers, authorization: `Bearer ${env[key]}` } });
  const draft = { policies: [{ name: "chat", cost_priority: "cost" }], since_s: 7_200 };
  const large = await as<BacktestJobJson>("KEY_A", "backtest", post(draft));
  assert.equal(large.status, 202, JSON.stringify(large.body));
  const path = `backtest/${large.body.id}`;
  for (const init of [{}, { method: "DELETE" }]) {
    const other = await as<{ code: string }>("KEY_B", path, init);
    assert.deepEqual([other.status, other.body.code], [404, "not_found"]);
  }
  await until("it has failed", async () => (await as<BacktestJobJson>("KEY_A", path)).body.state === "failed");
  const { problem } = (await as<BacktestJobJson>("KEY_A", path)).body;
  assert.equal(problem?.code, "too_many_records");
  assert.match(problem?.detail ?? "", /1200 records, and 1000 are the most .*: choose a shorter window/);
  const all = { policies: [{ name: "chat", account: "default", cost_priority: "cost" }], since_s: 7_200 };
  const operators = await as<BacktestJobJson>("KEY_OPS", "backtest", post(all));
  assert.deepEqual([operators.status, operators.body.state], [202, "running"]);
  const done = async () => (await as<BacktestJobJson>("KEY_OPS", `backtest/${operators.body.id}`)).body;
  await until("the operator's has ended", async () => (await done()).state !== "running");
  assert.equal((await done()).state, "done", JSON.stringify((await done()).problem));
});
