import assert from "node:assert/strict";
import { test } from "node:test";
import { ALL_RIGHTS, createFleetTable, POLICIES_MAX, type RoutingCall } from "@zml/engine";
import type { PolicyConfig } from "@zml/protocol";
import type { DecisionJson } from "@zml/protocol/admin";
import { Fleet } from "../control/fleet.ts";
import { createNameRegistry } from "../control/name-registry.ts";
import { configured } from "../control/testing/configured.ts";
import { AS_IT_IS, type WhatIf, whatIf } from "./what-if.ts";

const NOW_MS = 60_000;

const FILE = `
accounts: [{ name: other }]
nodes:
  - { id: h1, url: "http://h1:8000", family: H100, models: [m], cost: { usd_per_gpu_hour: 4 } }
  - { id: mi1, url: "http://mi1:8000", family: MI300X, models: [m], cost: { usd_per_gpu_hour: 2 } }
  - { id: secret, url: "http://secret:8000", family: H100, account: other, models: [theirs] }
policies:
  - name: cheap
    accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 1 }]
    cost_priority: cost
models: [{ name: m, policy: cheap }]
`;

function fixture(file = FILE) {
  const table = createFleetTable({ nodes: 16, workers: 2 });
  const names = createNameRegistry();
  const fleet = new Fleet(table, names);
  const { config, secrets } = configured(file);
  fleet.setConfig(config, secrets);
  fleet.commit();
  for (const { row } of fleet.nodes) {
    table.goodPolls[row] = 1;
    table.polledAtMs[row] = NOW_MS - 1000;
  }
  const ask = (changes: Partial<WhatIf> = {}, call: Partial<RoutingCall> = {}) =>
    whatIf(
      {
        table,
        directory: fleet.directory,
        names,
        nodes: fleet.nodes,
        version: fleet.version,
        nowMs: NOW_MS,
        unixOriginMs: 0,
        draw: 0,
      },
      {
        account: "default",
        rights: ALL_RIGHTS,
        model: "m",
        policy: null,
        accelerator: null,
        endpoint: 0,
        isStream: false,
        promptTokens: 100,
        maxTokens: 50,
        answers: 1,
        promptTokensAtLeast: 0,
        hasImages: false,
        ...call,
      },
      { ...AS_IT_IS, ...changes },
    );
  const decided = (changes: Partial<WhatIf> = {}, call: Partial<RoutingCall> = {}): DecisionJson => {
    const answer = ask(changes, call);
    assert.ok(answer.kind === "decided", JSON.stringify(answer));
    return answer.decision;
  };
  return { table, names, fleet, config, ask, decided };
}

test("as it is, the answer is the decision that a worker would make, explained", () => {
  const { decided, fleet } = fixture();
  const decision = decided();
  assert.equal(decision.choice.node, "mi1");
  assert.equal(decision.choice.reason, "cheapest");
  assert.equal(decision.policy.name, "cheap");
  assert.equal(decision.version, fleet.version);
  assert.equal(decision.choice.data_age_ms, 1000);
  assert.deepEqual(
    decision.families.map(({ family }) => family),
    ["H100", "MI300X"],
  );
});

test("asking writes nothing: the table is the same to the last byte, whatever is asked", () => {
  const { table, ask, names, config } = fixture();
  // what decisions write to: a cooldown that is over makes the next request a trial
  table.cooldownUntil.fill(1, 0, 2);
  const before = Buffer.from(table.buffer.slice(0) as unknown as ArrayBuffer);
  const policies = names.policies.size;
  const [draft] = config.policies;
  ask();
  ask({ down: new Set(["mi1"]), prices: new Map([["H100", 9]]) });
  ask({ policy: { ...(draft as PolicyConfig), name: "draft", costPriority: "latency" } });
  assert.deepEqual(Buffer.from(table.buffer.slice(0) as unknown as ArrayBuffer), before);
  assert.equal(names.policies.size, policies);
});

