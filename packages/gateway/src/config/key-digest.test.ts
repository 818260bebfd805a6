import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { createKeyDigest, keyDigest } from "./key-digest.ts";

test("the fast digest is HMAC-SHA-256, for keys of every length and one after the other", () => {
  const ascii = fc.string({
    unit: fc.integer({ min: 33, max: 126 }).map((code) => String.fromCharCode(code)),
    maxLength: 1200,
  });
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 0, maxLength: 64 }),
      fc.array(ascii, { maxLength: 4 }),
      (pepper, secrets) => {
        const digest = createKeyDigest(pepper);
        for (const secret of secrets) {
          const expected = createHmac("sha256", pepper).update(secret).digest("hex");
          assert.equal(digest(secret), expected);
          assert.equal(keyDigest(pepper, secret), expected);
        }
      },
    ),
  );
});

test("another pepper gives another digest, and a pepper that is no HMAC key as it is gets refused", () => {
  assert.notEqual(keyDigest(randomBytes(32), "zml_a"), keyDigest(randomBytes(32), "zml_a"));
  assert.throws(() => createKeyDigest(randomBytes(65)), /at most 64 bytes, got 65/);
});
