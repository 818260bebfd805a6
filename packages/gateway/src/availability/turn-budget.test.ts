import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { TurnBudget } from "./turn-budget.ts";

/** Work that takes the time that the test says. */
function budget() {
  let nowMs = 0;
  const done: number[] = [];
  const turns = new TurnBudget(10, () => nowMs);
  const work = (id: number, tookMs: number) =>
    turns.run(() => {
      nowMs += tookMs;
      done.push(id);
      return id;
    });
  return { done, work, turns };
}

test("work that fits into a turn is done at once, and what comes later waits for the next turns, in order", async () => {
  const { done, work } = budget();
  const all = [0, 1, 2, 3, 4, 5, 6].map((id) => work(id, 4));
  assert.deepEqual(done, [0, 1, 2], "the third begins while 2 ms are left");
  await turn();
  assert.ok(done.length <= 6, `${done.length} done`);
  assert.deepEqual(await Promise.all(all), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(done, [0, 1, 2, 3, 4, 5, 6]);
});

test("each turn does some of it, however long one piece takes", async () => {
  const { done, work } = budget();
  const all = [0, 1, 2, 3].map((id) => work(id, 1_000));
  assert.deepEqual(done, [0]);
  await Promise.all(all);
  assert.deepEqual(done, [0, 1, 2, 3]);
});

test("work that throws rejects its own caller and nobody else", async () => {
  const { work, turns } = budget();
  const failed = turns.run(() => {
    throw new Error("broken");
  });
  await assert.rejects(failed, /broken/);
  assert.equal(await work(1, 1), 1);
});

test("a new turn has its whole time again", async () => {
  const { done, work } = budget();
  await work(0, 50);
  await turn();
  await turn();
  void work(1, 1);
  assert.deepEqual(done, [0, 1]);
});
