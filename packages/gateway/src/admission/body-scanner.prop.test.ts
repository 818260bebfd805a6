import { strict as assert } from "node:assert";
import { test } from "node:test";
import fc from "fast-check";
import { isModelName } from "../request-body/routing-fields.ts";
import type { BodyScan } from "./body-scan.ts";
import { BodyScanner, type BodyScanOptions } from "./body-scanner.ts";

function scanIn(pieces: readonly Buffer[], options?: BodyScanOptions): BodyScan {
  const scanner = new BodyScanner(options);
  for (const piece of pieces) scanner.push(piece);
  return scanner.end();
}

function cut(body: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set([0, ...cuts.map((cutAt) => cutAt % (body.length + 1)), body.length])].sort((a, b) => a - b);
  return at.slice(1).map((end, index) => Buffer.from(body.subarray(at[index], end)));
}

/** The obvious way: decode strictly, parse. */
function parses(body: Buffer): boolean {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
    return true;
  } catch {
    return false;
  }
}

function isJson(scan: BodyScan): boolean {
  return scan.ok || (scan.code !== "invalid_json" && scan.code !== "body_empty");
}

const cuts = fc.array(fc.nat(), { maxLength: 6 });
const unicode = fc.string({ unit: "binary" });
const json = fc.json({ stringUnit: "binary", maxDepth: 6 });

/** Text that is nearly JSON: pieces of the grammar in any order. */
const shards = fc
  .array(
    fc.constantFrom(
      ...'{}[],:"\\ \n\t0123456789-+.eE',
      "true",
      "false",
      "null",
      "\\u00",
      "\\ud800",
      "\\n",
      '"model"',
      '"a":',
      "\u0001",
      "é",
      "\ufeff",
      "1e400",
      "-0",
      "01",
      "{}",
      "[]",
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

/** A valid JSON text with one byte changed, taken out or put in. */
const damaged = fc
  .tuple(json, fc.nat(), fc.nat(255), fc.constantFrom("change", "drop", "insert"))
  .map(([text, where, byte, how]) => {
    const bytes = Buffer.from(text);
    const at = where % (bytes.length + 1);
    return Buffer.concat([
      bytes.subarray(0, at),
      how === "drop" ? Buffer.alloc(0) : Buffer.from([byte]),
      bytes.subarray(how === "insert" ? at : at + 1),
    ]);
  });

const spacedJson = fc
  .tuple(json, fc.constantFrom(undefined, 1, "\t", "\r\n "))
  .map(([text, space]) => Buffer.from(JSON.stringify(JSON.parse(text), null, space)));

const bodies = fc.oneof(
  json.map((text) => Buffer.from(text)),
  spacedJson,
  shards.map((text) => Buffer.from(text)),
  damaged,
  fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.concat([Buffer.from('["'), bytes, Buffer.from('"]')])),
);

test("the scanner accepts exactly what JSON.parse accepts, in any chunks", () => {
  fc.assert(
    fc.property(bodies, cuts, (body, at) => {
      const scan = scanIn(cut(body, at));
      assert.equal(isJson(scan), parses(body));
      assert.deepEqual(scan, scanIn([body]));
      assert.deepEqual(scan, scanIn([...body].map((byte) => Buffer.from([byte]))));
    }),
    { numRuns: 3000 },
  );
});

/** A key or string as JSON text, some of its characters escaped. */
function jsonText(text: string, seed: number): string {
  let out = "";
  for (let at = 0; at < text.length; at++) {
    const unit = text[at] as string;
    const isEscaped = ((seed >> (at % 20)) & 1) === 1;
    out += isEscaped ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}` : JSON.stringify(unit).slice(1, -1);
  }
  return `"${out}"`;
}

const limitNames = ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"] as const;
const modelName = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter(isModelName);
const fields = fc.record(
  {
    model: modelName,
    stream: fc.option(fc.boolean()),
    n: fc.option(fc.integer({ min: 1, max: 9 })),
    policy: fc.option(fc.constantFrom("batch", "llama3-70b-batch", "é")),
    accelerator: fc.option(fc.constantFrom("MI300X", "H100")),
    max_tokens: fc.option(fc.integer({ min: -1, max: 9000 })),
    max_completion_tokens: fc.integer({ min: 0, max: 9000 }),
    max_output_tokens: fc.integer({ min: 1, max: 9000 }),
    n_predict: fc.integer({ min: -1, max: 9000 }),
    Model: fc.anything({ maxDepth: 1 }).map(() => 7),
    messages: fc.jsonValue({ stringUnit: "binary" }),
    metadata: fc.constant({ model: "inner", policy: ["x"], n: "no" }),
  },
  { requiredKeys: ["model"] },
);

test("the routing fields are those that JSON.parse sees, whatever is escaped, nested or spaced", () => {
  fc.assert(
    fc.property(fields, fc.nat(), cuts, fc.constantFrom("", " ", "\n\t"), (members, seed, at, space) => {
      const text = `${space}{${Object.entries(members)
        .map(([key, value]) => {
          const shown = typeof value === "string" ? jsonText(value, seed >> 3) : JSON.stringify(value);
          return `${space}${jsonText(key, seed)}${space}:${space}${shown}${space}`;
        })
        .join(",")}}${space}`;
      const body = Buffer.from(text);
      const scan = scanIn(cut(body, at));
      assert(scan.ok, JSON.stringify(scan));
      const parsed = JSON.parse(text);
      assert.equal(scan.model, parsed.model);
      assert.equal(scan.stream, parsed.stream ?? false);
      assert.equal(scan.n, parsed.n ?? 1);
      assert.equal(scan.policy, parsed.policy ?? null);
      assert.equal(scan.accelerator, parsed.accelerator ?? null);
      const limits = limitNames.map((name) => parsed[name]).filter((limit) => limit > 0);
      assert.equal(scan.maxTokens, limits.length === 0 ? Number.NaN : Math.min(...limits));
      assert.equal(scan.bodyBytes, body.length);
      for (const span of scan.spans) {
        assert.deepEqual(JSON.parse(body.toString("utf8", span.valueStart, span.valueEnd)), parsed[span.field]);
        assert.equal(body[span.keyStart], 0x22);
        assert.equal(Object.keys(parsed)[span.memberIndex], span.field);
        if (span.commaBefore >= 0) assert.equal(body[span.commaBefore], 0x2c);
        if (span.commaAfter >= 0) assert.equal(body[span.commaAfter], 0x2c);
      }
    }),
    { numRuns: 1500 },
  );
});

test("a string of any length and any alignment ends where it ends", () => {
  fc.assert(
    fc.property(fc.nat(200), fc.nat(9), unicode, fc.nat(40), (length, offset, tail, cutAt) => {
      const text = JSON.stringify({ model: "m", prompt: "x".repeat(length) + tail });
      const body = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]).subarray(offset);
      const scan = scanIn([body.subarray(0, cutAt), body.subarray(cutAt)]);
      assert.equal(scan.ok, tail.isWellFormed());
    }),
    { numRuns: 1000 },
  );
});
