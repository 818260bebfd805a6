/** `zml decide`, `decisions --tail` and `money` against an admin port that a test plays. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type DecideOptions, decide } from "./decide.ts";
import type { DecisionsOptions } from "./decisions.ts";
import { tailDecisions } from "./decisions-tail.ts";
import { EXIT } from "./exit-codes.ts";
import { type MoneyOptions, money } from "./money.ts";
import { cannedAdmin, problem } from "./testing/canned-admin.ts";
import { keptTerminal } from "./testing/kept-terminal.ts";
import type { Watch } from "./watch-page.ts";

function fileOf(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-decide-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "file");
  writeFileSync(path, text);
  return path;
}

const outcome = (change: object = {}) => ({
  ...{ kind: "success", status: 200, fault: null, first_byte_ms: 5, first_token_ms: 20, duration_ms: 345.6 },
  ...{ prompt_tokens: 3, output_tokens: 4, cost_usd: 0.001, ...change },
});

function decision(id: string, node: string | null = "a", change: object = {}) {
  return {
    ...{ decision: id, worker: 0, sequence: 1, decided_at: "2026-01-01T10:20:30.456Z", version: 7 },
    request: {
      ...{ account: "default", model: "m", endpoint: "chat_completions", stream: false, prompt_tokens: 500 },
      ...{ images: false, max_tokens: null, waited_ms: 0 },
    },
    policy: { name: "chat", source: "model", cost_priority: "cost", latency_target_ms: null },
    hint: null,
    choice: {
      ...{ reason: node === null ? "queue_saturated" : "cheapest", node, url: null, family: node && "H100", depth: 2 },
      ...{ estimate_ms: 900, estimate_first_token_ms: null, estimate_token_ms: null, target_chance: null },
      ...{
        cost_usd: 0.002,
        headroom_ms: null,
        is_trial: false,
        data_age_ms: 10,
        retry_after_ms: null,
        booking_races: 0,
      },
    },
    ...{ families: [], runner_up: null, outside_chain: 0, are_prices_unknown: false, attempt: 1, earlier: [] },
    outcome: outcome(),
    ...change,
  };
}

function asked(admin: string, more: Partial<DecideOptions> = {}): DecideOptions {
  return {
    ...{ admin, endpoint: "chat_completions", stream: false, images: false, price: [], down: [], json: false },
    ...more,
  };
}

test("decide sends a request's numbers and what is otherwise, and tells both decisions", async (t) => {
  const admin = await cannedAdmin(t, () => ({
    body: { decision: decision("what-if", "b"), as_it_is: decision("what-if", "a") },
  }));
  const terminal = keptTerminal();
  const draft = fileOf(t, "policies:\n  - { name: draft, cost_priority: latency }\n");
  const options = asked(admin.url, {
    ...{ model: "m", promptTokens: 900, maxTokens: 64, stream: true, price: ["mi300x=2.50", "h100-3=0"] },
    ...{ down: ["a", "c"], policyDraft: draft, account: "acme", accelerator: "H100" },
  });
  assert.equal(await decide(terminal, options), EXIT.ok);
  assert.deepEqual(admin.asked[0]?.body, {
    account: "acme",
    request: {
      ...{ model: "m", endpoint: "chat_completions", accelerator: "H100", stream: true },
      ...{ prompt_tokens: 900, prompt_tokens_at_least: 0, max_tokens: 64 },
    },
    overrides: {
      prices: { mi300x: 2.5, "h100-3": 0 },
      down: ["a", "c"],
      policy: { name: "draft", cost_priority: "latency" },
    },
  });
  const text = terminal.stdout();
  assert.match(
    text,
    /^what if {3}decided at 2026-01-01T10:20:30\.456Z on configuration 7; nothing was booked or sent\n/,
  );
  assert.match(text, /\nresult {4}b \(H100\)/);
  assert.match(
    text,
    /\nas it is {2}a \(H100\): the cheapest family, and there is no target; estimate 900 ms, \$0\.00200\n$/,
  );
  assert.doesNotMatch(text, /outcome/);
});

test("decide reads a whole body as the data port does, and its text stays here", async (t) => {
  const admin = await cannedAdmin(t, () => ({
    body: { decision: decision("what-if"), as_it_is: decision("what-if") },
  }));
  const secret = "the secret prompt ".repeat(100);
  const input = JSON.stringify({
    ...{ model: "m", stream: true, max_completion_tokens: 32, n: 2, policy: "chat", accelerator: "H100" },
    messages: [{ role: "user", content: secret }],
  });
  const terminal = keptTerminal({ input });
  assert.equal(await decide(terminal, asked(admin.url, { body: "-", maxTokens: 8, json: true })), EXIT.ok);
  const body = admin.asked[0]?.body as { request: Record<string, unknown>; overrides: object };
  assert.deepEqual(body.request, {
    ...{ model: "m", endpoint: "chat_completions", policy: "chat", accelerator: "H100", stream: true, n: 2 },
    ...{
      prompt_tokens: Math.ceil(Buffer.byteLength(input) / 4),
      prompt_tokens_at_least: Math.floor(secret.length / 128),
    },
    ...{ max_tokens: 8, images: false },
  });
  assert.deepEqual(body.overrides, {});
  assert.ok(!JSON.stringify(admin.asked).includes("secret"));
  assert.equal((JSON.parse(terminal.stdout()) as { decision: { decision: string } }).decision.decision, "what-if");
});

for (const [what, options, input, said, exit] of [
  ["no model", {}, "", /no model: name it with --model, or give a body with --body FILE/, EXIT.usage],
  [
    "a body that is no JSON",
    { body: "-" },
    "{oops",
    /^zml: standard input: .*: send what a caller would send\n$/,
    EXIT.failed,
  ],
  ["a body without a model", { body: "-" }, "{}", /^zml: standard input: /, EXIT.failed],
  [
    "a body that is not there",
    { body: "/nonexistent" },
    "",
    /there is no such file: name a file with --body FILE/,
    EXIT.failed,
  ],
  [
    "a price without a number",
    { model: "m", price: ["H100=cheap"] },
    "",
    /--price H100=cheap: expected NAME=USD/,
    EXIT.usage,
  ],
  [
    "a price below zero",
    { model: "m", price: ["H100=-1"] },
    "",
    /^zml: --price H100=-1: expected NAME=USD per GPU-hour from 0 to 1000000, such as --price MI300X=2\.50\n$/,
    EXIT.usage,
  ],
  ["a price above all", { model: "m", price: ["H100=1000001"] }, "", /from 0 to 1000000/, EXIT.usage],
  ["a price twice", { model: "m", price: ["H100=1", "H100=2"] }, "", /--price H100 stands twice/, EXIT.usage],
  [
    "a draft of two",
    { model: "m", policyDraft: "-" },
    "policies: [{ name: a }, { name: b }]",
    /expected one policy.*it holds 2\n/,
    EXIT.failed,
  ],
  ["a draft that is no YAML", { model: "m", policyDraft: "-" }, "name: [", /standard input:1:/, EXIT.failed],
  [
    "a draft that is no object",
    { model: "m", policyDraft: "-" },
    "text",
    /standard input:1:1: expected one policy.*it holds none\n/,
    EXIT.failed,
  ],
  [
    "each line of a draft",
    { model: "m", policyDraft: "-" },
    "name: chat\ncost_priority: cheap\nlatncy: 3\n",
    /^standard input:2:\d+ cost_priority: .*\nstandard input:3:\d+ latncy: .*\n$/,
    EXIT.failed,
  ],
  [
    "a line of a draft in a list",
    { model: "m", policyDraft: "-" },
    "policies:\n  - name: chat\n    latency_target_ms: soon\n",
    /^standard input:3:\d+ policies\[0\]\.latency_target_ms: .*\n$/,
    EXIT.failed,
  ],
  [
    "a draft that is a folder",
    { model: "m", policyDraft: "/" },
    "",
    /^zml: \/: it is a folder: name a file with --policy-draft FILE/,
    EXIT.failed,
  ],
  ["two standard inputs", { body: "-", policyDraft: "-" }, "{}", /can't both be standard input/, EXIT.usage],
] as const) {
  test(`decide says what is wrong with ${what}, and asks nobody`, async (t) => {
    const admin = await cannedAdmin(t, () => undefined);
    const terminal = keptTerminal({ input });
    assert.equal(await decide(terminal, asked(admin.url, options)), exit);
    assert.match(terminal.stderr(), said);
    assert.deepEqual([terminal.stdout(), admin.asked.length], ["", 0]);
  });
}

test("decide tells where in a draft the gateway finds fault, and what else is wrong", async (t) => {
  const errors = [
    {
      path: "overrides.policy.accelerator_preference[1].family",
      message: 'there is no family "B200"',
      hint: "known: H100",
    },
    { path: "request.model", message: "it is model_not_found", hint: "known: m" },
  ];
  const admin = await cannedAdmin(t, () => problem(400, "invalid_body", "2 problems", errors));
  const terminal = keptTerminal();
  const chain = "accelerator_preference:\n  - { family: H100, priority: 1 }\n  - { family: B200, priority: 2 }\n";
  const draft = fileOf(t, `name: chat\n${chain}`);
  assert.equal(await decide(terminal, asked(admin.url, { model: "x", policyDraft: draft })), EXIT.failed);
  const [first, second] = terminal.stderr().trimEnd().split("\n");
  assert.equal(first, `${draft}:4:15 accelerator_preference[1].family: there is no family "B200": known: H100`);
  assert.equal(second, "zml: request.model: it is model_not_found: known: m");
});

test("decide tells every problem that the gateway has with a draft", async (t) => {
  const errors = [
    { path: "overrides.policy.cost_priority", message: "expected cost, balanced or latency", hint: "write one" },
    { path: "overrides.policy.latency_target_ms", message: "expected a number", hint: "1 to 3600000" },
  ];
  const admin = await cannedAdmin(t, () => problem(422, "invalid_body", "2 problems", errors));
  const terminal = keptTerminal();
  assert.equal(await decide(terminal, asked(admin.url, { model: "m" })), EXIT.failed);
  assert.match(terminal.stderr(), /cost_priority: expected cost[\s\S]*latency_target_ms: expected a number/);
});

function tailing(admin: string, more: Partial<DecisionsOptions> = {}): DecisionsOptions {
  return { admin, limit: 20, redispatched: false, wide: false, json: false, ...more };
}

/** Stops after so many waits. */
function stopAfter(waits: number): Watch {
  const ended = new AbortController();
  let left = waits;
  return {
    stop: ended.signal,
    nowMs: () => 0,
    wait: async () => {
      left -= 1;
      if (left === 0) ended.abort();
    },
  };
}

