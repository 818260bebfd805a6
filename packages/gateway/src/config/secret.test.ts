import assert from "node:assert/strict";
import { test } from "node:test";
import { format, inspect } from "node:util";
import { Secret } from "./secret.ts";

test("a secret shows itself in no conversion", () => {
  const secret = new Secret("hunter2");
  const holder = { secret, list: [secret], map: new Map([["a", secret]]) };
  const shown = [
    String(secret),
    `${secret}`,
    JSON.stringify(holder),
    inspect(holder, { depth: 9, showHidden: true, getters: true }),
    format("%s %o %O %j", secret, secret, secret, secret),
    inspect(structuredClone({ secret })),
    Object.values(secret).join(),
    new Error(`failed: ${secret}`).message,
  ];
  for (const text of shown) assert.ok(!text.includes("hunter2"), text);
});

test("a secret gives its value to who asks for it by name", () => {
  assert.equal(new Secret("hunter2").reveal(), "hunter2");
  assert.equal(new Secret("a").equals(new Secret("a")), true);
  assert.equal(new Secret("a").equals(new Secret("b")), false);
});
