import assert from "node:assert/strict";
import { test } from "node:test";
import { createNameRegistry } from "./name-registry.ts";

test("a name gets one index per process, and the index leads back to the name", () => {
  const { models } = createNameRegistry();
  assert.equal(models.register("default", "a"), 0);
  assert.equal(models.register("other", "a"), 1);
  assert.equal(models.register("default", "a"), 0);
  assert.deepEqual(models.nameOf(1), { scope: "other", name: "a" });
  assert.equal(models.find("other", "a"), 1);
});

test("what was never registered has no index and no name", () => {
  const { families } = createNameRegistry();
  assert.equal(families.find("", "H100"), -1);
  assert.equal(families.nameOf(0), null);
  assert.equal(families.nameOf(-1), null);
});

test("two parts that read the same when joined are different names", () => {
  const { policies } = createNameRegistry();
  assert.notEqual(policies.register("a/b", "c"), policies.register("a", "b/c"));
});

test("a full table gives no new index and keeps the old ones", () => {
  const { models } = createNameRegistry({ models: 1 });
  assert.equal(models.register("default", "a"), 0);
  assert.equal(models.register("default", "b"), -1);
  assert.equal(models.register("default", "a"), 0);
  assert.equal(models.size, 1);
});