test("decisions --tail prints a line for each that ended, goes on from its mark, and says what it missed", async (t) => {
  const answers = [
    { items: [], mark: "m1", is_more: false, missed: 0, is_restarted: false },
    { items: [decision("one")], mark: "m2", is_more: true, missed: 0, is_restarted: false },
    {
      items: [decision("two", null), decision("three", "b", { attempt: 2 })],
      mark: "m3",
      is_more: false,
      missed: 12,
      is_restarted: false,
    },
  ];
  const admin = await cannedAdmin(t, () => ({ body: answers.shift() }));
  const terminal = keptTerminal();
  const options = tailing(admin.url, { policy: "chat", family: "H100", slowerThanMs: 5, redispatched: true });
  assert.equal(await tailDecisions(terminal, options, stopAfter(2)), EXIT.ok);
  assert.deepEqual(
    admin.asked.map(({ url }) => url),
    ["", "&mark=m1", "&mark=m2"].map(
      (mark) => `/admin/v1/decisions/tail?family=H100&policy=chat&slower_than_ms=5&redispatched=true${mark}`,
    ),
  );
  assert.deepEqual(terminal.stdout().trimEnd().split("\n"), [
    "10:20:30.456  success 200    346ms  a (H100)  chat/m  cheapest  one",
    "10:20:30.456  no node        346ms  –  chat/m  queue_saturated  two",
    "10:20:30.456  success 200    346ms  b (H100)  chat/m  cheapest  attempt 2  three",
  ]);
  assert.match(terminal.stderr(), /^zml: 12 decisions missed: they came faster than they were read;/);
});

