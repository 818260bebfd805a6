/** A: framing, content and delivery of streams. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as zlib from "node:zlib";
import { brotliCompressSync, deflateSync, gunzipSync, gzipSync, inflateSync, zstdCompressSync } from "node:zlib";
import { readRecord } from "@zml/engine";
import { chat, until } from "../plane-fixture.ts";
import { ask, chatBody, post } from "../raw-client.ts";
import {
  answering,
  chatAnswer,
  chunk,
  DONE,
  ERROR_EVENT,
  head,
  healthy,
  LAST_CHUNK,
  type NodeCall,
  plain,
  STREAM_HEAD,
  streaming,
  token,
} from "../scripted-node.ts";
import { pause, startField } from "./field-fixture.ts";

const USAGE = '{"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}';
const COUNTED = `${token("héé 漢字 🙂")}${token("!", "stop")}data: ${USAGE}\n\n${DONE}`;

/** Writes each part in a chunk and a packet of its own. */
async function drip(call: NodeCall, parts: Iterable<string | Buffer>): Promise<void> {
  call.write(STREAM_HEAD);
  for (const part of parts) {
    call.write(chunk(part));
    await new Promise(setImmediate);
  }
  call.write(LAST_CHUNK);
}

describe("what is read along counts the same in any framing", () => {
  const lineEnds: [name: string, of: (text: string) => string][] = [
    ["LF", (text) => text],
    ["CR LF", (text) => text.replaceAll("\n", "\r\n")],
    ["CR", (text) => text.replaceAll("\n", "\r")],
    ["mixed", (text) => text.replaceAll("\n\n", "\r\n\n")],
    ["no space after the colon", (text) => text.replaceAll("data: ", "data:")],
    ["several data lines", (text) => text.replace(/^data: \{"id":"c",/gm, 'data: {"id":"c",\ndata: ')],
    ["a byte order mark", (text) => `\ufeff${text}`],
  ];
  for (const [name, of] of lineEnds) {
    test(`A02: usage and the bytes of a stream, one byte per read, line ends: ${name}`, async (t) => {
      const text = of(COUNTED);
      const { plane } = await startField(t, [
        (call) =>
          drip(
            call,
            Array.from(Buffer.from(text), (byte) => Buffer.of(byte)),
          ),
      ]);
      const response = await chat(plane.url, { stream: true });
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), Buffer.from(text));
      await plane.settled();
      const record = readRecord(plane.ring, 0);
      assert.equal(record?.outcome, "success");
      assert.equal(record?.reportedPromptTokens, 11);
      assert.equal(record?.reportedOutputTokens, 7);
    });
  }

  test("A01: a body without framing, of one byte per read, passes byte for byte", async (t) => {
    const bytes = Buffer.from(COUNTED);
    const { plane } = await startField(t, [
      async (call) => {
        call.write(head(200, { "content-type": "text/event-stream", connection: "close" }));
        for (const byte of bytes) {
          call.write(Buffer.of(byte));
          await new Promise(setImmediate);
        }
        call.fin();
      },
    ]);
    const response = await chat(plane.url, { stream: true });
    assert.deepEqual(Buffer.from(await response.arrayBuffer()), bytes);
  });
});

