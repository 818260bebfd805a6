import assert from "node:assert/strict";
import { test } from "node:test";
import { REASONS } from "@zml/engine/reasons";
import fc from "fast-check";
import { parseDictionary, serializeDictionary, Token } from "structured-headers";
import { decodeRoutingHeader, encodeRoutingHeader, type Routing } from "./routing.ts";

const text = fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)) });
const count = fc.integer({ min: 0, max: 999_999_999_999_999 });
const routing: fc.Arbitrary<Routing> = fc.record(
  {
    node: text,
    policy: text,
    family: text,
    decision: text,
    queueDepth: count,
    attempt: count,
    reason: fc.constantFrom(...REASONS),
    hint: fc.constantFrom("used" as const, "unused" as const),
  },
  { requiredKeys: [], noNullPrototype: true },
);

test("every routing is read as it was written", () => {
  fc.assert(fc.property(routing, (value) => assert.deepEqual(decodeRoutingHeader(encodeRoutingHeader(value)), value)));
});

test("a written routing is one line of printable ASCII", () => {
  fc.assert(fc.property(routing, (value) => assert.match(encodeRoutingHeader(value), /^[ -~]*$/)));
});

test("reading never throws, whatever stands there", () => {
  const damaged = fc.tuple(routing, fc.nat(), fc.string({ maxLength: 3 })).map(([value, at, insert]) => {
    const whole = encodeRoutingHeader(value);
    const cut = at % (whole.length + 1);
    return whole.slice(0, cut) + insert + whole.slice(cut + insert.length);
  });
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), damaged), (value) => {
      decodeRoutingHeader(value);
    }),
  );
});

/** A routing as the reference library sees it. */
function asDictionary(value: Routing): Parameters<typeof serializeDictionary>[0] {
  const members = {
    node: value.node,
    policy: value.policy,
    family: value.family,
    decision: value.decision,
    queue_depth: value.queueDepth,
    attempt: value.attempt,
    reason: value.reason === undefined ? undefined : new Token(value.reason),
    hint: value.hint === undefined ? undefined : new Token(value.hint),
  };
  const known = Object.entries(members).flatMap(([key, item]) => (item === undefined ? [] : [[key, item] as const]));
  return Object.fromEntries(known);
}

test("every routing is written as the reference library writes it", () => {
  fc.assert(
    fc.property(routing, (value) => assert.equal(encodeRoutingHeader(value), serializeDictionary(asDictionary(value)))),
  );
});

/** Parts of dictionaries, right and wrong. Dates are left out: the library takes none that a blank follows. */
const key = fc.constantFrom("node", "attempt", "reason", "*x", "a.b-c", "A", "1");
const bare = fc.constantFrom(
  ...['"a"', '"a\\"b"', '"a\\n"', '"a', '"é"', "1", "-1", "--1", "1.5", "1.", "999999999999999", "1000000000000000"],
  ...["123456789012.123", "1234567890123.1", "tok", "tok/x:y", "*t", "?1", "?2", ":aGk=:", ":aGk", '%"x"'],
  ...['%"%c3%bc"', '%"%C3"', "()", "(1 2)", "(1  2 )", "(1,2)", '("x";a=1 y);b', "(1", "", "-"],
);
const value = fc.option(
  bare.map((item) => `=${item}`),
  { nil: "" },
);
const parameter = fc.tuple(fc.constantFrom(";", "; ", " ;"), key, value).map((parts) => parts.join(""));
const member = fc
  .tuple(key, value, fc.array(parameter, { maxLength: 2 }))
  .map(([name, item, parameters]) => name + item + parameters.join(""));
const separator = fc.constantFrom(",", ", ", " ,", "\t,\t", " ", ",,");
const dictionary = fc
  .tuple(fc.array(fc.tuple(member, separator), { maxLength: 2 }), member, fc.constantFrom("", " ", "\t", ","))
  .map(([before, last, end]) => before.flat().join("") + last + end);

test("what is read from a dictionary, or that it is none, is what the reference library says", () => {
  fc.assert(
    fc.property(dictionary, (text) => {
      const ours = decodeRoutingHeader(text);
      const theirs = parsed(text);
      assert.equal(ours !== null, theirs !== null, text);
      const node = theirs?.get("node")?.[0];
      assert.equal(ours?.node, typeof node === "string" ? node : undefined);
      const reason = theirs?.get("reason")?.[0];
      assert.equal(ours?.reason, reason instanceof Token ? reason.toString() : undefined);
    }),
    { numRuns: 2000 },
  );
});

function parsed(text: string): ReturnType<typeof parseDictionary> | null {
  try {
    return parseDictionary(text);
  } catch {
    return null;
  }
}