test("decisions --tail --json prints one object a line, and waits for a gateway that went", async (t) => {
  const answers = [
    { body: { items: [], mark: "m1", is_more: false, missed: 0, is_restarted: false } },
    problem(503, "draining", "the gateway stops"),
    problem(503, "draining", "the gateway stops"),
    { body: { items: [decision("one")], mark: "n1", is_more: false, missed: 0, is_restarted: true } },
  ];
  const admin = await cannedAdmin(t, () => answers.shift());
  const terminal = keptTerminal();
  assert.equal(await tailDecisions(terminal, tailing(admin.url, { json: true }), stopAfter(4)), EXIT.ok);
  const lines = terminal
    .stdout()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { decision: string });
  assert.deepEqual(
    lines.map(({ decision: id }) => id),
    ["one"],
  );
  assert.equal(
    terminal.stderr(),
    "zml: the gateway stops; waiting for it\nzml: the gateway was started anew: what it decided before is not known\n",
  );
});

test("decisions --tail ends with a refusal, and with a gateway that was never there", async (t) => {
  const admin = await cannedAdmin(t, () => problem(403, "key_scope", "the key lacks the scope read"));
  assert.equal(await tailDecisions(keptTerminal(), tailing(admin.url), stopAfter(1)), EXIT.denied);
  assert.equal(await tailDecisions(keptTerminal(), tailing("127.0.0.1:1"), stopAfter(1)), EXIT.unreachable);
});

