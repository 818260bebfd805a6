import { strict as assert } from "node:assert";
import { test } from "node:test";
import { PROMPT_MARKS_MAX, type PromptMarks } from "@zml/engine";
import fc from "fast-check";
import { BodyScanner } from "./body-scanner.ts";
import { promptMarksOf } from "./prompt-marks.ts";

interface Message {
  role: string;
  content: string;
}

function marksOf(body: string | Record<string, unknown>, pieces = 1): PromptMarks | null {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const scanner = new BodyScanner();
  const size = Math.ceil(bytes.length / pieces);
  const chunks = Array.from({ length: pieces }, (_, index) =>
    Buffer.from(bytes.subarray(index * size, (index + 1) * size)),
  );
  for (const chunk of chunks) scanner.push(chunk);
  const scan = scanner.end();
  assert.ok(scan.ok);
  return promptMarksOf(chunks, scan.promptParts);
}

const words = (count: number, seed = 1) =>
  Array.from({ length: count }, (_, index) => ((index * 7_919 * seed) % 9_973).toString(36)).join(" ");
const turn = (length: number, seed: number): Message[] => [
  { role: "user", content: words(length, seed) },
  { role: "assistant", content: words(length / 2, seed + 1) },
];

/** How many leading marks two prompts have in common. */
function shared(a: PromptMarks | null, b: PromptMarks | null): number {
  assert.ok(a !== null && b !== null);
  let count = 0;
  while (count < a.hashes.length && a.hashes[count] === b.hashes[count]) count += 1;
  for (let mark = count; mark < Math.min(a.hashes.length, b.hashes.length); mark++) {
    assert.notEqual(a.hashes[mark], b.hashes[mark], "once they differ they differ to the end");
  }
  return count;
}

test("a prompt that goes on keeps the marks of what it had, and of its last turns at most a sixteenth is missed", () => {
  const history = [...turn(600, 2), ...turn(900, 3), ...turn(700, 4)];
  const before = marksOf({ model: "m", messages: history });
  const after = marksOf({ model: "m", messages: [...history, ...turn(200, 5)] });
  assert.ok(before !== null);
  assert.equal(shared(before, after), before.hashes.length);
  assert.ok((before.shares.at(-1) as number) > 1 - 1 / 16 - 0.05, `${before.shares.at(-1)}`);
});

test("another word at the beginning leaves no mark in common, one at the end only the marks behind it", () => {
  const at = (place: number) => {
    const text = words(2_000);
    return marksOf({
      model: "m",
      messages: [{ role: "user", content: `${text.slice(0, place)}X${text.slice(place)}` }],
    });
  };
  const whole = at(9_000);
  assert.equal(shared(whole, at(3)), 0);
  const late = shared(whole, at(5_000));
  assert.equal(late, 4, "four blocks of a kilobyte stand in front of it");
});

test("what stands in front of the conversation counts: tools, system and instructions, wherever the body has them", () => {
  const messages = turn(900, 2);
  const tools = [{ type: "function", function: { name: "f" } }];
  const plain = marksOf({ model: "m", messages });
  for (const front of [{ tools }, { system: "be kind" }, { instructions: "be brief" }]) {
    assert.equal(shared(plain, marksOf({ model: "m", messages, ...front })), 0);
    assert.deepEqual(marksOf({ model: "m", messages, ...front }), marksOf({ ...front, messages, model: "m" }));
  }
});

test("members that are no part of the prompt change nothing", () => {
  const messages = turn(900, 2);
  const plain = marksOf({ model: "m", messages });
  assert.deepEqual(marksOf({ stream: true, temperature: 0.5, user: "u", messages, model: "m", max_tokens: 9 }), plain);
});

test("prompts of all interfaces have marks, short ones none, and neither has a body without a prompt", () => {
  const text = words(900);
  for (const part of [{ prompt: text }, { input: text }, { input: [{ role: "user", content: text }] }]) {
    assert.ok((marksOf({ model: "m", ...part })?.hashes.length ?? 0) > 2);
  }
  assert.equal(marksOf({ model: "m", messages: [{ role: "user", content: "hi" }] }), null);
  assert.equal(marksOf({ model: "m", tools: [words(900)] }), null);
  assert.equal(marksOf({ model: "m" }), null);
  assert.equal(marksOf({ model: "m", messages: null, prompt: 7 }), null);
});

test("a body of many megabytes is known by its first one, in a bounded number of marks", () => {
  const start = words(300_000);
  assert.ok(start.length > 2 ** 20);
  const [a, b] = ["a", "b"].map((end) => marksOf({ model: "m", prompt: start + end.repeat(2 ** 20) }));
  assert.ok(a !== null && a !== undefined && b !== undefined);
  assert.deepEqual(a.hashes, b?.hashes);
  assert.ok(a.hashes.length <= PROMPT_MARKS_MAX);
  assert.ok((a.shares.at(-1) as number) < 0.6, "the share that it stands for is what was hashed");
});

test("members that stand more often than once are counted as engines read them: the last one", () => {
  const once = marksOf(`{"model":"m","prompt":"${words(900)}"}`);
  const twice = marksOf(`{"model":"m","prompt":"${words(900, 2)}","prompt":"${words(900)}"}`);
  assert.deepEqual(twice, once);
  const often = `{"model":"m"${`,"prompt":"${words(300)}"`.repeat(100)}}`;
  assert.ok(marksOf(often) !== null);
});

test("marks do not depend on how the body is cut", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 200, max: 3_000 }), (pieces, length) => {
      const body = { model: "m", tools: [words(300)], messages: turn(length, 3), system: words(20) };
      assert.deepEqual(marksOf(body, pieces), marksOf(body));
    }),
    { numRuns: 50 },
  );
});
