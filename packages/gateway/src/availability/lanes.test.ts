import assert from "node:assert/strict";
import { it } from "node:test";
import { Lane } from "./lanes.ts";

/** A lane and tasks that end when told. */
function laneOf(limit: number) {
  const lane = new Lane(limit);
  const started: number[] = [];
  const ends = new Map<number, () => void>();
  const add = (id: number) =>
    lane.run(() => {
      started.push(id);
      return new Promise((resolve) => ends.set(id, resolve));
    });
  const end = async (id: number) => {
    ends.get(id)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { lane, started, add, end };
}

it("no more tasks run at once than the bound, and the others follow in order", async () => {
  const { started, add, end } = laneOf(2);
  for (const id of [1, 2, 3, 4]) add(id);
  assert.deepEqual(started, [1, 2]);
  await end(2);
  assert.deepEqual(started, [1, 2, 3]);
  await end(1);
  assert.deepEqual(started, [1, 2, 3, 4]);
});

it("a larger bound lets waiting tasks start at once, a smaller one waits for those that run", async () => {
  const { lane, started, add, end } = laneOf(1);
  for (const id of [1, 2, 3, 4, 5]) add(id);
  lane.setLimit(3);
  assert.deepEqual(started, [1, 2, 3]);
  lane.setLimit(1);
  await end(1);
  await end(2);
  assert.deepEqual(started, [1, 2, 3]);
  await end(3);
  assert.deepEqual(started, [1, 2, 3, 4]);
});
