import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
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
    reason: fc.stringMatching(/^[a-z][a-z_]{0,30}$/),
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
