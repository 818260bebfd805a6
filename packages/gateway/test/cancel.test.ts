import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { describe, test } from "node:test";
import { Worker } from "node:worker_threads";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { endAfterEach, type Pair, startPair } from "./pair-fixture.ts";
import { chat, errorOf, type FixtureNode, type PlaneFixture, type startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import {
  chunk,
  DONE,
  head,
  healthy,
  LAST_CHUNK,
  type NodeScript,
  plain,
  type ScriptedNode,
  STREAM_HEAD,
  token,
} from "./scripted-node.ts";

const toStop = endAfterEach();

async function pair(
  script: NodeScript,
  file: Record<string, unknown> = {},
  a: Partial<FixtureNode> = {},
  plane: Parameters<typeof startPlane>[1] = {},
): Promise<Pair> {
  const pair = await startPair(script, { file, a, plane });
  toStop.push(pair.plane, pair.a, pair.b);
  return pair;
}

/** A port whose queue of connections is full and that nobody serves: the kernel drops what comes. */
async function startDeafListener(): Promise<{ url: string; stop(): Promise<void> }> {
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
     const server = require("node:net").createServer().listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, "message")) as [number];
  const fillers = Array.from({ length: 4 }, () => connect(port, "127.0.0.1").on("error", () => {}));
  await until(() => fillers.filter((socket) => !socket.connecting).length >= 2, "a full queue");
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      for (const socket of fillers) socket.destroy();
      await worker.terminate();
    },
  };
}

/** After a cancel: nothing in flight, nothing tried elsewhere, nothing held against the node. */
async function leftNoTrace(
  { a, b, plane }: { a: ScriptedNode; b: ScriptedNode; plane: PlaneFixture },
  calls = 1,
): Promise<void> {
  const startedAtMs = performance.now();
  await plane.settled();
  await until(() => a.calls.every((call) => call.isClosed), "the close at the node");
  assert.ok(performance.now() - startedAtMs < 1000, "the node saw the close within a second");
  assert.equal(a.calls.length, calls);
  assert.equal(b.calls.length, 0);
  assert.equal(plane.table.cooldownUntil[0], 0);
  assert.deepEqual(plane.logs, []);
}

const stages: [name: string, script: NodeScript, isStream: boolean, seen: string | null][] = [
  ["before the head of a plain answer", () => {}, false, null],
  ["before the head of a stream", () => {}, true, null],
  ["between head and first token", (call) => call.write(STREAM_HEAD), true, null],
  ["behind a comment, before the first token", (call) => call.write(STREAM_HEAD + chunk(": ping\n\n")), true, null],
  ["in the middle of a stream", (call) => call.write(STREAM_HEAD + chunk(token("a"))), true, '"a"'],
  [
    "in the middle of a held plain answer",
    (call) => call.write(plain(200, "{}", { "content-length": "100" })),
    false,
    null,
  ],
  [
    "in the middle of a large plain answer",
    (call) => call.write(head(200, { "content-length": "900000" }) + "x".repeat(100_000)),
    false,
    "200 OK",
  ],
];

