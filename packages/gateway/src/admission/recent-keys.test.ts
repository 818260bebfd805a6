import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RecentKeys } from "./recent-keys.ts";

test("a key is known again once it was noted, and no other text is taken for it", () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1, maxLength: 600 }),
      fc.string({ minLength: 1, maxLength: 600 }),
      (key, other) => {
        const keys = new RecentKeys<string>();
        assert.equal(keys.find(key), null);
        keys.note(key, "holder");
        assert.equal(keys.find(key), key.length <= 512 ? "holder" : null);
        assert.equal(keys.find(other), other === key && key.length <= 512 ? "holder" : null);
        // one character more, less, or another one
        for (const near of [`${key}x`, `x${key}`, key.slice(1), key.slice(0, -1), `${key.slice(0, -1)}\u0000`]) {
          if (near !== key && near !== "") assert.equal(keys.find(near), null);
        }
      },
    ),
  );
});

test("keys of one place take turns: the later is known, the earlier is digested again", () => {
  const keys = new RecentKeys<number>();
  keys.note("first-ab", 1);
  keys.note("other-ab", 2);
  assert.equal(keys.find("other-ab"), 2);
  assert.equal(keys.find("first-ab"), null);
});

test("a key of the empty text is not known", () => {
  assert.equal(new RecentKeys<number>().find(""), null);
});
