/** Nodes and callers that do harm: breaks in every dialect, floods, and those who never read. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chat, until } from "../plane-fixture.ts";
import { ask, chatBody, post } from "../raw-client.ts";
import {
  chunk,
  healthy,
  LAST_CHUNK,
  type NodeCall,
  type NodeScript,
  plain,
  STREAM_HEAD,
  token,
} from "../scripted-node.ts";
import { routingOf, startField } from "./field-fixture.ts";

describe("a break in the dialect of each endpoint", () => {
  const started = {
    "/v1/messages": 'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"a"}}\n\n',
    "/v1/responses": 'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a"}\n\n',
    "/v1/completions": 'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n',
  };
  const ends: [name: string, end: (call: NodeCall) => void][] = [
    ["FIN", (call) => call.fin()],
    ["RST", (call) => call.rst()],
    ["a clean end of its framing", (call) => call.write(LAST_CHUNK)],
  ];
  for (const [path, event] of Object.entries(started)) {
    for (const [name, end] of ends) {
      test(`A06: a stream of ${path} that ends with ${name} after its first event says so, and is asked of nobody else`, async (t) => {
        const { plane, nodes } = await startField(t, [
          (call) => {
            call.write(STREAM_HEAD + chunk(event));
            setTimeout(() => end(call), 20);
          },
          healthy("b"),
        ]);
        const answer = await ask(plane.port, post(chatBody({ stream: true }), {}, path));
        const text = answer.body.toString();
        assert.ok(text.startsWith(event), text);
        assert.match(text, /stream_interrupted/);
        if (path === "/v1/messages") assert.match(text, /event: error\ndata: \{"type":"error"/);
        assert.doesNotMatch(text, /\[DONE\]|message_stop|response\.completed/);
        assert.equal(nodes[1]?.calls.length, 0);
        await until(() => plane.table.cooldownUntil[0] !== 0, "the failure's record");
      });
    }
  }
});

describe("floods of a node", () => {
  const line = `x-${"a".repeat(50)}: ${"b".repeat(900)}\r\n`;
  /** Writes on and on until the gateway ends the connection. */
  const flood =
    (start: string, piece: string): NodeScript =>
    (call) => {
      call.write(start);
      const more = (): void => {
        for (let each = 0; each < 100 && !call.isClosed; each++) {
          if (!call.socket.write(piece)) {
            call.socket.once("drain", more);
            return;
          }
        }
        if (!call.isClosed) setImmediate(more);
      };
      more();
    };
  for (const [name, script] of [
    ["header fields", flood("HTTP/1.1 200 X\r\n", line)],
    ["one header field", flood("HTTP/1.1 200 X\r\nx-a: ", "b".repeat(1000))],
    ["interim answers", flood("", "HTTP/1.1 102 Processing\r\n\r\n")],
    ["a status line", flood("HTTP/1.1 200 ", "x".repeat(1000))],
    ["a chunk's extension", flood(`${STREAM_HEAD}1;a=`, "b".repeat(1000))],
    ["trailers", flood(`${STREAM_HEAD}0\r\n`, line)],
    ["empty events", flood(STREAM_HEAD, chunk("\n\n").toString())],
  ] as [string, NodeScript][]) {
    test(`E06: of ${name} end in an answer, in bounded memory, and the next request is served`, async (t) => {
      const { plane, nodes } = await startField(t, [script, healthy("b")], {
        file: {
          timeouts: { first_byte_ms: 500, first_token_ms: 1000, idle_ms: 500, total_ms: 3000 },
          failover: { hold_ms: 500 },
        },
      });
      const before = process.memoryUsage().rss;
      const response = await chat(plane.url, { stream: true });
      const reader = response.body?.getReader();
      await reader?.read().catch(() => {});
      await reader?.cancel().catch(() => {});
      assert.ok(process.memoryUsage().rss - before < 100 * 2 ** 20);
      await until(() => nodes[0]?.calls[0]?.isClosed === true, "the end of the flood");
      assert.equal((await chat(plane.url)).status, 200);
    });
  }

  for (const lateMs of [0, 10]) {
    test(`E06: a second answer ${lateMs} ms behind a whole one ends the idle connection and reaches no other caller`, async (t) => {
      const answer = (text: string): Buffer =>
        plain(200, `{"choices":[{"message":{"content":"${text}"},"finish_reason":"stop"}]}`);
      const { plane, nodes } = await startField(t, [
        (call) => {
          if (lateMs === 0) call.write(Buffer.concat([answer("mine"), answer("evil")]));
          else call.write(answer("mine"));
          if (lateMs > 0) setTimeout(() => call.write(answer("evil")), lateMs);
        },
      ]);
      for (let each = 0; each < 10; each++) {
        assert.match(await (await chat(plane.url)).text(), /mine/);
        if (lateMs > 0) await until(() => nodes[0]?.openSockets() === 0, "the end of the connection");
      }
      assert.equal(nodes[0]?.connections, 10);
    });
  }
});

describe("callers who never read", () => {
  test("E01: fifty at once, of streams without end, cost each a small buffer, and others are served", async (t) => {
    const { plane, nodes, caller } = await startField(
      t,
      [
        (call, index) => {
          if (!call.body.includes("endless")) {
            healthy("a")(call, index);
            return;
          }
          call.write(STREAM_HEAD + chunk(token("a")));
          const piece = chunk(`: ${"p".repeat(2 ** 16)}\n\n`);
          const more = (): void => {
            while (!call.isClosed) {
              if (!call.socket.write(piece)) {
                call.socket.once("drain", more);
                return;
              }
            }
          };
          more();
        },
      ],
      { file: { timeouts: { slow_client_ms: 2000 } } },
    );
    const before = process.memoryUsage().arrayBuffers;
    const callers = await Promise.all(Array.from({ length: 50 }, () => caller()));
    for (const client of callers) {
      client.socket.pause();
      client.send(post(chatBody({ stream: true, user: "endless" })));
    }
    await until(() => nodes[0]?.calls.length === 50);
    await until(
      () => nodes[0]?.calls.every((call) => call.socket.writableLength > 0) === true,
      "every node is held back",
    );
    assert.equal(routingOf((await chat(plane.url)).headers)?.node, "n0");
    const grownMib = (process.memoryUsage().arrayBuffers - before) / 2 ** 20;
    // the nodes of this test hold a piece each, too
    assert.ok(grownMib < 50, `${grownMib} MiB`);
    await plane.settled();
    // the nodes hear of it a moment later
    await until(() => nodes[0]?.calls.slice(0, 50).every((call) => call.isClosed) === true, "every node is let go");
    assert.equal(plane.table.cooldownUntil[0], 0, "no failure of the node");
  });

  test("E01: a large plain answer that nobody reads holds its node back, too", async (t) => {
    const { plane, nodes, caller } = await startField(
      t,
      [(call) => void call.write(plain(200, Buffer.alloc(64 * 2 ** 20, 0x20)))],
      { file: { timeouts: { slow_client_ms: 500 } } },
    );
    const client = await caller();
    client.socket.pause();
    client.send(post(chatBody()));
    await until(() => nodes[0]?.calls.length === 1);
    await until(() => nodes[0]?.calls[0]?.isClosed === true, "the end of the slow caller");
    assert.ok((nodes[0]?.calls[0]?.socket.writableLength ?? 0) >= 0);
    assert.equal(plane.table.cooldownUntil[0], 0);
  });
});
