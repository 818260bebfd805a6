import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeSpec } from "../availability/index.ts";
import { PollChanges } from "./poll-changes.ts";

const spec = (row: number, id = `n${row}`) => ({ row, id }) as unknown as NodeSpec;
const specs = (from: number, count: number) => Array.from({ length: count }, (_, index) => spec(from + index));

function polled() {
  const nodes = new Map<number, NodeSpec>();
  const changes = new PollChanges({
    addNode: (node) => {
      assert.ok(!nodes.has(node.row), "added once");
      nodes.set(node.row, node);
    },
    updateNode: (node) => {
      assert.ok(nodes.has(node.row), "only what is polled can change");
      nodes.set(node.row, node);
    },
    removeNode: (row) => assert.ok(nodes.delete(row), "only what is polled can go"),
  });
  return { nodes, changes };
}

test("a few new nodes are polled at once, many when the workers have them", async () => {
  const { nodes, changes } = polled();
  const { promise, resolve } = Promise.withResolvers<void>();
  changes.take({ added: specs(0, 10), updated: [], removed: [] }, () => promise);
  assert.equal(nodes.size, 10);
  changes.take({ added: specs(10, 10_000), updated: [], removed: [] }, () => promise);
  assert.equal(nodes.size, 10);
  resolve();
  await promise;
  assert.equal(nodes.size, 10_010);
  changes.take({ added: specs(20_000, 10_000), updated: [], removed: [] }, null);
  assert.equal(nodes.size, 20_010, "at the start nobody is waited for");
});

test("what changes or goes before it was polled comes as it is by then, or not at all", async () => {
  const { nodes, changes } = polled();
  const { promise, resolve } = Promise.withResolvers<void>();
  changes.take({ added: specs(0, 1_000), updated: [], removed: [] }, () => promise);
  changes.take({ added: [], updated: [spec(1, "other")], removed: [0] }, null);
  changes.take({ added: [spec(0, "again")], updated: [], removed: [] }, null);
  resolve();
  await promise;
  assert.equal(nodes.size, 1_000);
  assert.deepEqual([nodes.get(0), nodes.get(1)], [spec(0, "again"), spec(1, "other")]);
  changes.take({ added: specs(5_000, 1_000), updated: [], removed: [] }, () => promise);
  changes.stop();
  await promise;
  assert.equal(nodes.size, 1_000);
});
