import assert from "node:assert/strict";
import { test } from "node:test";
import type { LearnedNumber } from "../store/operations.ts";
import { Store } from "../store/store.ts";
import { MEMORY } from "../store/store-messages.ts";
import { SILENT_LOG } from "./gateway-log.ts";
import { KeptState } from "./kept-state.ts";

const learned = (index: number): LearnedNumber => ({
  account: "default",
  node: `pod-${index}`,
  url: `http://pod-${index}.pods.example:8000`,
  family: "H100",
  model: "llama-3-70b-instruct",
  name: "tokens_per_second",
  value: 1,
  samples: 1,
  updatedAtMs: index,
});

test("what a fleet of pods that come and go learned in weeks is brought back up to a bound, the newest first", async (t) => {
  const store = new Store({ folder: MEMORY, log: SILENT_LOG });
  t.after(() => store.close());
  await store.open();
  const total = 150_000;
  for (let from = 0; from < total; from += 5_000) {
    const numbers = Array.from({ length: 5_000 }, (_, index) => learned(from + index));
    await store.call("learned.save", { numbers, forgetBeforeMs: 0 });
  }
  const retention = (): never => assert.fail("nothing is saved");
  const kept = new KeptState({ store, log: SILENT_LOG, nowMs: () => 0, retention, exportLearned: () => [] });
  const numbers = await kept.loadLearned();
  assert.equal(numbers.length, 131_072);
  assert.equal(numbers[0]?.updatedAtMs, total - 1);
  assert.equal(new Set(numbers.map(({ node }) => node)).size, numbers.length);
});
