import assert from "node:assert/strict";
import dns, { type LookupAddress } from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { type TestContext, test } from "node:test";
import { sharedLookup } from "./shared-lookup.ts";

type Answer = (error: Error | null, addresses: LookupAddress[]) => void;

/** Holds look-ups back until told; names are new in each test, since what is known of one is kept. */
function resolver(t: TestContext) {
  const asked: Answer[] = [];
  const fake = t.mock.method(dns, "lookup", (_name: string, _options: object, answer: Answer) => asked.push(answer));
  syncBuiltinESMExports();
  t.after(() => {
    fake.mock.restore();
    syncBuiltinESMExports();
  });
  return asked;
}

const at = (address: string): LookupAddress[] => [{ address, family: 4 }];
const failed = (code: string): Error => Object.assign(new Error(code), { code });
const ask = (name: string): Promise<LookupAddress[]> =>
  new Promise((resolve, reject) => {
    sharedLookup(name, {}, (error, addresses) => (error === null ? resolve(addresses) : reject(error)));
  });

test("B06: however many connects wait for a name, one look-up of it runs, and other names are looked up meanwhile", async (t) => {
  const asked = resolver(t);
  const waiting = Promise.all(Array.from({ length: 50 }, () => ask("one.test")));
  assert.equal(asked.length, 1);
  const other = ask("other.test");
  assert.equal(asked.length, 2);
  asked[1]?.(null, at("10.0.0.2"));
  assert.deepEqual(await other, at("10.0.0.2"));
  asked[0]?.(null, at("10.0.0.1"));
  for (const addresses of await waiting) assert.deepEqual(addresses, at("10.0.0.1"));
  const next = ask("one.test");
  assert.equal(asked.length, 3, "a later connect looks again");
  asked[2]?.(null, at("10.0.0.3"));
  assert.deepEqual(await next, at("10.0.0.3"));
});

test("B06: a resolver that fails, or says nothing, costs no node that was known before", async (t) => {
  const asked = resolver(t);
  const first = ask("known.test");
  asked[0]?.(null, at("10.0.0.1"));
  await first;
  const failing = ask("known.test");
  asked[1]?.(failed("EAI_AGAIN"), []);
  assert.deepEqual(await failing, at("10.0.0.1"));
  assert.deepEqual(await ask("known.test"), at("10.0.0.1"), "though the look-up never ends");
  assert.equal(asked.length, 3);
  const late = ask("known.test");
  asked[2]?.(null, at("10.0.0.9"));
  assert.deepEqual(await late, at("10.0.0.9"), "a late answer counts");
});

test("a name that was never known, or is gone, fails", async (t) => {
  const asked = resolver(t);
  const unknown = ask("new.test");
  asked[0]?.(failed("EAI_AGAIN"), []);
  await assert.rejects(unknown, { code: "EAI_AGAIN" });
  const known = ask("new.test");
  asked[1]?.(null, at("10.0.0.1"));
  await known;
  const gone = ask("new.test");
  asked[2]?.(failed("ENOTFOUND"), []);
  await assert.rejects(gone, { code: "ENOTFOUND" });
  const after = ask("new.test");
  asked[3]?.(failed("EAI_AGAIN"), []);
  await assert.rejects(after, { code: "EAI_AGAIN" });
});
