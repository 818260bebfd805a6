import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAIN_FAMILIES_MAX } from "./bounds.ts";
import { applyUpdate, compilePolicy, type Directory } from "./directory.ts";
import { buildFleet } from "./testing/fleet.ts";

const fleet = () => buildFleet({ nodes: [{ family: "A" }, { family: "B" }], policies: [{ name: "p" }, { name: "q" }] });
const account = (directory: Directory, name = "default") => {
  const found = directory.accounts.get(name);
  assert.ok(found !== undefined);
  return found;
};

test("families of equal priority form one tier, whatever their numbers and order", () => {
  const { policy } = fleet().request();
  const compiled = compilePolicy({
    ...policy,
    chain: [
      { family: 3, priority: 20 },
      { family: 0, priority: 1 },
      { family: 2, priority: 20 },
    ],
  });
  assert.deepEqual([...compiled.chainFamilies], [0, 3, 2]);
  assert.deepEqual([...compiled.chainTiers], [0, 1, 1]);
  assert.deepEqual([...compiled.positionOfFamily], [0, -1, 2, 1]);
});

test("a chain longer than its bound is refused", () => {
  const { policy } = fleet().request();
  const chain = Array.from({ length: CHAIN_FAMILIES_MAX + 1 }, (_, family) => ({ family, priority: 1 }));
  assert.throws(() => compilePolicy({ ...policy, chain }), /at most 16/);
});

test("an update replaces what it names and keeps the rest; a running request keeps what it started with", () => {
  const { directory, request } = fleet();
  const running = request();
  applyUpdate(directory, { version: 2, policies: [{ ...running.policy, costPriority: "latency" }] });
  assert.equal(running.policy.costPriority, "cost");
  assert.equal(account(directory).policies.get("p")?.costPriority, "latency");
  assert.equal(account(directory).policies.get("q")?.costPriority, "cost");
  assert.equal(directory.policiesByIndex.get(running.policy.index)?.costPriority, "latency");
  assert.equal(directory.version, 2);
});

test("removals come before additions, so that a name can move to another meaning in one update", () => {
  const { directory, request } = fleet();
  const { model } = request();
  applyUpdate(directory, {
    version: 2,
    removeModels: [{ account: "default", name: "m" }],
    models: [{ ...model, rows: Int32Array.of(1), placements: Int32Array.of(4), families: Int32Array.of(1) }],
  });
  assert.deepEqual([...(account(directory).models.get("m")?.rowSet ?? [])], [1]);
  assert.equal(directory.modelsByIndex.get(0)?.rows.length, 1);
});

test("an account leaves with its policies and models in one update, named or not", () => {
  for (const isNamed of [true, false]) {
    const { directory, request } = fleet();
    const { model, policy } = request();
    applyUpdate(directory, {
      version: 2,
      removeAccounts: ["default"],
      ...(isNamed
        ? {
            removeModels: [{ account: "default", name: model.name }],
            removePolicies: ["p", "q"].map((name) => ({ account: "default", name })),
          }
        : {}),
    });
    assert.equal(directory.accounts.size, 0);
    assert.equal(directory.modelsByIndex.size, 0);
    assert.equal(directory.policiesByIndex.size, 0);
    assert.equal(policy.name, "p");
  }
});

test("an account that is removed and added in one update starts empty", () => {
  const { directory } = fleet();
  const before = account(directory);
  applyUpdate(directory, { version: 2, removeAccounts: ["default"], accounts: [before] });
  assert.equal(account(directory).models.size, 0);
  assert.equal(account(directory).policies.size, 0);
});