describe("C01, C02: a caller who leaves ends the attempt at the node, and harms nobody", () => {
  for (const [name, script, isStream, seen] of stages) {
    for (const way of ["reset", "end"] as const) {
      test(`${name}, by ${way}`, async () => {
        const two = await pair(script);
        const client = await RawClient.open(two.plane.port);
        client.send(post(chatBody({ stream: isStream })));
        await until(() => two.a.calls.length === 1);
        if (seen !== null) await client.waitFor(seen);
        if (way === "reset") client.kill();
        else client.socket.destroy();
        await leftNoTrace(two);
      });
    }
  }

  test("during the upload: nothing reaches a node, and the bytes are given back", async () => {
    const two = await pair(healthy("a"));
    const client = await RawClient.open(two.plane.port);
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n");
    client.send(`{"x":"${"y".repeat(50_000)}`);
    await until(() => (two.plane.table.cells[7] as number) > 0, "the body's share of the budget");
    client.kill();
    await leftNoTrace(two, 0);
  });

  test("while it waits for room", async () => {
    const two = await pair(
      () => {},
      {},
      { maxInFlight: 0 },
      { policy: { queueOnSaturation: true, maxQueueMs: 30_000 } },
    );
    two.plane.table.isDraining[1] = 1;
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody()));
    await until(() => two.plane.plane.parked.count === 1);
    client.kill();
    await leftNoTrace(two, 0);
    assert.equal(two.plane.plane.parked.count, 0);
  });

  test("while it waits for a connection", async () => {
    const two = await pair(() => {}, {}, { maxConnections: 1 });
    const first = await RawClient.open(two.plane.port);
    first.send(post(chatBody()));
    await until(() => two.a.calls.length === 1);
    const second = await RawClient.open(two.plane.port);
    second.send(post(chatBody()));
    await until(() => two.plane.inFlight() === 2);
    second.kill();
    await until(() => two.plane.inFlight() === 1);
    two.a.calls[0]?.write(plain(200, "{}"));
    await first.answer();
    await two.plane.settled();
    assert.equal(two.a.calls.length, 1, "the cancelled request is never sent");
    first.kill();
  });

  test("while it is paused because it does not read", async () => {
    const two = await pair((call) => {
      call.write(STREAM_HEAD + chunk(token("a")));
      for (let mib = 0; mib < 16; mib++) call.write(chunk(`: ${"p".repeat(2 ** 20)}\n\n`));
    });
    const client = await RawClient.open(two.plane.port);
    client.socket.pause();
    client.send(post(chatBody({ stream: true })));
    await until(() => two.a.calls.length === 1 && (two.a.calls[0]?.socket.writableLength ?? 0) > 0);
    client.kill();
    await leftNoTrace(two);
  });

  test("J08: in a trial, the next request is the trial", async () => {
    const two = await pair((call) => call.rst(), { failover: { cooldown_ms: 100 } });
    await (await chat(two.plane.url)).text();
    two.a.script = () => {};
    const { table } = two.plane;
    assert.notEqual(table.cooldownUntil[0], 0);
    const client = await RawClient.open(two.plane.port);
    while (two.a.calls.length < 2) {
      const probe = await RawClient.open(two.plane.port);
      probe.send(post(chatBody()));
      await until(() => two.a.calls.length === 2 || probe.answers().length === 1);
      probe.kill();
    }
    client.kill();
    await two.plane.settled();
    assert.equal(table.trialUntil[0], 0, "the lease is back");
    assert.notEqual(table.cooldownUntil[0], 0);
    two.a.script = healthy("a");
    const response = await chat(two.plane.url);
    await response.text();
    assert.equal(decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.node, "a");
    assert.equal(table.cooldownUntil[0], 0, "traffic returned");
    await two.plane.settled();
  });

  test("J03: 100 callers who leave say nothing about the node", async () => {
    const two = await pair(() => {});
    const clients = await Promise.all(Array.from({ length: 100 }, () => RawClient.open(two.plane.port)));
    for (const client of clients) client.send(post(chatBody()));
    await until(() => two.plane.inFlight() === 100);
    for (const client of clients) client.kill();
    await two.plane.settled();
    two.a.script = healthy("a");
    const response = await chat(two.plane.url);
    await response.text();
    assert.equal(decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.node, "a");
    await two.plane.settled();
  });
});

