import { strict as assert } from "node:assert";
import { test } from "node:test";
import { isErrorEvent } from "./sse-events.ts";
import { inspectJsonAnswer, StreamInspector, skimJsonAnswer } from "./stream-inspector.ts";

function inspect(stream: string, maxEventBytes?: number): StreamInspector {
  const inspector = new StreamInspector(maxEventBytes);
  inspector.push(Buffer.from(stream));
  inspector.end();
  return inspector;
}

test("an OpenAI stream gives its first event, tokens, finish reason, usage and end", () => {
  const seen = inspect(
    [
      ': ping\n\ndata: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}',
      'data: {"choices":[{"index":0,"delta":{"content":"漢"},"finish_reason":null}],"usage":null}',
      'data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}],"usage":null}',
      'data: {"choices":[{"index":0,"delta":{"content":"c\\""},"finish_reason":null}],"usage":null}',
      'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":null}',
      'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":4}}}',
      "data: [DONE]\n\n",
    ].join("\n\n"),
  );
  assert.match(seen.firstDataEvent?.data ?? "", /assistant/);
  assert.equal(seen.firstDataEvent?.event, null);
  assert.equal(seen.dataEvents, 7);
  assert.equal(seen.tokensSeen, 3);
  assert.equal(seen.finishReason, "length");
  assert.deepEqual(seen.usage, { promptTokens: 5, completionTokens: 3, cachedTokens: 4 });
  assert.equal(seen.sawDone, true);
  assert.equal(seen.sawErrorEvent, false);
});

test("llama.cpp tells what its cache held beside the usage", () => {
  const seen = inspect(
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":236,"prompt_n":1}}\n\ndata: [DONE]\n\n',
  );
  assert.equal(seen.usage.cachedTokens, 236);
});

test("an Anthropic stream gives the same facts", () => {
  const seen = inspect(
    [
      'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":1}}}',
      'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}',
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ].join("\n\n"),
  );
  assert.equal(seen.firstDataEvent?.event, "message_start");
  assert.deepEqual(seen.usage, { promptTokens: 10, completionTokens: 9, cachedTokens: 3 });
  assert.equal(seen.finishReason, "max_tokens");
  assert.equal(seen.sawDone, true);
  assert.equal(seen.tokensSeen, 1);
});

test("a Responses stream gives the same facts", () => {
  const seen = inspect(
    [
      'event: response.created\ndata: {"type":"response.created","response":{"status":"in_progress","usage":null}}',
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}',
      'event: response.completed\ndata: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":4,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}}\n\n',
    ].join("\n\n"),
  );
  assert.deepEqual(seen.usage, { promptTokens: 4, completionTokens: 2, cachedTokens: 1 });
  assert.equal(seen.finishReason, "completed");
  assert.equal(seen.sawDone, true);
  assert.equal(seen.tokensSeen, 1);
});

test("an answer that the node aborted is seen, also between other choices' ends", () => {
  const seen = inspect(
    'data: {"choices":[{"index":0,"finish_reason":"abort"}]}\n\ndata: {"choices":[{"index":1,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
  );
  assert.equal(seen.sawAbort, true);
  assert.equal(seen.finishReason, "stop");
});

test("an event that was cut off is not an event, and an end marker without its blank line is an end", () => {
  const broken = inspect(
    'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n',
  );
  assert.equal(broken.dataEvents, 1);
  assert.equal(broken.finishReason, null);
  assert.equal(broken.sawDone, false);
  assert.equal(inspect("data: [DONE]").sawDone, true);
  assert.equal(inspect("data: [DONE]\n").sawDone, true);
  assert.equal(inspect("data: [DONE").sawDone, false);
});

test("comments and empty data are no first event", () => {
  const seen = inspect(': ping\n\ndata:\n\nevent: x\n\ndata: {"choices":[]}\n\n');
  assert.equal(seen.firstDataEvent?.data, '{"choices":[]}');
  assert.equal(seen.dataEvents, 1);
});

test("the first event is complete before it is told", () => {
  const inspector = new StreamInspector();
  const told = ['data: {"error":{"message":"x"}}', "\n", "\n"].map((piece) => {
    inspector.push(Buffer.from(piece));
    return inspector.firstDataEvent?.data;
  });
  assert.deepEqual(told, [undefined, undefined, '{"error":{"message":"x"}}']);
  assert.equal(inspector.sawErrorEvent, true);
});