test("a node that were down takes nothing, and the answer says so", () => {
  const decision = fixture().decided({ down: new Set(["mi1"]) });
  assert.equal(decision.choice.node, "h1");
  assert.deepEqual(decision.families.find(({ family }) => family === "MI300X")?.excluded, { unhealthy: 1 });
});

test("a price turns the choice: of a family, and of a node before that of its family", () => {
  const { decided } = fixture();
  assert.equal(decided({ prices: new Map([["MI300X", 8]]) }).choice.node, "h1");
  assert.equal(
    decided({
      prices: new Map([
        ["MI300X", 8],
        ["mi1", 1],
      ]),
    }).choice.node,
    "mi1",
  );
});

test("a draft decides as the policy would, under its own name", () => {
  const { decided, config } = fixture();
  const [policy] = config.policies;
  assert.ok(policy !== undefined);
  const draft = { ...policy, name: "draft", acceleratorPreference: [{ family: "H100", priority: 1 }] };
  const decision = decided({ policy: draft }, { policy: "cheap" });
  assert.equal(decision.policy.name, "draft");
  assert.equal(decision.choice.node, "h1");
  assert.equal(decision.outside_chain, 1);
  // one that has the name of a policy stands in for it
  assert.equal(decided({ policy: { ...draft, name: "cheap" } }).choice.node, "h1");
});

test("a draft has an index that no policy of the process has", () => {
  const { names } = fixture();
  for (let index = names.policies.size; index < POLICIES_MAX; index++) names.policies.register("a", `p${index}`);
  assert.equal(names.policies.find("a", `p${POLICIES_MAX - 1}`), POLICIES_MAX - 1);
  assert.equal(names.policies.register("a", "one more"), -1);
});

test("names that nothing has are told, with those of the account's own nodes and no others", () => {
  const { ask, config } = fixture();
  assert.deepEqual(ask({ down: new Set(["secret"]) }), {
    kind: "unknown",
    what: "node",
    name: "secret",
    known: ["h1", "mi1"],
  });
  assert.deepEqual(ask({ prices: new Map([["L40S", 1]]) }), {
    kind: "unknown",
    what: "node or family",
    name: "L40S",
    known: ["H100", "MI300X", "h1", "mi1"],
  });
  const policy = { ...(config.policies[0] as PolicyConfig), acceleratorPreference: [{ family: "TPU", priority: 1 }] };
  assert.deepEqual(ask({ policy }), { kind: "unknown", what: "family", name: "TPU", known: ["H100", "MI300X"] });
});

test("what a caller would be refused for is the answer", () => {
  const { ask } = fixture();
  const answer = ask({}, { model: "theirs" });
  assert.ok(answer.kind === "refused");
  assert.equal(answer.refusal.code, "model_not_found");
  assert.deepEqual(answer.refusal.known, ["m"]);
});

test("nobody left is an answer too, with the reason of each family", () => {
  const decision = fixture().decided({ down: new Set(["mi1", "h1"]) });
  assert.equal(decision.choice.node, null);
  assert.equal(decision.choice.reason, "no_node_available");
});

test("what is decided first, as it is, leaves nothing that the decision under changes could see", () => {
  const { table, decided, fleet } = fixture();
  const rows = [...fleet.nodes].map(({ row }) => row);
  const [first] = rows;
  // a node with one place left, and the other with a trial to give
  table.maxInFlight[first ?? 0] = 1;
  for (const row of rows.slice(1)) table.cooldownUntil[row] = 1;
  for (const price of [0.1, 1, 20]) {
    const changes = { prices: new Map([["H100", price]]) };
    const { choice } = decided(changes);
    for (const row of rows.slice(0, 2)) table.priceUsdPerHour[row] = row === first ? price : 2;
    const real = decided();
    assert.deepEqual(
      [choice.node, choice.depth, choice.is_trial],
      [real.choice.node, real.choice.depth, real.choice.is_trial],
    );
    for (const row of rows.slice(0, 2)) table.priceUsdPerHour[row] = row === first ? 4 : 2;
  }
});

test("without changes both are one decision", () => {
  const answer = fixture().ask();
  assert.ok(answer.kind === "decided");
  assert.equal(answer.decision, answer.asItIs);
});
