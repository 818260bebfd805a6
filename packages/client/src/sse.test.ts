import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { EventTooLargeError, type SseEvent, SseParser } from "./sse.ts";

const utf8 = new TextEncoder();

/** Parses pieces, with the end of the body. */
function parse(pieces: readonly Uint8Array[]): SseEvent[] {
  const parser = new SseParser();
  const out: SseEvent[] = [];
  for (const piece of pieces) parser.push(piece, out);
  parser.end(out);
  return out;
}

/** A slow parser that says what the standard says: all at once, line by line. */
function reference(bytes: Uint8Array): SseEvent[] {
  const lines = new TextDecoder().decode(bytes).split(/\r\n|\n|\r/);
  const out: SseEvent[] = [];
  let data: string[] = [];
  let name: string | undefined;
  for (const line of [...lines, "", ""]) {
    if (line === "") {
      if (data.join("\n") !== "") out.push({ name, data: data.join("\n") });
      data = [];
      name = undefined;
      continue;
    }
    const [, field = "", value = ""] = /^([^:]*)(?:: ?)?(.*)$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    if (field === "event") name = value === "" || value === "message" ? undefined : value;
  }
  return out;
}

const part = fc.oneof(
  fc.constantFrom(
    "data:",
    "data: ",
    "data",
    "dat",
    "event: error",
    "event:",
    "event: message",
    ": ping",
    "id: 1",
    "retry",
  ),
  fc.constantFrom("\n", "\r", "\r\n", "\n\n", "\r\n\r\n", " ", "{}", "[DONE]", "\ufeff", "\u2028", "é", "🦙", "\u0085"),
  fc.string({ unit: "grapheme", maxLength: 4 }),
);
const stream = fc.oneof(
  fc.array(part, { maxLength: 40 }).map((parts) => utf8.encode(parts.join(""))),
  // bytes that are no UTF-8
  fc
    .array(
      fc.oneof(
        part.map((each) => utf8.encode(each)),
        fc.uint8Array({ maxLength: 4 }),
      ),
      { maxLength: 20 },
    )
    .map(concat),
);

function concat(pieces: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(pieces.flatMap((each) => [...each]));
}

test("a stream reads the same however it is cut", () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat({ max: 200 }), { maxLength: 12 }), (bytes, at) => {
      const cuts = [0, ...at.map((each) => each % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
      const pieces = cuts.slice(1).map((end, index) => bytes.slice(cuts[index], end));
      assert.deepEqual(parse(pieces), reference(bytes));
    }),
    { numRuns: 2000 },
  );
});

test("a stream reads the same byte by byte", () => {
  fc.assert(
    fc.property(stream, (bytes) => assert.deepEqual(parse([...bytes].map((b) => Uint8Array.of(b))), reference(bytes))),
  );
});

test("events are given as soon as their blank line is there", () => {
  const parser = new SseParser();
  const out: SseEvent[] = [];
  parser.push(utf8.encode("data: 1\n"), out);
  assert.deepEqual(out, []);
  parser.push(utf8.encode("\n"), out);
  assert.deepEqual(out, [{ name: undefined, data: "1" }]);
  parser.push(utf8.encode("data: 2\r\n\r"), out);
  assert.equal(out.length, 2, "the line feed is not waited for");
});

test("what is searched is linear in the length of a line, however many pieces it comes in", (t) => {
  let searched = 0;
  for (const name of ["indexOf", "includes", "endsWith"] as const) {
    const original = String.prototype[name] as (this: string, ...args: unknown[]) => unknown;
    t.mock.method(String.prototype, name, function (this: string, ...args: unknown[]) {
      searched += this.length - (typeof args[1] === "number" ? args[1] : 0);
      return original.apply(this, args);
    });
  }
  const pieces = 2000;
  const parser = new SseParser();
  const out: SseEvent[] = [];
  parser.push(utf8.encode("data: "), out);
  for (let index = 0; index < pieces; index++) parser.push(utf8.encode("x".repeat(16)), out);
  parser.push(utf8.encode("\n\n"), out);
  t.mock.restoreAll();
  const length = pieces * 16;
  assert.equal(out[0]?.data.length, length);
  assert.ok(searched >= length && searched < 3 * length, `${searched} of ${length}`);
});

test("an event that never ends is refused, in one line and in many", () => {
  const line = utf8.encode("x".repeat(1 << 20));
  const lines = utf8.encode(`data: ${"x".repeat(1 << 20)}\n`);
  for (const piece of [line, lines]) {
    const parser = new SseParser();
    assert.throws(() => {
      for (let index = 0; index < 20; index++) parser.push(piece, []);
    }, EventTooLargeError);
  }
});