test("an event over the bound is left out, and what follows is read", () => {
  const seen = inspect(
    `data: ${"x".repeat(200)}\n\ndata: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`,
    100,
  );
  assert.equal(seen.gaveUp, true);
  assert.equal(seen.finishReason, "stop");
  assert.equal(seen.sawDone, true);
});

test("each engine's error event is one, and answers are none", () => {
  for (const [data, name] of [
    ['{"error":{"message":"m","type":"server_error","code":500}}', null],
    ['{"object":"error","message":"m","code":400}', null],
    ['{"error":"Model is overloaded","error_type":"overloaded"}', null],
    ['{"error":{"message":"m","http_status_code":422}}', null],
    ['{"type":"error","error":{"type":"overloaded_error","message":"m"}}', null],
    ['{"type":"response.failed","response":{}}', null],
    ["anything", "error"],
    ["{}", "response.failed"],
  ] as const) {
    assert.equal(isErrorEvent(data, name), true, data);
  }
  for (const data of [
    '{"choices":[{"delta":{"content":"{\\"error\\":1}"}}]}',
    '{"choices":[],"error":null}',
    "error",
    "[DONE]",
    '["error"]',
  ]) {
    assert.equal(isErrorEvent(data), false, data);
  }
});

test("a plain answer tells its usage, finish reasons, abort and error", () => {
  const answer = inspectJsonAnswer(
    Buffer.from(
      '{"choices":[{"finish_reason":"stop"},{"finish_reason":"abort"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}',
    ),
  );
  assert.deepEqual(answer, {
    promptTokens: 2,
    completionTokens: 3,
    cachedTokens: Number.NaN,
    finishReasons: ["stop", "abort"],
    isAborted: true,
    isError: false,
    isRead: true,
  });
  const anthropic = inspectJsonAnswer(
    Buffer.from('{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}'),
  );
  assert.deepEqual(anthropic.finishReasons, ["end_turn"]);
  assert.equal(anthropic.completionTokens, 2);
  assert.equal(inspectJsonAnswer(Buffer.from('{"error":{"message":"m"}}')).isError, true);
  assert.equal(inspectJsonAnswer(Buffer.from("not json")).isRead, false);
});

test("skimming an answer finds the usage and an abort that parsing finds", () => {
  const usages = [
    '{"prompt_tokens":12,"completion_tokens":7,"total_tokens":19}',
    '{ "prompt_tokens": 12, "total_tokens": 19, "completion_tokens": 7, "prompt_tokens_details": null }',
    '{"completion_tokens":7,"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":3}}',
    '{"input_tokens":12,"output_tokens":7}',
  ];
  for (const usage of usages) {
    const text = `{"choices":[{"message":{"content":"the \\"usage\\": {} of words"},"finish_reason":"stop"}],"usage":${usage}}`;
    const skimmed = skimJsonAnswer(Buffer.from(text));
    assert.deepEqual([skimmed.promptTokens, skimmed.completionTokens, skimmed.isAborted], [12, 7, false]);
  }
  const cachedIn = (rest: string) =>
    skimJsonAnswer(Buffer.from(`{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7${rest}}`)).cachedTokens;
  assert.equal(cachedIn(""), Number.NaN);
  assert.equal(cachedIn(',"prompt_tokens_details":null}'), Number.NaN);
  assert.equal(cachedIn(',"prompt_tokens_details":{"cached_tokens":9}}'), 9);
  assert.equal(cachedIn(',"prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 0 }}'), 0);
  assert.equal(cachedIn('},"timings":{"cache_n":236,"prompt_n":1}'), 236, "llama.cpp's own words");
  const none = skimJsonAnswer(Buffer.from('{"choices":[]}'));
  assert.deepEqual([none.promptTokens, none.completionTokens, none.isAborted], [Number.NaN, Number.NaN, false]);
  const aborted = skimJsonAnswer(Buffer.from('{"choices":[{"finish_reason":"abort"}],"usage":null}'));
  assert.equal(aborted.isAborted, true);
  const innocent = skimJsonAnswer(
    Buffer.from('{"choices":[{"message":{"content":"say \\"abort\\""},"finish_reason":"stop"}]}'),
  );
  assert.equal(innocent.isAborted, false);
});
