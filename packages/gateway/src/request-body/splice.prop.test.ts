import { strict as assert } from "node:assert";
import { test } from "node:test";
import fc from "fast-check";
import { BodyScanner } from "../admission/body-scanner.ts";
import { ROUTING_FIELDS } from "./routing-fields.ts";
import type { BodyEdit } from "./splice.ts";
import { spliceBody } from "./splice.ts";

const member = fc.constantFrom<[string, string][]>(
  ["stream", "true"],
  ["n", "1"],
  ["policy", '"p,}"'],
  ["accelerator", "null"],
  ["max_tokens", "10"],
  ["seed", "9007199254740993"],
  ["temperature", "1.0"],
  ["big", "1e400"],
  ["zero", "-0"],
  ["messages", '[{"model":"x","policy":"y"}]'],
);
const members = fc.uniqueArray(member, { selector: ([key]) => key });
const spaces = fc.constantFrom("", " ", "\r\n\t");
const bodies = fc.tuple(members, fc.nat(), spaces, spaces).map(([others, at, before, after]) => {
  const all = others.toSpliced(at % (others.length + 1), 0, ["model", '"org/name"']);
  return `{${before}${all.map(([key, value]) => `"${key}"${after}:${before}${value}`).join(`${after},${before}`)}${after}}`;
});

function chunksOf(text: string, at: readonly number[]): Buffer[] {
  const body = Buffer.from(text);
  const ends = [...at.map((cutAt) => cutAt % body.length), body.length].sort((a, b) => a - b);
  let start = 0;
  return ends.map((end) => {
    const chunk = body.subarray(start, end);
    start = end;
    return chunk;
  });
}

/** The members in order, each value as its own text: what must be left after an edit. */
function membersOf(text: string): [string, string][] {
  const found: [string, string][] = [];
  JSON.parse(text, function (this: unknown, key, value, context?: { source?: string }) {
    if (context?.source !== undefined) found.push([key, context.source]);
    return value;
  });
  return found;
}

test("cutting members and replacing the model leaves the rest as it was", () => {
  fc.assert(
    fc.property(
      bodies,
      fc.array(fc.nat(), { maxLength: 8 }),
      fc.subarray([...ROUTING_FIELDS]),
      fc.boolean(),
      fc.string({ unit: "binary" }),
      (text, at, cutFields, isReplaced, name) => {
        const chunks = chunksOf(text, at);
        const scanner = new BodyScanner();
        for (const chunk of chunks) scanner.push(chunk);
        const scan = scanner.end();
        assert(scan.ok);
        const edits: BodyEdit[] = [];
        for (const span of scan.spans) {
          if (span.field === "model" && isReplaced) {
            edits.unshift({ kind: "replace_value", span, json: JSON.stringify(name) });
          } else if (cutFields.includes(span.field)) edits.unshift({ kind: "cut_member", span });
        }
        const result = Buffer.concat(spliceBody(chunks, edits)).toString();

        const isGone = (key: string) => edits.some((edit) => edit.kind === "cut_member" && edit.span.field === key);
        const expected = JSON.parse(text);
        for (const key of Object.keys(expected)) if (isGone(key)) delete expected[key];
        if (isReplaced) expected.model = name;
        assert.deepEqual(JSON.parse(result), expected);
        assert.deepEqual(Object.keys(JSON.parse(result)), Object.keys(expected));
        if (!isReplaced && edits.length === 0) assert.equal(result, text);
        if (isReplaced && edits.length === 1) {
          assert.equal(
            result,
            text.replace('"org/name"', () => JSON.stringify(name)),
          );
        }
        if (!isReplaced) {
          const kept = membersOf(text).filter(([key, value]) => !isGone(key) || value === '"x"' || value === '"y"');
          assert.deepEqual(membersOf(result), kept);
        }
      },
    ),
    { numRuns: 1500 },
  );
});

test("a splice shares the memory of the body", () => {
  const body = Buffer.from('{"model":"a","messages":[]}');
  const scanner = new BodyScanner();
  scanner.push(body);
  const scan = scanner.end();
  assert(scan.ok);
  const [span] = scan.spans;
  assert(span !== undefined);
  const pieces = spliceBody([body], [{ kind: "replace_value", span, json: '"b"' }]);
  assert.equal(Buffer.concat(pieces).toString(), '{"model":"b","messages":[]}');
  assert.equal(pieces.filter((piece) => piece.buffer === body.buffer).length >= 2, true);
  assert.throws(() =>
    spliceBody(
      [body],
      [
        { kind: "cut_member", span },
        { kind: "cut_member", span },
      ],
    ),
  );
});
