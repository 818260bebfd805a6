import { strict as assert } from "node:assert";
import { test } from "node:test";
import fc from "fast-check";
import type { RoutableBody } from "./body-scan.ts";
import { BodyScanner } from "./body-scanner.ts";

function scanIn(pieces: readonly Buffer[]): RoutableBody {
  const scanner = new BodyScanner();
  for (const piece of pieces) scanner.push(piece);
  const scan = scanner.end();
  assert(scan.ok, JSON.stringify(scan));
  return scan;
}

function cut(body: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set([0, ...cuts.map((cutAt) => cutAt % (body.length + 1)), body.length])].sort((a, b) => a - b);
  return at.slice(1).map((end, index) => Buffer.from(body.subarray(at[index], end)));
}

const IMAGE_TYPES = ["image_url", "input_image", "image"];

/** The obvious way: parse, walk, count the objects in arrays whose type is one of an image. */
function imagesIn(value: unknown, isInArray = false): number {
  if (typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + imagesIn(each, true), 0);
  const { type } = value as { type?: unknown };
  const own = isInArray && typeof type === "string" && IMAGE_TYPES.includes(type) ? 1 : 0;
  return Object.values(value).reduce((sum: number, each) => sum + imagesIn(each), own);
}

/** Bytes of the strings as they stand in the text, told apart by their parsed value. */
function stringBytes(text: string, isCounted: (value: string) => boolean): number {
  let bytes = 0;
  JSON.parse(text, (_, value, context?: { source?: string }) => {
    if (typeof value === "string" && isCounted(value)) bytes += Buffer.byteLength(context?.source ?? "") - 2;
    return value;
  });
  return bytes;
}

/** JSON text of a value with some of its characters escaped, in keys and strings alike. */
function written(value: unknown, seed: number): string {
  if (typeof value === "string") {
    let out = "";
    for (let at = 0; at < value.length; at++) {
      const unit = value[at] as string;
      const isEscaped = value.length < 40 && ((seed >> (at % 19)) & 1) === 1;
      out += isEscaped ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}` : JSON.stringify(unit).slice(1, -1);
    }
    return `"${out}"`;
  }
  if (Array.isArray(value)) return `[${value.map((each, index) => written(each, seed + index)).join(" ,")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value).map(([key, each], index) => {
    return `${written(key, seed + index)}:${written(each, seed + 3 * index)}`;
  });
  return `{${members.join(", ")}}`;
}

const word = fc.constantFrom(
  "image_url",
  "input_image",
  "image",
  "text",
  "type",
  "images",
  "Image",
  "image\n",
  "imag",
  "",
);
const key = fc.constantFrom("type", "type", "typ", "Type", "content", "source", "input", "t\u0000ype");
const noise = fc.string({ unit: "binary", maxLength: 12 }).filter((text) => text.isWellFormed());
const tree = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "medium", withCrossShrink: true },
    word,
    noise,
    fc.constantFrom(null, true, 1.5, -7),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof({ weight: 5, arbitrary: key }, { weight: 1, arbitrary: noise }), tie("value"), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
    fc.array(tie("part"), { maxLength: 3 }),
  ),
  /** What looks like a content part, its type at any place. */
  part: fc
    .tuple(tie("value"), word, tie("value"))
    .map(([before, type, after]) => ({ content: before, type, source: after })),
})).value;
const member = fc.oneof(
  tree,
  fc.array(tree, { maxLength: 4 }),
  fc.array(fc.record({ role: word, content: tree }), { maxLength: 3 }),
);
const cuts = fc.array(fc.nat(), { maxLength: 6 });

test("images are those that JSON.parse finds in messages and input, whatever is escaped, nested or cut", () => {
  let withImages = 0;
  fc.assert(
    fc.property(member, member, member, fc.boolean(), fc.nat(), cuts, (messages, input, other, isFirst, seed, at) => {
      const parts = { messages, metadata: other, input };
      const text = written(isFirst ? { model: "m", ...parts } : { ...parts, model: "m" }, seed);
      const body = Buffer.from(text);
      const scan = scanIn(cut(body, at));
      const parsed = JSON.parse(text);
      assert.equal(scan.images, imagesIn(parsed.messages) + imagesIn(parsed.input));
      if (scan.images > 0) withImages++;
      assert.equal(scan.opaqueBytes, 0);
      assert.deepEqual(scan, scanIn([body]));
      assert.deepEqual(scan, scanIn([...body].map((byte) => Buffer.from([byte]))));
    }),
    { numRuns: 3000 },
  );
  assert.ok(withImages > 300, `${withImages} of the bodies had images`);
});

const base64 = fc
  .uint8Array({ minLength: 1000, maxLength: 3000 })
  .map((bytes) => Buffer.from(bytes).toString("base64"));
const prose = fc
  .array(fc.constantFrom("the ", "quick\n", "brown—", "fox", "漢字 ", '"jumps" '), { maxLength: 900 })
  .map((words) => words.join(""));

test("base64 is no text, prose is, in any chunks, and both are counted as they stand in the body", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(base64, prose), { maxLength: 3 }), fc.boolean(), cuts, (parts, isBare, at) => {
      const content = parts.flatMap(([data, text]) => [
        { type: "text", text: `- ${text}` },
        { type: "image_url", image_url: { url: isBare ? data : `data:image/png;base64,${data}` } },
      ]);
      const text = JSON.stringify({ model: "m", messages: [{ role: "user", content }], input: "héllo\n" });
      const scan = scanIn(cut(Buffer.from(text), at));
      assert.equal(scan.images, parts.length);
      const isOpaque = (value: string): boolean => value.length > 1279 && /^[!-~]+$/.test(value);
      assert.equal(scan.opaqueBytes, stringBytes(text, isOpaque));
      assert.equal(
        scan.textBytes,
        stringBytes(text, (value) => value !== "m" && !isOpaque(value)),
      );
      assert.deepEqual(scan, scanIn([Buffer.from(text)]));
    }),
    { numRuns: 300 },
  );
});

const examples: [claim: string, body: string, images: number][] = [
  [
    "a part of OpenAI's chat",
    '{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"u"}}]}]}',
    1,
  ],
  [
    "a part of the Responses interface",
    '{"model":"m","input":[{"content":[{"image_url":"u","type":"input_image"}]}]}',
    1,
  ],
  ["a part of Anthropic's", '{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"base64"}}]}]}', 1],
  ["an image that a tool gave", '{"model":"m","messages":[{"content":[{"content":[{"type":"image"}]}]}]}', 1],
  ["an escaped type", '{"m\\u006fdel":"m","m\\u0065ssages":[{"t\\u0079pe":"im\\u0061ge_url"}]}', 1],
  ["two of them", '{"messages":[[{"type":"image"},{"type":"image"}]],"model":"m"}', 2],
  ["arguments of a tool that are called type", '{"model":"m","messages":[{"input":{"type":"image"}}]}', 0],
  ["a text that says so", '{"model":"m","messages":[{"content":"{\\"type\\":\\"image\\"}"}]}', 0],
  ["a tool's schema", '{"model":"m","tools":[{"type":"image"}],"messages":[]}', 0],
  ["a type that is a list", '{"model":"m","messages":[{"type":["image"]}]}', 0],
  ["the value of the key behind it", '{"model":"m","messages":[{"type":[],"name":"image"}]}', 0],
  ["messages within another member", '{"model":"m","extra":{"messages":[{"type":"image"}]}}', 0],
];

for (const [claim, body, images] of examples) {
  test(`${images === 0 ? "no image" : "an image"}: ${claim}`, () => {
    assert.equal(scanIn([Buffer.from(body)]).images, images);
  });
}