const figures = (change: object = {}) => ({
  ...{ usd: 0, usd_per_hour: 0, failed_usd: 0, cancelled_usd: 0, answers: 0, unpriced_answers: 0, input_tokens: 0 },
  ...{ output_tokens: 0, usd_per_million_input_tokens: null, usd_per_million_output_tokens: null },
  ...{ usd_per_million_tokens: null, compared_usd: 0, baseline_usd: 0, baseline_assumed_usd: 0, savings_usd: 0 },
  ...{ savings_usd_per_hour: 0, savings_share: null },
  ...change,
});

function paid(admin: string, more: Partial<MoneyOptions> = {}): MoneyOptions {
  return { admin, by: "model", window: "hour", limit: 1, wide: true, json: false, ...more };
}

test("money is a table, the dearest first, with the rest, the sum, and what the sums leave out", async (t) => {
  const row = {
    usd: 2,
    usd_per_hour: 2,
    answers: 10,
    usd_per_million_output_tokens: 4,
    baseline_usd: 3,
    savings_usd: 1,
    savings_share: 1 / 3,
  };
  const body = {
    ...{
      window: "hour",
      by: "model",
      account: null,
      since: "2026-01-01T00:00:00Z",
      seconds: 3600,
      fleet_usd_per_hour: 12,
    },
    rows: [{ account: "acme", name: "m\u001b[31m", ...figures({ ...row, compared_usd: 2 }) }],
    other: figures({ usd: 1, baseline_usd: 1, savings_usd: -0.5 }),
    other_rows: 3,
    total: figures({
      usd: 3,
      usd_per_hour: 3,
      compared_usd: 2,
      baseline_usd: 4,
      baseline_assumed_usd: 1,
      savings_usd: 0.5,
      unpriced_answers: 1,
    }),
  };
  const admin = await cannedAdmin(t, () => ({ body }));
  const terminal = keptTerminal();
  assert.equal(await money(terminal, paid(admin.url, { account: "acme" }), null), EXIT.ok);
  assert.equal(admin.asked[0]?.url, "/admin/v1/money?by=model&window=hour&limit=1&account=acme");
  const [head, first, rest, all, ...said] = terminal.stdout().trimEnd().split("\n");
  assert.match(
    head ?? "",
    /^MODEL +ACCOUNT +USD +USD\/H +FAILED +ANSWERS +USD\/M IN +USD\/M OUT +USD\/M ALL +SAVED +SHARE$/,
  );
  assert.match(first ?? "", /^m\S* +acme +2\.00 +2\.00 +0\.00 +10 +– +4\.00 +– +1\.00 +33%$/);
  assert.ok(!(first ?? "").includes("\u001b"));
  assert.match(rest ?? "", /^\(3 more\) +1\.00 .* -0\.500 +–$/);
  assert.match(all ?? "", /^\(all\) +3\.00 +3\.00/);
  assert.deepEqual(said, [
    "USD of node time over the last hour (60m); what failed attempts took is part of it",
    "the fleet costs 12.00 an hour now, used or idle",
    "in no dollars: 1 answer of nodes without a known price (zml nodes shows prices)",
    "savings compare 2.00 of 3.00: the rest has no baseline",
    "25% of the baseline stands on an assumed speed: no node of that family has been measured",
  ]);
});

test("money of an idle gateway says so, and --json is the answer", async (t) => {
  const body = {
    window: "start",
    by: "family",
    seconds: 30,
    fleet_usd_per_hour: null,
    rows: [],
    other: null,
    other_rows: 0,
    total: figures(),
  };
  const admin = await cannedAdmin(t, () => ({ body }));
  const terminal = keptTerminal();
  assert.equal(await money(terminal, paid(admin.url), null), EXIT.ok);
  assert.equal(terminal.stdout(), "no request cost anything since the start (30s)\n");
  const json = keptTerminal();
  assert.equal(await money(json, paid(admin.url, { json: true }), null), EXIT.ok);
  assert.deepEqual(JSON.parse(json.stdout()), body);
});
