/** B, C and D: limits in time, callers who leave, and what is in flight. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chat, until } from "../plane-fixture.ts";
import { chatBody, post } from "../raw-client.ts";
import {
  answering,
  chatAnswer,
  chunk,
  DONE,
  healthy,
  LAST_CHUNK,
  plain,
  STREAM_HEAD,
  token,
} from "../scripted-node.ts";
import { isLong, longForm, pause, routingOf, startField } from "./field-fixture.ts";

describe("callers who leave", () => {
  test("C01: of requests in a row on one connection, answers that wait for their turn end at the node too", async (t) => {
    const { nodes, caller } = await startField(t, [() => {}]);
    const client = await caller();
    client.send(Buffer.concat([post(chatBody()), post(chatBody({ stream: true })), post(chatBody())]));
    await until(() => nodes[0]?.calls.length === 3, "three requests at the node");
    client.kill();
    await until(() => nodes[0]?.calls.every((call) => call.isClosed) === true, "the close of all three");
  });

  test("C01: of requests in a row, one whose answer is ready behind another one leaves nothing behind", async (t) => {
    const { nodes, caller, probe } = await startField(t, [
      (call, index) => {
        if (index > 0) call.write(plain(200, chatAnswer("a")));
      },
    ]);
    const client = await caller();
    client.send(Buffer.concat([post(chatBody()), post(chatBody())]));
    await until(() => nodes[0]?.calls.length === 2, "two requests at the node");
    await pause(50);
    client.kill();
    await probe();
  });

  test("C02: in the second attempt, after the first node failed: no third is started", async (t) => {
    const { nodes, caller, probe } = await startField(t, [answering(500, "{}"), () => {}, healthy("c")]);
    const client = await caller();
    client.send(post(chatBody()));
    await until(() => nodes[1]?.calls.length === 1);
    client.kill();
    await until(() => nodes[1]?.calls[0]?.isClosed === true, "the close at the second node");
    await probe();
    assert.equal(nodes[2]?.calls.length, 0);
  });

  test("C02: in the moment in which the node fails, at many moments: nothing is left, nobody is blamed twice", async (t) => {
    const { plane, nodes, caller, probe } = await startField(
      t,
      [(call) => void setImmediate(() => call.rst()), (call) => void setImmediate(() => call.fin())],
      { file: { failover: { cooldown_ms: 1 } } },
    );
    for (let each = 0; each < 60; each++) {
      plane.table.cooldownUntil.fill(0);
      const before = (nodes[0]?.calls.length ?? 0) + (nodes[1]?.calls.length ?? 0);
      const client = await caller();
      client.send(post(chatBody({ stream: each % 2 === 0 })));
      await until(() => (nodes[0]?.calls.length ?? 0) + (nodes[1]?.calls.length ?? 0) > before || client.bytes > 0);
      for (let turn = 0; turn < each % 6; turn++) await new Promise(setImmediate);
      client.kill();
    }
    await probe();
  });

  test("C02: while a large body is on its way to a node that reads nothing", async (t) => {
    const { nodes, caller, probe } = await startField(t, [
      { script: (call) => void call.socket.pause(), atHead: true },
    ]);
    const client = await caller();
    client.send(post(chatBody({ x: "y".repeat(20_000_000) })));
    await until(() => nodes[0]?.calls.length === 1);
    client.kill();
    await probe();
    nodes[0]?.calls[0]?.socket.resume();
    await until(() => nodes[0]?.calls[0]?.isClosed === true, "the close at the node");
  });

  for (const [name, frame] of [
    ["with a length", (body: string) => post(body)],
    [
      "chunked",
      (body: string) =>
        Buffer.from(
          `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${chunk(body)}${LAST_CHUNK}`,
        ),
    ],
  ] as const) {
    test(`C03: who has sent a whole body, ${name}, and waits is not taken for gone; who then leaves is`, async (t) => {
      const { nodes, caller } = await startField(t, [() => {}]);
      const client = await caller();
      client.send(frame(chatBody()));
      await until(() => nodes[0]?.calls.length === 1);
      await pause(300);
      assert.equal(nodes[0]?.calls[0]?.isClosed, false);
      nodes[0]?.calls[0]?.write(plain(200, chatAnswer("a")));
      assert.equal((await client.answer()).status, 200);
      client.send(frame(chatBody()));
      await until(() => nodes[0]?.calls.length === 2, "the next request on the same connection");
      client.kill();
      await until(() => nodes[0]?.calls[1]?.isClosed === true, "the close at the node");
    });
  }

  test("C04: a queue of large bodies gives their bytes back as their callers leave", async (t) => {
    const { plane, caller } = await startField(t, [{ script: () => {}, maxInFlight: 1 }], {
      policy: { queueOnSaturation: true, maxQueueMs: 30_000 },
      file: { limits: { queue_bytes: 4_000_000 } },
    });
    const running = await caller();
    running.send(post(chatBody()));
    await until(() => plane.inFlight() === 1);
    for (let round = 0; round < 3; round++) {
      const waiting = await Promise.all(Array.from({ length: 3 }, () => caller()));
      for (const client of waiting) client.send(post(chatBody({ x: "y".repeat(1_000_000) })));
      await until(() => plane.plane.parked.count === 3, "three who wait");
      for (const client of waiting) client.kill();
      await until(() => plane.plane.parked.count === 0, "their leaving");
    }
  });
});

describe("what counts as load", () => {
  test("D03: of 40 streams over two equal nodes each carries 20, though all heads have long come", async (t) => {
    const script = (call: { write(bytes: string): void }): void => call.write(STREAM_HEAD + chunk(token("a")));
    const { plane, caller } = await startField(t, [
      { script, family: "F" },
      { script, family: "F" },
    ]);
    for (let each = 0; each < 40; each++) {
      const client = await caller();
      client.send(post(chatBody({ stream: true })));
      await client.waitFor('"a"');
    }
    assert.deepEqual([...plane.table.total.inFlight.subarray(0, 2)], [20, 20]);
  });

  test("D05: streams without an end mark, with half of one, and with one that is text free their places", async (t) => {
    const ends = [
      [token("a", "stop")],
      [token("a", "stop"), "data: [DO"],
      [token("data: [DONE]"), token("b", "stop")],
      [token("a"), token("b")],
    ];
    const { plane, probe } = await startField(
      t,
      [
        (call, index) => {
          call.write(STREAM_HEAD);
          for (const event of ends[index % ends.length] ?? []) call.write(chunk(event));
          if (index >= ends.length) call.fin();
          else call.write(LAST_CHUNK);
        },
      ],
      { file: { failover: { cooldown_ms: 1 } } },
    );
    for (let each = 0; each < 2 * ends.length; each++) {
      plane.table.cooldownUntil.fill(0);
      await (await chat(plane.url, { stream: true })).text().catch(() => "");
      await probe();
    }
  });

  test("D06: refusals in every stage leave no count behind", async (t) => {
    const { plane, caller, probe, nodes } = await startField(t, [{ script: () => {}, maxInFlight: 1 }], {
      file: { limits: { body_bytes: 4096, header_bytes: 8192 }, data: { body_ms: 200 } },
      keys: [],
    });
    const busy = await caller();
    busy.send(post(chatBody()));
    await until(() => nodes[0]?.calls.length === 1);
    const refused: [status: number, bytes: string | Buffer][] = [
      [400, post("[]")],
      [413, post(chatBody({ x: "y".repeat(5000) }))],
      [404, post(chatBody({ model: "nobody" }))],
      [415, post(chatBody(), { "content-encoding": "x" })],
      [431, post(chatBody(), { "x-big": "b".repeat(9000) })],
      [417, post(chatBody(), { expect: "a-miracle" })],
      [405, "GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n"],
      [408, "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{"],
      [503, post(chatBody())],
    ];
    for (let round = 0; round < 5; round++) {
      for (const [status, bytes] of refused) {
        const client = await caller();
        client.send(bytes);
        assert.equal((await client.answer()).status, status);
        client.socket.destroy();
      }
    }
    await until(() => plane.server.runningCount === 1, "the end of all but the one that runs");
    assert.equal(plane.inFlight(), 1);
    busy.kill();
    await probe();
  });
});

describe("limits in time", () => {
  test("B01: no limit but the configured ones: the server that listens has none of its own", async (t) => {
    const { plane, caller, nodes } = await startField(t, [() => {}], { file: { data: { head_ms: 100 } } });
    const client = await caller();
    client.send(post(chatBody()));
    await until(() => nodes[0]?.calls.length === 1);
    // a head, a check and an idle limit pass ten times over a request that only waits
    await pause(1500);
    nodes[0]?.calls[0]?.write(plain(200, chatAnswer("a")));
    assert.equal((await client.answer()).status, 200);
    assert.equal(plane.plane.upstreamOf(0)?.node.timeouts.firstByteMs, 600_000);
  });

  test(
    "B01: a node that is silent for 330 s before its head, and one that is within its answer",
    longForm,
    async (t) => {
      const silentMs = isLong ? 330_000 : 1200;
      const limitMs = isLong ? 900_000 : 4000;
      const { caller } = await startField(
        t,
        [
          async (call, index) => {
            if (index === 0) {
              await pause(silentMs);
              call.write(plain(200, chatAnswer("a")));
              return;
            }
            call.write(STREAM_HEAD);
            await pause(silentMs);
            call.write(chunk(token("b")));
            await pause(silentMs);
            call.write(chunk(token("c", "stop") + DONE) + LAST_CHUNK);
          },
        ],
        { file: { timeouts: { first_byte_ms: limitMs, first_token_ms: limitMs, idle_ms: limitMs } } },
      );
      for (const isStream of [false, true]) {
        // the global fetch has limits of its own; a raw caller has none
        const client = await caller();
        client.send(post(chatBody({ stream: isStream })));
        const deadline = performance.now() + 3 * silentMs + 5000;
        while (client.answers().length === 0 && !client.isClosed && performance.now() < deadline) await pause(50);
        assert.equal(client.answers()[0]?.status, 200, client.text);
        client.socket.destroy();
      }
    },
  );

  test("B02: a stream of three times its idle limit ends whole", async (t) => {
    const { plane } = await startField(
      t,
      [
        async (call) => {
          call.write(STREAM_HEAD);
          for (let each = 0; each < 18; each++) {
            await pause(100);
            call.write(chunk(token("a")));
          }
          call.write(chunk(token("b", "stop") + DONE) + LAST_CHUNK);
        },
      ],
      { file: { timeouts: { idle_ms: 600, first_token_ms: 600, first_byte_ms: 600 } } },
    );
    assert.match(await (await chat(plane.url, { stream: true })).text(), /\[DONE\]\n\n$/);
  });

  test("B03: a node that falls silent inside an event frees caller and place, and the connection breaks", async (t) => {
    const { plane, caller, nodes } = await startField(
      t,
      [(call) => call.write(STREAM_HEAD + chunk(`${token("a")}data: {"half`))],
      { file: { timeouts: { idle_ms: 150 } } },
    );
    const client = await caller();
    client.send(post(chatBody({ stream: true })));
    await client.closed();
    assert.equal(client.answers().length, 0, "no end that looks whole");
    await until(() => nodes[0]?.calls[0]?.isClosed === true);
    await plane.settled();
  });

  test("B06: 500 requests at a node that never answers: the next one to another is served at once", async (t) => {
    const { plane, nodes, caller } = await startField(t, [
      { script: () => {}, maxInFlight: 1000, maxConnections: 8 },
      healthy("b"),
    ]);
    const stuck = await Promise.all(Array.from({ length: 500 }, () => caller()));
    for (const client of stuck) client.send(post(chatBody()));
    await until(() => plane.inFlight() === 500, "500 in flight");
    assert.equal(nodes[0]?.openSockets(), 8);
    for (let each = 0; each < 5; each++) {
      const startedAtMs = performance.now();
      const response = await chat(plane.url, {}, { headers: { "x-zml-accelerator": "F1" } });
      assert.equal(routingOf(response.headers)?.node, "n1");
      await response.text();
      assert.ok(performance.now() - startedAtMs < 1000);
    }
    for (const client of stuck) client.kill();
  });
});
