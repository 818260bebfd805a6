import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { EjectionLimit, type Standing } from "./ejection-limit.ts";

const STANDINGS: readonly Standing[] = ["in", "suspect", "out"];

const step = fc.oneof(
  fc.record({
    kind: fc.constant("set" as const),
    row: fc.nat(11),
    models: fc.uniqueArray(fc.nat(3), { maxLength: 3 }),
    standing: fc.constantFrom(...STANDINGS),
  }),
  fc.record({ kind: fc.constant("remove" as const), row: fc.nat(11) }),
  fc.record({ kind: fc.constant("share" as const), share: fc.constantFrom(0, 0.2, 0.5, 1) }),
);

describe("the limit of ejections by health alone", () => {
  it("is never passed, never wastes a place, and tells every change, while nodes come, go and change", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let share = 0.5;
        const limit = new EjectionLimit(share);
        const nodes = new Map<number, { models: readonly number[]; standing: Standing }>();
        const told = new Set<number>();
        const toggle = (rows: readonly number[]) => {
          for (const row of rows) if (!told.delete(row)) told.add(row);
        };
        for (const next of steps) {
          if (next.kind === "set") {
            nodes.set(next.row, { models: next.models, standing: next.standing });
            toggle(limit.set(next.row, next.models, next.standing));
          } else if (next.kind === "remove") {
            nodes.delete(next.row);
            toggle(limit.remove(next.row));
            told.delete(next.row);
          } else {
            share = next.share;
            toggle(limit.setShare(share));
          }
          const isFull = (model: number, extra: number): boolean => {
            const serving = [...nodes].filter(([, node]) => node.models.includes(model));
            const counted = serving.filter(([, { standing }]) => standing !== "out").length;
            const ejected = serving.filter(([row]) => limit.isEjected(row)).length;
            return ejected + extra > (share === 0 ? 0 : Math.max(1, Math.floor(counted * share)));
          };
          for (const model of [0, 1, 2, 3]) assert.ok(!isFull(model, 0), `model ${model} has too many ejected`);
          for (const [row, { models, standing }] of nodes) {
            assert.equal(told.has(row), limit.isEjected(row), `row ${row} was told`);
            if (standing !== "suspect") assert.ok(!limit.isEjected(row));
            else if (!limit.isEjected(row))
              assert.ok(
                models.some((model) => isFull(model, 1)),
                `row ${row} waits`,
              );
          }
        }
      }),
    );
  });

  it("takes out one node of a model of one, half of many, and nodes without a model freely", () => {
    const limit = new EjectionLimit(0.5);
    assert.deepEqual(limit.set(0, [7], "suspect"), [0]);
    for (const row of [1, 2, 3, 4]) limit.set(row, [8], "in");
    assert.deepEqual(limit.set(1, [8], "suspect"), [1]);
    assert.deepEqual(limit.set(2, [8], "suspect"), [2]);
    assert.deepEqual(limit.set(3, [8], "suspect"), [], "half of four are out");
    assert.deepEqual(limit.set(4, [8], "suspect"), []);
    assert.deepEqual(limit.set(9, [], "suspect"), [9]);
  });

  it("gives the place of a node that is back to the one that waits for longest", () => {
    const limit = new EjectionLimit(0.5);
    for (const row of [1, 2, 3, 4]) limit.set(row, [8], "in");
    for (const row of [1, 2, 3, 4]) limit.set(row, [8], "suspect");
    assert.deepEqual(limit.set(1, [8], "in"), [1, 3]);
  });

  it("takes the newest back in when nodes that answered turn out to be gone", () => {
    const limit = new EjectionLimit(0.5);
    for (const row of [1, 2, 3, 4]) limit.set(row, [8], "in");
    limit.set(1, [8], "suspect");
    limit.set(2, [8], "suspect");
    assert.deepEqual(limit.set(4, [8], "out"), [2]);
  });
});
