import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createRedactor, REDACTED, redactNames } from "./redact.ts";

const printable = fc.string({
  unit: fc.integer({ min: 33, max: 126 }).map((code) => String.fromCharCode(code)),
  minLength: 8,
});

test("no known secret survives in any text, whatever stands around it and however it is written", () => {
  const ways: ((secret: string) => string)[] = [
    (secret) => secret,
    (secret) => JSON.stringify({ error: `the node says: ${secret}!` }),
    (secret) => JSON.stringify({ body: JSON.stringify({ key: secret }) }),
    (secret) => `GET /v1?key=${encodeURIComponent(secret)}`,
    (secret) => Buffer.from(secret).toString("base64"),
    (secret) => `${secret}${secret}`,
    (secret) => `Error: ${secret}\n    at file.ts:1`,
  ];
  fc.assert(
    fc.property(
      fc.array(printable, { minLength: 1, maxLength: 5 }),
      fc.string(),
      fc.string(),
      (secrets, before, after) => {
        const redact = createRedactor(secrets);
        for (const secret of secrets) {
          for (const way of ways) {
            const text = redact(`${before}${way(secret)}${after}`);
            const left = text.replaceAll(REDACTED, "");
            // a value that others are pieces of may be joined again by what stands between them
            assert.ok(!text.includes(secret) || REDACTED.includes(secret), `${secret} in ${text}`);
            assert.ok(text.includes(REDACTED), left);
          }
        }
      },
    ),
  );
});

test("a short value goes where it is a word, and cuts no other word up", () => {
  const redact = createRedactor(["admin"]);
  assert.equal(redact("key admin of administrator, admin-key"), `key ${REDACTED} of administrator, ${REDACTED}-key`);
});

test("what is a secret by its shape goes without being known", () => {
  const redact = createRedactor([]);
  const key = `zml_${"aB3-_".repeat(9)}`;
  assert.equal(redact(`no such key: ${key}.`), `no such key: ${REDACTED}.`);
  assert.equal(redact('"authorization: Bearer sk-123.abc"'), `"authorization: Bearer ${REDACTED}"`);
  assert.equal(redact("connect http://user:pass@host/"), `connect http://${REDACTED}@host/`);
  assert.equal(redact("-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY----- and more"), `${REDACTED} and more`);
});

test("without secrets a text stays as it is", () => {
  const line = '{"level":"info","tokens":12,"url":"http://10.0.0.1:8000/v1","msg":"the bearer of it left"}';
  assert.equal(createRedactor([])(line.replace("bearer of", "holder of")), line.replace("bearer of", "holder of"));
});

test("fields that are secrets by their name are hidden at any depth, others are not", () => {
  const fields = {
    ...{ api_key: "x", apiKey: "x", "x-api-key": "x", Authorization: "x", accessToken: "x", private_key: "x" },
    ...{ key: "app", keys: 3, tokens: 12, input_tokens: 1, tokenizer: "t", monkey: "m" },
    nested: { password: "x", list: [{ cookie: "x", name: "n" }] },
  };
  assert.deepEqual(redactNames(fields), {
    ...{ api_key: REDACTED, apiKey: REDACTED, "x-api-key": REDACTED, Authorization: REDACTED },
    ...{ accessToken: REDACTED, private_key: REDACTED },
    ...{ key: "app", keys: 3, tokens: 12, input_tokens: 1, tokenizer: "t", monkey: "m" },
    nested: { password: REDACTED, list: [{ cookie: REDACTED, name: "n" }] },
  });
});
