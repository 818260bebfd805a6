import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeRoutingHeader, encodeRoutingHeader, type ReceivedRouting, type Routing } from "./routing.ts";

const full: Routing = {
  node: "mi300x-a",
  policy: "llama3-70b-batch",
  family: "MI300X",
  decision: "0198a3c0-7b1e-7000-8000-0000000003e8",
  queueDepth: 3,
  attempt: 1,
  reason: "cheapest",
  hint: "used",
};
const fullText =
  'node="mi300x-a", policy="llama3-70b-batch", family="MI300X", decision="0198a3c0-7b1e-7000-8000-0000000003e8", ' +
  "queue_depth=3, attempt=1, reason=cheapest, hint=used";

test("a routing is written as an RFC 9651 dictionary", () => {
  assert.equal(encodeRoutingHeader(full), fullText);
  assert.equal(encodeRoutingHeader({ policy: "p", reason: "refused" }), 'policy="p", reason=refused');
  assert.equal(encodeRoutingHeader({ attempt: 2 }), "attempt=2");
  assert.equal(encodeRoutingHeader({}), "");
});

test("an unknown number is left out", () => {
  assert.equal(encodeRoutingHeader({ node: "a", queueDepth: -1, attempt: Number.NaN }), 'node="a"');
  assert.equal(encodeRoutingHeader({ queueDepth: 1.5, attempt: 1e15 }), "");
  assert.equal(encodeRoutingHeader({ queueDepth: 0 }), "queue_depth=0");
});

test("quotes and backslashes are escaped", () => {
  assert.equal(encodeRoutingHeader({ node: 'a"b\\c' }), 'node="a\\"b\\\\c"');
});

test("what could inject a header is refused", () => {
  for (const node of ["a\r\nx: y", "a\n", "é", "\u0000"]) {
    assert.throws(() => encodeRoutingHeader({ node }), RangeError);
  }
});

test("what was written is read", () => {
  assert.deepEqual(decodeRoutingHeader(fullText), full);
});

test("members that are unknown or have another type don't disturb the others", () => {
  const cases: [string, ReceivedRouting][] = [
    ["reason=reason_of_tomorrow", { reason: "reason_of_tomorrow" }],
    ["", {}],
    ["   ", {}],
    ['zone="eu", node="a"', { node: "a" }],
    ["node=a, attempt=2", { attempt: 2 }],
    ["attempt=1.5, queue_depth=2", { queueDepth: 2 }],
    ['attempt="1", queue_depth=-1, node="a"', { node: "a" }],
    ['node="a";weight=3;x="\\"";y, attempt=1;z=?1', { node: "a", attempt: 1 }],
    ['a, b=?0, c=:aGk=:, d=@1659578233, e=%"f%c3%bc", f=("x" y;q=1 2.5), g=(), node="a"', { node: "a" }],
    ['node="a",policy="p"', { node: "a", policy: "p" }],
    ['node="a"\t ,\t policy="p"  ', { node: "a", policy: "p" }],
    ['node="a", node="b"', { node: "b" }],
    ['node="a", node', {}],
    ["hint=maybe, attempt=1", { attempt: 1 }],
  ];
  for (const [text, expected] of cases) {
    assert.deepEqual(decodeRoutingHeader(text), expected, text);
  }
});

test("what is no dictionary is read as nothing", () => {
  for (const text of [
    ",",
    "node=",
    'node="a',
    'node="a\\x"',
    'node="a",',
    'node="a", ',
    'node="a" policy="p"',
    "Node=1",
    "__proto__=1",
    "node=é",
    'node="é"',
    "attempt=1234567890123456",
    "attempt=1.2345",
    "attempt=1.",
    "attempt=--1",
    "a=(1",
    "a=(1,2)",
    'a=("x""y")',
    "a=?2",
    "a;",
    "a;B",
    'node="a\nb"',
  ]) {
    assert.equal(decodeRoutingHeader(text), null, JSON.stringify(text));
  }
});
