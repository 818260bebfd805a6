import assert from "node:assert/strict";
import { test } from "node:test";
import type { Config } from "@zml/protocol";
import { formatProblems } from "./config-problem.ts";
import { diffConfig, keepsRow } from "./diff-config.ts";
import { readConfig } from "./read-config.ts";

const NODES = `nodes:
  - { id: a, url: "http://h:1", family: MI300X }
  - { id: b, url: "http://h:2", family: H100, cost: { usd_per_gpu_hour: 2 } }
  - { id: c, url: "http://h:3", family: H100 }
`;

function config(text: string): Config {
  const result = readConfig(text, { fileName: "zml.yaml", env: { K: "k", L: "l" }, cores: 4 });
  assert.ok(result.config !== undefined, formatProblems(result.errors));
  return result.config;
}

const ids = (nodes: readonly { id: string }[]) => nodes.map((node) => node.id);

test("the same file changes nothing, unknown prices included", () => {
  const diff = diffConfig(config(NODES), config(`# again\n${NODES}`));
  assert.equal(diff.isEmpty, true);
  assert.deepEqual(ids(diff.nodes.unchanged), ["a", "b", "c"]);
});

test("what a running process can't change is named with both values", () => {
  const next = `${NODES}data: { listen: "127.0.0.1:9000" }
admin: { listen: "[::1]:9001" }
workers: 2
limits: { nodes: 100, prefixes: 0 }
store: { path: ":memory:" }
evidence: { ring_records: 1024 }
`;
  const diff = diffConfig(config(NODES), config(next));
  assert.deepEqual(diff.needsRestart, [
    "data.listen changed from 127.0.0.1:8080 to 127.0.0.1:9000: needs a restart",
    "admin.listen changed from 127.0.0.1:8081 to [::1]:9001: needs a restart",
    "workers changed from 3 to 2: needs a restart",
    "limits.nodes changed from 16384 to 100: needs a restart",
    "limits.prefixes changed from 65536 to 0: needs a restart",
    "store.path changed from zml-data to :memory:: needs a restart",
    "evidence.ring_records changed from 16384 to 1024: needs a restart",
  ]);
  assert.deepEqual(diff.sections, []);
  assert.equal(diff.isEmpty, false);
});

test("limits of the data port are a change that applies at once", () => {
  for (const limit of ["head_ms: 500", "body_ms: 500", "keep_alive_ms: 500"]) {
    const diff = diffConfig(config(NODES), config(`${NODES}data: { ${limit} }\n`));
    assert.deepEqual(diff.sections, ["data"], limit);
    assert.deepEqual(diff.needsRestart, []);
  }
});

test("nodes that come, go, change and stay are told apart", () => {
  const next = `nodes:
  - { id: b, url: "http://h:2", family: H100, cost: { usd_per_gpu_hour: 3 } }
  - { id: c, url: "http://h:3", family: H100 }
  - { id: d, url: "http://h:4", family: H100 }
`;
  const { nodes, needsRestart } = diffConfig(config(NODES), config(next));
  assert.deepEqual(needsRestart, []);
  assert.deepEqual(ids(nodes.added), ["d"]);
  assert.deepEqual(ids(nodes.removed), ["a"]);
  assert.deepEqual(ids(nodes.changed.map((change) => change.after)), ["b"]);
  assert.deepEqual(
    nodes.changed.map(({ before, after }) => [before.usdPerGpuHour, after.usdPerGpuHour]),
    [[2, 3]],
  );
  assert.deepEqual(ids(nodes.unchanged), ["c"]);
});

test("a node keeps its row under the same url only", () => {
  const next = NODES.replace("http://h:1", "http://h:9").replace("usd_per_gpu_hour: 2", "usd_per_gpu_hour: 3");
  const { nodes } = diffConfig(config(NODES), config(next));
  assert.deepEqual(
    nodes.changed.map((change) => [change.after.id, keepsRow(change)]),
    [
      ["a", false],
      ["b", true],
    ],
  );
});

test("a shared limit changes the nodes that don't have their own", () => {
  const own = NODES.replace("family: MI300X }", "family: MI300X, timeouts: { idle_ms: 5 } }");
  const diff = diffConfig(config(own), config(`${own}timeouts: { idle_ms: 7 }\n`));
  assert.deepEqual(diff.sections, ["timeouts"]);
  assert.deepEqual(ids(diff.nodes.unchanged), ["a"]);
});

test("the order of registration is a change where the built-in policy sees it", () => {
  const [head, a, b, c] = NODES.trimEnd().split("\n");
  const swapped = diffConfig(config(NODES), config([head, b, a, c].join("\n")));
  assert.equal(swapped.isFamilyOrderChanged, true);
  assert.equal(swapped.isEmpty, false);
  assert.equal(diffConfig(config(NODES), config([head, a, c, b].join("\n"))).isEmpty, true);
});

test("policies, models, accounts and keys are compared within their account", () => {
  const old = `accounts: [{ name: t }]
keys: [{ name: k, value_env: K }]
policies: [{ name: p }, { name: p, account: t }]
models: [{ name: m }]
`;
  const next = `accounts: [{ name: t, default_policy: p }]
keys: [{ name: k, value_env: L }]
policies: [{ name: p, latency_target_ms: 5 }, { name: p, account: t }, { name: q }]
models: [{ name: m, account: t }]
`;
  const diff = diffConfig(config(old), config(next));
  assert.deepEqual(
    diff.policies.changed.map(({ after }) => [after.account, after.name]),
    [["default", "p"]],
  );
  assert.deepEqual(
    diff.policies.added.map((policy) => policy.name),
    ["q"],
  );
  assert.equal(diff.models.added[0]?.account, "t");
  assert.equal(diff.models.removed[0]?.account, "default");
  assert.equal(diff.accounts.changed.length, 1);
  assert.equal(diff.keys.changed.length, 1);
});