describe("nothing is made up", () => {
  test("A03: comments before and between tokens stay comments, and none becomes data", async (t) => {
    const comments = ": keep-alive\n\n";
    const { plane } = await startField(t, [
      streaming(comments, comments, token("a"), ":\n", "\n", token("b", "stop"), comments, DONE),
    ]);
    const text = await (await chat(plane.url, { stream: true })).text();
    assert.equal(text, [comments, comments, token("a"), ":\n\n", token("b", "stop"), comments, DONE].join(""));
  });

  test("A03: comments keep a stream alive beyond its idle limit", async (t) => {
    const { plane } = await startField(
      t,
      [
        async (call) => {
          call.write(STREAM_HEAD + chunk(token("a")));
          for (let each = 0; each < 8; each++) {
            await pause(60);
            call.write(chunk(": keep-alive\n\n"));
          }
          call.write(chunk(token("b", "stop") + DONE));
          call.write(LAST_CHUNK);
        },
      ],
      { file: { timeouts: { idle_ms: 300 } } },
    );
    assert.match(await (await chat(plane.url, { stream: true })).text(), /\[DONE\]\n\n$/);
  });

  test("A04: a slow stream gets no event, comment or byte from the gateway, whether it is held or runs", async (t) => {
    const { plane, nodes, caller } = await startField(t, [(call) => call.write(STREAM_HEAD)], {
      file: { failover: { hold_ms: 100 } },
    });
    const client = await caller();
    client.send(post(chatBody({ stream: true })));
    await until(() => nodes[0]?.calls.length === 1);
    await pause(400);
    assert.equal(client.bytes, 0, "the status is not decided before the node has said something");
    nodes[0]?.calls[0]?.write(chunk(`data: {"choices":[{"del`));
    await client.waitFor('{"del');
    await pause(400);
    nodes[0]?.calls[0]?.write(chunk(`ta":{"content":"x"},"finish_reason":"stop"}]}\n\n`) + LAST_CHUNK);
    const answer = await client.answer();
    assert.equal(answer.body.toString(), 'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n');
    await plane.settled();
  });

  for (const [asked, options] of [
    ["did not ask", undefined],
    ["asked", { include_usage: true }],
  ] as const) {
    test(`A15: a caller who ${asked} for usage gets the node's events, and the node the caller's options`, async (t) => {
      const { plane, nodes } = await startField(t, [
        (call, index) => {
          const isAsked = call.body.includes("include_usage");
          const usage = isAsked ? [`data: ${USAGE}\n\n`] : [];
          return streaming(token("a", "stop"), ...usage, DONE)(call, index);
        },
      ]);
      const body = chatBody({ stream: true, ...(options === undefined ? {} : { stream_options: options }) });
      const answer = await ask(plane.port, post(body));
      assert.equal(nodes[0]?.calls[0]?.body.toString(), body);
      assert.equal(answer.body.toString().match(/"choices":\[\]/g)?.length ?? 0, options === undefined ? 0 : 1);
    });
  }
});

describe("status and head are the node's", () => {
  for (const [status, body] of [
    [400, '{"error":{"message":"temperature must be below 2","code":400}}'],
    [422, '{"detail":[{"loc":["body","n"]}]}'],
    [502, '{"error":{"message":"boom"}}'],
    [500, "not JSON"],
  ] as const) {
    test(`A10: a ${status} to a streaming request comes as it is`, async (t) => {
      const { plane } = await startField(t, [answering(status, body)]);
      const response = await chat(plane.url, { stream: true });
      assert.equal(response.status, status);
      assert.equal(await response.text(), body);
    });
  }

  test("A09: three tokens, then an error: the error passes, nothing is tried again, the failure is recorded", async (t) => {
    const sent = [token("a"), token("b"), token("c"), ERROR_EVENT];
    const { plane, nodes } = await startField(t, [streaming(...sent), healthy("b")]);
    assert.equal(await (await chat(plane.url, { stream: true })).text(), sent.join(""));
    await plane.settled();
    assert.equal(nodes[1]?.calls.length, 0);
    assert.equal(readRecord(plane.ring, 0)?.outcome, "interrupted");
  });
});

