import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { isLong } from "./field/field-fixture.ts";
import { endAfterEach, type Pair, startPair } from "./pair-fixture.ts";
import { chat, errorOf, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import {
  chatAnswer,
  chunk,
  DONE,
  healthy,
  LAST_CHUNK,
  type NodeScript,
  plain,
  STREAM_HEAD,
  startScriptedNode,
  token,
} from "./scripted-node.ts";

const toStop = endAfterEach();

async function pair(script: NodeScript, file: Record<string, unknown> = {}): Promise<Pair> {
  const pair = await startPair(script, { file });
  toStop.push(pair.plane, pair.a, pair.b);
  return pair;
}

const STREAM = Buffer.concat([
  Buffer.from(STREAM_HEAD),
  chunk(token("a")),
  chunk(token("é🙂", "stop")),
  chunk(DONE),
  Buffer.from(LAST_CHUNK),
]);

describe("E06: a cut at any byte is either somebody else's answer, or visible", () => {
  for (const end of ["fin", "rst"] as const) {
    test(`a stream that ends with ${end.toUpperCase()}`, async () => {
      const two = await pair(() => {}, { failover: { cooldown_ms: 1 } });
      for (let cut = 0; cut < STREAM.length; cut += isLong ? 1 : 3) {
        two.plane.table.cooldownUntil[0] = 0;
        two.a.script = (call) => {
          call.write(STREAM.subarray(0, cut));
          setImmediate(() => call[end]());
        };
        const client = await RawClient.open(two.plane.port);
        client.send(post(chatBody({ stream: true })));
        await until(() => client.isClosed || client.answers().length === 1, `the end for a cut at ${cut}`);
        const text = client.text;
        const isWhole = text.includes(DONE);
        const isOthers = text.includes('"content":"b"');
        const isVisible = text.includes("stream_interrupted") || client.answers().length === 0;
        assert.ok(isWhole || isVisible, `cut at ${cut}: ${text}`);
        if (isOthers) assert.doesNotMatch(text, /"content":"a"/, `cut at ${cut}`);
        client.kill();
      }
      await two.plane.settled();
      assert.deepEqual(two.plane.logs, []);
    });
  }

  test("a caller that resets at any byte of its request", async () => {
    const two = await pair(healthy("a"));
    const bytes = post(chatBody());
    for (let cut = 1; cut <= bytes.length; cut += isLong ? 1 : 5) {
      const client = await RawClient.open(two.plane.port);
      client.send(bytes.subarray(0, cut));
      client.kill();
    }
    await two.plane.settled();
    assert.equal((await chat(two.plane.url)).status, 200);
    assert.equal(two.plane.table.cooldownUntil[0], 0);
    assert.deepEqual(two.plane.logs, []);
    await two.plane.settled();
  });
});

describe("D03: a place is held for as long as the answer runs", () => {
  test("requests of which no byte of an answer has come count from the decision on", async () => {
    const two = await pair(() => {});
    const clients: RawClient[] = [];
    for (let each = 0; each < 6; each++) {
      const client = await RawClient.open(two.plane.port);
      client.send(post(chatBody({})));
      await until(() => two.a.calls.length === each + 1, "the call");
      clients.push(client);
    }
    const depths = two.a.calls.map((call) => decodeRoutingHeader(call.headers["x-zml-routing"] ?? "")?.queueDepth);
    assert.deepEqual(depths, [0, 1, 2, 3, 4, 5]);
    for (const client of clients) client.kill();
    await two.plane.settled();
  });

  test("streams whose heads have come still count", async () => {
    const two = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))));
    const streams: RawClient[] = [];
    for (let each = 0; each < 5; each++) {
      const client = await RawClient.open(two.plane.port);
      client.send(post(chatBody({ stream: true })));
      await client.waitFor('"a"');
      streams.push(client);
    }
    assert.equal(two.plane.table.total.inFlight[0], 5);
    const response = await chat(two.plane.url, { stream: true });
    assert.equal(decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.queueDepth, 5);
    await response.body?.cancel();
    for (const client of streams) client.kill();
    await two.plane.settled();
  });

  test("D05: an end mark split over two reads ends it", async () => {
    const two = await pair((call) => {
      call.write(STREAM_HEAD + chunk(`${token("a", "stop")}data: [DO`));
      setImmediate(() => call.write(chunk("NE]\n\n")));
    });
    assert.match(await (await chat(two.plane.url, { stream: true })).text(), /\[DONE\]\n\n$/);
    await two.plane.settled();
  });
});

