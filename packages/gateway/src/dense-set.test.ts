import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { DenseSet } from "./dense-set.ts";

test("a dense set holds what a Set holds, whatever is added and removed", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(9))), (steps) => {
      const members = Array.from({ length: 10 }, (_, name) => ({ name, slot: -1 }));
      const dense = new DenseSet<(typeof members)[number]>();
      const plain = new Set<number>();
      for (const [isAdded, name] of steps) {
        const member = members[name];
        assert.ok(member !== undefined);
        if (isAdded) {
          dense.add(member);
          plain.add(name);
        } else {
          dense.delete(member);
          plain.delete(name);
        }
        assert.deepEqual(new Set(dense.snapshot().map((one) => one.name)), plain);
        assert.equal(dense.size, plain.size);
      }
    }),
  );
});

test("members may remove themselves while they are visited", () => {
  const dense = new DenseSet<{ slot: number; name: number }>();
  for (let name = 0; name < 5; name++) dense.add({ slot: -1, name });
  const seen: number[] = [];
  dense.forEachBackward((member) => {
    seen.push(member.name);
    dense.delete(member);
  });
  assert.deepEqual(seen.sort(), [0, 1, 2, 3, 4]);
  assert.equal(dense.size, 0);
});
