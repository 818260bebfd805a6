import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { EventHeap } from "./event-heap.ts";

test("events come in order of time, and those of one moment in the order in which they were added", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer({ min: 0, max: 20 })), { maxLength: 3000 }), (script) => {
      const heap = new EventHeap();
      let model: { atMs: number; a: number }[] = [];
      script.forEach((atMs, a) => {
        if (atMs !== null) {
          heap.add(atMs, a % 3, a, -1 - a);
          model = [...model, { atMs, a }];
          return;
        }
        const next = model.toSorted((x, y) => x.atMs - y.atMs || x.a - y.a)[0];
        assert.equal(heap.nextMs, next?.atMs ?? Infinity);
        assert.equal(heap.pop(), next !== undefined);
        if (next === undefined) return;
        assert.deepEqual([heap.atMs, heap.kind, heap.a, heap.b], [next.atMs, next.a % 3, next.a, -1 - next.a]);
        model = model.filter((one) => one !== next);
      });
      assert.equal(heap.size, model.length);
    }),
    { numRuns: 60, examples: [[Array.from({ length: 2500 }, (_, index) => index % 21)]] },
  );
});