describe("L01: a drain", () => {
  test("lets running answers end, and says that connections close", async () => {
    const two = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))));
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody({ stream: true })));
    await client.waitFor('"a"');
    const idle = await RawClient.open(two.plane.port);
    idle.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    await idle.answer();
    const drained = two.plane.server.drain(5000);
    await idle.closed();
    await assert.rejects(RawClient.open(two.plane.port), "nothing new is accepted");
    two.a.calls[0]?.write(Buffer.concat([chunk(token("!", "stop")), chunk(DONE), Buffer.from(LAST_CHUNK)]));
    assert.equal(await drained, 0);
    await client.closed();
    assert.match(client.text, /\[DONE\]/);
    await two.plane.settled();
  });

  test("ends what outlasts its grace with an error that says why", async () => {
    const two = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))));
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody({ stream: true })));
    await client.waitFor('"a"');
    two.a.script = () => {};
    const waiting = await RawClient.open(two.plane.port);
    waiting.send(post(chatBody()));
    await until(() => two.a.calls.length === 2);
    const uploading = await RawClient.open(two.plane.port);
    uploading.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{");
    await until(() => two.plane.server.runningCount === 3);
    assert.equal(await two.plane.server.drain(50), 3);
    await client.closed();
    assert.match(client.text, /"a"[\s\S]*shutting_down/);
    for (const other of [waiting, uploading]) {
      const answer = await other.answer();
      assert.equal(answer.status, 503);
      assert.equal(answer.headers["connection"], "close");
    }
    await two.plane.settled();
    assert.equal(two.plane.table.cooldownUntil[0], 0, "our shutdown is no failure of the node");
  });

  test("a request on a kept connection that comes during the drain is served, and told to close", async () => {
    const two = await pair((call, index) => {
      if (index > 0) call.write(plain(200, chatAnswer("a")));
    });
    const running = await RawClient.open(two.plane.port);
    running.send(post(chatBody()));
    await until(() => two.a.calls.length === 1);
    const drained = two.plane.server.drain(5000);
    two.a.calls[0]?.write(plain(200, chatAnswer("a")));
    const answer = await running.answer();
    assert.equal(answer.status, 200);
    assert.equal(answer.headers["connection"], "close");
    await drained;
    await two.plane.settled();
  });
});

describe("what an exhausted request tells", () => {
  test("a large error body comes whole or not at all", async () => {
    const body = JSON.stringify({ error: { message: "x".repeat(200_000) } });
    const script: NodeScript = (call) => call.write(plain(500, body));
    const a = await startScriptedNode(script);
    const plane = await startPlane([{ id: "a", url: a.url }]);
    toStop.push(plane, a);
    const response = await chat(plane.url);
    const text = await response.text();
    if (response.status === 500) assert.equal(text, body);
    else assert.equal((JSON.parse(text) as { error: { code: string } }).error.code, "upstream_failed");
    await plane.settled();
  });

  test("a limit of the node's own is named with its own value", async () => {
    const a = await startScriptedNode(() => {});
    const plane = await startPlane([{ id: "a", url: a.url }]);
    toStop.push(plane, a);
    const node = plane.plane.upstreamOf(0)?.node;
    assert.ok(node !== undefined);
    plane.plane.setNode({ ...node, timeouts: { ...node.timeouts, firstByteMs: 80 } });
    const response = await chat(plane.url);
    assert.match((await errorOf(response)).message, /first_byte_ms \(80 ms\)/);
    await plane.settled();
  });
});
