import { strict as assert } from "node:assert";
import { test } from "node:test";
import fc from "fast-check";
import { decodeSseText, isErrorEvent, SseParser } from "./sse-events.ts";
import { inspectJsonAnswer, StreamInspector } from "./stream-inspector.ts";

type Event = { data: string; event: string | null };

/** The obvious reading of the standard: the whole text, line by line. */
function readSlowly(bytes: Buffer): Event[] {
  const text = bytes.toString("latin1").replace(/^\u00ef\u00bb\u00bf/, "");
  const lines = text.split(/\r\n|\r|\n/);
  lines.pop();
  const events: Event[] = [];
  let data: string[] = [];
  let event: string | null = null;
  for (const line of lines) {
    if (line === "") {
      if (data.length > 0) events.push({ data: data.join("\n"), event });
      data = [];
      event = null;
    } else {
      const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) as RegExpExecArray;
      if (name === "data") data.push(value ?? "");
      if (name === "event") event = value === "" || value === undefined ? null : value;
    }
  }
  return events;
}

function readIn(pieces: readonly Buffer[], maxEventBytes?: number): { events: Event[]; oversized: number } {
  const events: Event[] = [];
  let oversized = 0;
  const parser = new SseParser(
    {
      onEvent: (data, event) => events.push({ data, event }),
      onOversized: () => {
        oversized++;
      },
    },
    maxEventBytes,
  );
  for (const piece of pieces) parser.push(piece);
  return { events, oversized };
}

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [0, ...cuts.map((cutAt) => cutAt % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

const single = (bytes: Buffer) => [...bytes].map((byte) => Buffer.from([byte]));

const lineText = fc.oneof(
  fc.constantFrom("data", "data:", "data: ", "data:  x", "data: [DONE]", "event: error", "event:", ":", ": ping", ""),
  fc.constantFrom("database: x", "dat: y", "id: 1", "retry: 10", "eventual", "\ufeffdata: bom", "data: 漢字🙂"),
  fc.string({ unit: "binary", maxLength: 12 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, "")}`),
);
const streamBytes = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(lineText, fc.constantFrom("\n", "\r\n", "\r", "\n\n", "\r\r", "\r\n\r\n"))))
  .map(([hasMark, lines]) => Buffer.from((hasMark ? "\ufeff" : "") + lines.map((line) => line.join("")).join("")));
const cuts = fc.array(fc.nat(), { maxLength: 8 });

test("any bytes give the events of the standard, however they are cut", () => {
  fc.assert(
    fc.property(streamBytes, cuts, (bytes, at) => {
      const expected = readSlowly(bytes);
      assert.deepEqual(readIn([bytes]).events, expected);
      assert.deepEqual(readIn(cut(bytes, at)).events, expected);
      assert.deepEqual(readIn(single(bytes)).events, expected);
    }),
    { numRuns: 2000 },
  );
});

test("an event over the bound is left out and the next one is read, however the bytes are cut", () => {
  const small = fc.constantFrom("data: a\n\n", ": c\n\n", "event: e\rdata: b\r\r");
  const large = fc.constantFrom(
    "data: 0123456789012345\n\n",
    "data: 0123\ndata: 4567\ndata: 89\n\n",
    ": 0123456789012345678\n\n",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(small, large)), cuts, (parts, at) => {
      const bytes = Buffer.from(parts.join(""));
      const expected = parts.filter((part) => part.length < 20);
      const { events, oversized } = readIn([bytes], 20);
      assert.equal(oversized, parts.length - expected.length);
      assert.deepEqual(events, readSlowly(Buffer.from(expected.join(""))));
      assert.deepEqual(readIn(cut(bytes, at), 20), { events, oversized });
      assert.deepEqual(readIn(single(bytes), 20), { events, oversized });
    }),
    { numRuns: 500 },
  );
});

/** The inspector's fields by parsing every event. */
function inspectSlowly(bytes: Buffer) {
  const seen = {
    firstDataEvent: null as Event | null,
    dataEvents: 0,
    sawDone: false,
    sawErrorEvent: false,
    finishReason: null as string | null,
    sawAbort: false,
    promptTokens: Number.NaN,
    completionTokens: Number.NaN,
    cachedTokens: Number.NaN,
    tokensSeen: 0,
  };
  for (const { data: latin1, event } of readSlowly(bytes)) {
    const data = decodeSseText(latin1);
    if (data === "") continue;
    seen.dataEvents++;
    seen.firstDataEvent ??= { data, event };
    if (data === "[DONE]") seen.sawDone = true;
    if (isErrorEvent(data, event)) seen.sawErrorEvent = true;
    if (!data.startsWith("{")) continue;
    const value = JSON.parse(data);
    const name = event ?? value.type;
    if (["message_stop", "response.completed", "response.incomplete"].includes(name)) seen.sawDone = true;
    const delta = value.choices?.[0]?.delta;
    if (delta?.content || delta?.reasoning_content || value.choices?.[0]?.text || /delta$/.test(name)) {
      if (name !== "message_delta") seen.tokensSeen++;
    }
    const usage = value.usage ?? value.message?.usage ?? value.response?.usage;
    seen.promptTokens = usage?.prompt_tokens ?? usage?.input_tokens ?? seen.promptTokens;
    seen.completionTokens = usage?.completion_tokens ?? usage?.output_tokens ?? seen.completionTokens;
    const ended = ["response.completed", "response.incomplete", "response.failed"].includes(name);
    const reason =
      value.choices?.[0]?.finish_reason ??
      (name === "message_delta" ? value.delta.stop_reason : null) ??
      (ended ? (value.response.incomplete_details?.reason ?? value.response.status) : null);
    if (reason) seen.finishReason = reason;
    if (reason === "abort") seen.sawAbort = true;
  }
  return seen;
}

function inspect(pieces: readonly Buffer[]) {
  const inspector = new StreamInspector();
  for (const piece of pieces) inspector.push(piece);
  inspector.end();
  const { usage, firstDataEvent, dataEvents, sawDone, sawErrorEvent, finishReason, sawAbort, tokensSeen } = inspector;
  assert.equal(inspector.gaveUp, false);
  return { firstDataEvent, dataEvents, sawDone, sawErrorEvent, finishReason, sawAbort, ...usage, tokensSeen };
}

const words = fc.oneof(
  fc.constantFrom('say "usage": {"x":1}', '"finish_reason":"stop"', '"error":{}', "[DONE]", "漢字🙂", "\n\n", ""),
  fc.string({ unit: "binary", maxLength: 8 }),
);
const tokens = fc.nat(100000);
const openai = fc.oneof(
  {
    weight: 5,
    arbitrary: words.map((content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })),
  },
  words.map((text) => ({ choices: [{ text, finish_reason: null }], usage: null, error: null })),
  words.map((text) => ({ choices: [{ delta: { content: null, reasoning_content: text } }], usage: null })),
  fc.constant({ choices: [{ delta: { role: "assistant", content: "" }, finish_reason: null }] }),
  fc
    .constantFrom("stop", "length", "abort", "", null)
    .map((reason) => ({ choices: [{ delta: {}, finish_reason: reason }] })),
  fc.tuple(tokens, tokens).map(([prompt, completion]) => ({
    choices: [],
    usage: { prompt_tokens: prompt, completion_tokens: completion },
  })),
  fc.constantFrom<object[]>(
    { error: { message: "m", type: "t", code: 500 } },
    { object: "error", message: "m" },
    { error: "m", error_type: "overloaded" },
    { error: { message: "m", http_status_code: 422 } },
  ),
);
const named = fc.oneof(
  tokens.map((count) => ({ type: "message_start", message: { usage: { input_tokens: count, output_tokens: 1 } } })),
  words.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
  fc.constantFrom<{ type: string }[]>(
    { type: "ping" },
    { type: "content_block_stop" },
    { type: "message_stop" },
    { type: "response.created" },
  ),
  tokens.map((count) => ({
    type: "message_delta",
    delta: { stop_reason: "end_turn" },
    usage: { output_tokens: count },
  })),
  words.map((delta) => ({ type: "response.output_text.delta", delta })),
  tokens.map((count) => ({
    type: "response.completed",
    response: { object: "response", status: "completed", usage: { input_tokens: count, output_tokens: count } },
  })),
  fc.constant({
    type: "response.incomplete",
    response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
  }),
  fc.constant({ type: "response.failed", response: { status: "failed", error: { code: "server_error" } } }),
  fc.constant({ type: "error", error: { type: "overloaded_error", message: "m" } }),
);
const eventLines = fc.oneof(
  { weight: 6, arbitrary: openai.map((value) => [`data: ${JSON.stringify(value)}`]) },
  {
    weight: 2,
    arbitrary: openai.map((value) =>
      JSON.stringify(value, null, 1)
        .split("\n")
        .map((line) => `data:${line}`),
    ),
  },
  { weight: 4, arbitrary: named.map((value) => [`event: ${value.type}`, `data: ${JSON.stringify(value)}`]) },
  { weight: 2, arbitrary: named.map((value) => [`data: ${JSON.stringify(value)}`]) },
  fc.constantFrom(["data: [DONE]"], ["data:[DONE]"], [": keep-alive"], ["data:"], ["data: not json"]),
);

test("the inspector agrees with parsing every event, in any line ends and any chunks", () => {
  fc.assert(
    fc.property(fc.array(eventLines), fc.array(fc.nat(3), { minLength: 1 }), cuts, (events, ends, at) => {
      let line = 0;
      let text = "";
      for (const each of events.flatMap((lines) => [...lines, ""])) {
        const newline = ["\n", "\r\n", "\r", "\n"][ends[line++ % ends.length] as number] as string;
        // A CR and then an LF would be one line end instead of two.
        text += each + (each === "" && newline === "\n" && text.endsWith("\r") ? "\r\n" : newline);
      }
      const bytes = Buffer.from(text);
      const expected = inspectSlowly(bytes);
      assert.deepEqual(inspect([bytes]), expected);
      assert.deepEqual(inspect(cut(bytes, at)), expected);
      assert.deepEqual(inspect(single(bytes)), expected);
    }),
    { numRuns: 1000 },
  );
});

test("a plain answer gives the same facts as its parsed form, and any bytes do no harm", () => {
  fc.assert(
    fc.property(openai, fc.uint8Array(), fc.nat(2000), (value, bytes, limit) => {
      const answer = inspectJsonAnswer(Buffer.from(JSON.stringify(value)));
      const slow = inspectSlowly(Buffer.from(`data: ${JSON.stringify(value)}\n\n`));
      assert.equal(answer.promptTokens, slow.promptTokens);
      assert.equal(answer.completionTokens, slow.completionTokens);
      assert.equal(answer.isError, slow.sawErrorEvent);
      assert.equal(answer.isAborted, slow.sawAbort);
      inspectJsonAnswer(Buffer.from(bytes), limit);
    }),
  );
});

test("the usage of an answer over the limit is found at its end", () => {
  const body = Buffer.from(
    JSON.stringify({
      data: [{ embedding: Array(5000).fill(0.5) }],
      usage: { prompt_tokens: 7, total_tokens: 7, prompt_tokens_details: { cached_tokens: 1 } },
    }),
  );
  const answer = inspectJsonAnswer(body, 1000);
  assert.equal(answer.promptTokens, 7);
  assert.equal(answer.isRead, false);
});