describe("each read is passed on at once", () => {
  for (const encoding of [null, "gzip, deflate, br, zstd"]) {
    test(`A11, F04: 100 tokens come each before the next is sent${encoding === null ? "" : ", compression accepted"}`, async (t) => {
      const { plane, nodes, caller } = await startField(t, [(call) => call.write(STREAM_HEAD)]);
      const client = await caller();
      client.send(post(chatBody({ stream: true }), encoding === null ? {} : { "accept-encoding": encoding }));
      await until(() => nodes[0]?.calls.length === 1);
      for (let each = 0; each < 100; each++) {
        nodes[0]?.calls[0]?.write(chunk(token(`<${each}>`)));
        await client.waitFor(`<${each}>`);
      }
      nodes[0]?.calls[0]?.write(chunk(DONE) + LAST_CHUNK);
      const answer = await client.answer();
      assert.equal(answer.headers["content-encoding"], undefined);
      assert.equal(answer.headers["x-accel-buffering"], "no");
      assert.match(answer.headers["cache-control"] ?? "", /no-transform/);
      assert.equal(answer.body.toString().match(/content/g)?.length, 100);
      await plane.settled();
    });
  }

  test("A17: pieces of tool calls with missing, equal and unordered indexes come as they are, each at once", async (t) => {
    const pieces = [
      '{"index":0,"id":"x","function":{"name":"f","arguments":"{\\"a\\":"}}',
      '{"function":{"arguments":"1}"}}',
      '{"index":0,"id":"y","function":{"name":"g","arguments":"{}"}}',
      '{"index":3,"function":{"arguments":" "}}',
      '{"index":1},{"index":1},{}',
    ].map((calls) => `data: {"choices":[{"index":0,"delta":{"tool_calls":[${calls}]},"finish_reason":null}]}\n\n`);
    const { nodes, caller } = await startField(t, [(call) => call.write(STREAM_HEAD)]);
    const client = await caller();
    client.send(post(chatBody({ stream: true })));
    await until(() => nodes[0]?.calls.length === 1);
    for (const piece of pieces) {
      nodes[0]?.calls[0]?.write(chunk(piece));
      await client.waitFor(piece);
    }
    nodes[0]?.calls[0]?.write(chunk(token("", "tool_calls") + DONE) + LAST_CHUNK);
    const answer = await client.answer();
    assert.equal(answer.body.toString(), pieces.join("") + token("", "tool_calls") + DONE);
  });
});

describe("header and body agree on their coding", () => {
  const codings: [name: string, encode: (text: string) => Buffer, decode: (bytes: Buffer) => Buffer][] = [
    ["gzip", (text) => gzipSync(text), (bytes) => gunzipSync(bytes)],
    ["br", (text) => brotliCompressSync(text), (bytes) => zlib.brotliDecompressSync(bytes)],
    ["deflate", (text) => deflateSync(text), (bytes) => inflateSync(bytes)],
    ["zstd", (text) => zstdCompressSync(text), (bytes) => zlib.zstdDecompressSync(bytes)],
  ];
  const error = '{"error":{"message":"no","code":1}}';
  for (const [name, encode, decode] of codings) {
    for (const accept of [null, name]) {
      test(`A12: ${name} of a node that was asked for none, to a caller who ${accept === null ? "says nothing" : "accepts it"}`, async (t) => {
        const { plane, nodes } = await startField(t, [healthy("a")], { file: { failover: { cooldown_ms: 1 } } });
        const node = nodes[0];
        assert.ok(node !== undefined);
        const headers = accept === null ? {} : { "accept-encoding": accept };
        for (const [status, body, isStream] of [
          [200, chatAnswer("a"), false],
          [200, token("a", "stop") + DONE, true],
          [400, error, false],
          [400, error, true],
          [404, error, false],
          [429, error, false],
          [500, error, true],
        ] as const) {
          const type = isStream && status === 200 ? "text/event-stream" : "application/json";
          node.script = (call) =>
            call.write(plain(status, encode(body), { "content-type": type, "content-encoding": name }));
          plane.table.cooldownUntil[0] = 0;
          plane.table.misconfiguredUntil.fill(0);
          plane.table.endpointUntil.fill(0);
          plane.table.overloadedAtPoll[0] = 0;
          const answer = await ask(plane.port, post(chatBody({ stream: isStream }), headers));
          assert.equal(answer.status, status);
          assert.equal(answer.headers["content-encoding"], name);
          assert.equal(decode(answer.body).toString(), body, `${status}`);
          assert.equal(node.calls.at(-1)?.headers["accept-encoding"], "identity");
        }
      });
    }
  }
});

for (const [path, events] of [
  [
    "/v1/messages",
    [
      'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n',
      'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
  ],
  [
    "/v1/responses",
    [
      'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n',
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r","status":"completed"}}\n\n',
    ],
  ],
] as const) {
  test(`A07: the end of a stream of ${path} on a socket that stays open frees the caller`, async (t) => {
    const { plane, nodes } = await startField(t, [
      (call) => {
        call.write(STREAM_HEAD);
        for (const event of events) call.write(chunk(event));
      },
    ]);
    const answer = await ask(plane.port, post(chatBody({ stream: true }), {}, path));
    assert.equal(answer.body.toString(), events.join(""));
    await until(() => nodes[0]?.calls[0]?.isClosed === true);
    await plane.settled();
    assert.equal(readRecord(plane.ring, 0)?.outcome, "success");
  });
}