describe("B02: each limit in time takes effect", () => {
  test("connect_ms: a listener that accepts nothing, and a caller who leaves meanwhile", async () => {
    const deaf = await startDeafListener();
    const two = await pair(healthy("a"), { timeouts: { connect_ms: 300 } }, { url: deaf.url });
    toStop.push(deaf);
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody()));
    await until(() => two.plane.inFlight() === 1);
    client.kill();
    await leftNoTrace(two, 0);
    const text = await (await chat(two.plane.url)).text();
    assert.match(text, /"b"/);
    await two.plane.settled();
    assert.notEqual(two.plane.table.cooldownUntil[0], 0);
  });

  test("B03: idle_ms, a stream that falls silent ends with an error", async () => {
    const two = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))), { timeouts: { idle_ms: 100 } });
    const text = await (await chat(two.plane.url, { stream: true })).text();
    assert.match(text, /idle_timeout.*stream_interrupted/);
    await until(() => two.a.calls[0]?.isClosed === true);
    await two.plane.settled();
  });

  test("idle_ms counts silence, not the whole stream", async () => {
    const two = await pair(
      (call) => {
        call.write(STREAM_HEAD);
        let sent = 0;
        const pace = setInterval(() => {
          sent += 1;
          if (sent < 12) call.write(chunk(token("a")));
          else {
            clearInterval(pace);
            call.write(chunk(token("a", "stop") + DONE));
            call.write(LAST_CHUNK);
          }
        }, 100);
      },
      { timeouts: { idle_ms: 800 } },
    );
    assert.match(await (await chat(two.plane.url, { stream: true })).text(), /\[DONE\]\n\n$/);
    await two.plane.settled();
  });

  test("total_ms: before the answer a 504, and nobody else is asked", async () => {
    const two = await pair(() => {}, { timeouts: { total_ms: 100 } });
    const response = await chat(two.plane.url);
    assert.equal(response.status, 504);
    assert.equal((await errorOf(response)).code, "request_timeout");
    await leftNoTrace(two);
  });

  test("total_ms: within the answer an error event", async () => {
    const two = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))), { timeouts: { total_ms: 150 } });
    const text = await (await chat(two.plane.url, { stream: true })).text();
    assert.match(text, /"a"[\s\S]*request_timeout/);
    await leftNoTrace(two);
  });

  test("total_ms: while the body arrives", async () => {
    const two = await pair(healthy("a"), { timeouts: { total_ms: 150 } });
    const client = await RawClient.open(two.plane.port);
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{");
    const answer = await client.answer();
    assert.equal(answer.status, 504);
    client.kill();
    await leftNoTrace(two, 0);
  });

  test("total_ms: while it waits for room", async () => {
    const two = await pair(
      healthy("a"),
      { timeouts: { total_ms: 150 } },
      { maxInFlight: 0 },
      { policy: { queueOnSaturation: true, maxQueueMs: 30_000 } },
    );
    two.plane.table.isDraining[1] = 1;
    const response = await chat(two.plane.url);
    assert.equal(response.status, 504);
    assert.equal((await errorOf(response)).code, "request_timeout");
    await leftNoTrace(two, 0);
  });

  test("E01: slow_client_ms, a caller who never reads is dropped, the node is paused, memory stays bounded", async () => {
    const two = await pair(
      (call) => {
        call.write(STREAM_HEAD + chunk(token("a")));
        const piece = chunk(`: ${"p".repeat(2 ** 18)}\n\n`);
        let sent = 0;
        const more = (): void => {
          while (sent < 200) {
            sent += 1;
            if (!call.socket.write(piece)) {
              call.socket.once("drain", more);
              return;
            }
          }
        };
        more();
      },
      { timeouts: { slow_client_ms: 300 } },
    );
    const before = process.memoryUsage();
    const client = await RawClient.open(two.plane.port);
    client.socket.pause();
    client.send(post(chatBody({ stream: true })));
    await until(() => two.a.calls.length === 1);
    const socket = two.a.calls[0]?.socket;
    await until(() => two.a.calls[0]?.isClosed === true, "the end of the slow caller");
    const after = process.memoryUsage();
    assert.ok((socket?.bytesWritten ?? 0) < 50 * 2 ** 20, "the node was paused");
    assert.ok(
      after.arrayBuffers - before.arrayBuffers < 10 * 2 ** 20,
      `${after.arrayBuffers - before.arrayBuffers} bytes`,
    );
    await two.plane.settled();
    assert.equal(two.plane.table.cooldownUntil[0], 0);
    client.kill();
  });

  test("slow_client_ms: a caller who doesn't take the end of a whole answer is dropped too", async () => {
    const two = await pair(
      (call) =>
        call.write(
          Buffer.concat([
            Buffer.from(STREAM_HEAD),
            chunk(token("a", "stop")),
            chunk(`: ${"p".repeat(2 ** 23)}\n\n`),
            chunk(DONE),
            Buffer.from(LAST_CHUNK),
          ]),
        ),
      { timeouts: { slow_client_ms: 300 } },
    );
    const client = await RawClient.open(two.plane.port);
    client.socket.pause();
    client.send(post(chatBody({ stream: true })));
    await until(() => two.a.calls.length === 1);
    await two.plane.settled();
    client.kill();
  });

  test("a caller who reads slowly, but reads, gets everything", async () => {
    const body = `: ${"p".repeat(2 ** 20)}\n\n`;
    const two = await pair(
      (call) => {
        call.write(STREAM_HEAD + chunk(token("a", "stop")));
        for (let mib = 0; mib < 8; mib++) call.write(chunk(body));
        call.write(chunk(DONE));
        call.write(LAST_CHUNK);
      },
      { timeouts: { slow_client_ms: 2000, idle_ms: 2000 } },
    );
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody({ stream: true })));
    const pace = setInterval(() => {
      client.socket.pause();
      setTimeout(() => client.socket.resume(), 40);
    }, 60);
    await until(() => client.bytes > 8 * body.length, "the whole stream");
    const answer = await client.answer();
    clearInterval(pace);
    assert.equal(answer.body.length, Buffer.byteLength(token("a", "stop") + DONE) + 8 * body.length);
    client.kill();
    await two.plane.settled();
  });
});

test("many pauses leave no listener behind", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning);
  process.on("warning", onWarning);
  try {
    const two = await pair((call) => {
      call.write(STREAM_HEAD + chunk(token("a", "stop")));
      let sent = 0;
      const more = (): void => {
        sent += 1;
        call.write(
          sent < 60 ? chunk(`: ${"p".repeat(300_000)}\n\n`) : Buffer.concat([chunk(DONE), Buffer.from(LAST_CHUNK)]),
        );
        if (sent < 60) setImmediate(more);
      };
      more();
    });
    for (let run = 0; run < 2; run++) {
      const text = await (await chat(two.plane.url, { stream: true })).text();
      assert.match(text, /\[DONE\]\n\n$/);
    }
    await two.plane.settled();
    assert.deepEqual(warnings, []);
  } finally {
    process.off("warning", onWarning);
  }
});
