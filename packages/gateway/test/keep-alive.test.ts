import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import type { WorkerNode } from "../src/thread-messages.ts";
import { endAfterEach, type Pair, startPair } from "./pair-fixture.ts";
import { chat, errorOf, type FixtureNode, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import {
  answering,
  chatAnswer,
  chunk,
  healthy,
  type NodeScript,
  plain,
  STREAM_HEAD,
  startScriptedNode,
  token,
} from "./scripted-node.ts";

const toStop = endAfterEach();

async function pair(
  script: NodeScript,
  a: Partial<FixtureNode> = {},
  options: { atHead?: boolean } = {},
): Promise<Pair> {
  const pair = await startPair(script, { a, ...options });
  toStop.push(pair.plane, pair.a, pair.b);
  return pair;
}

const nodeOf = (response: Response): string =>
  decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.node ?? "";

describe("connections to a node are kept", () => {
  test("requests one after the other use one connection, streamed or not", async () => {
    const { a, plane } = await pair(healthy("a"));
    for (let each = 0; each < 20; each++) {
      await (await chat(plane.url, { stream: each % 2 === 0 })).text();
      await plane.settled();
    }
    assert.equal(a.calls.length, 20);
    assert.equal(a.connections, 1);
  });

  test("F01: a node that closes idle connections just as they are used fails nobody, and answers each once", async () => {
    const { a, b, plane } = await pair((call, index) => {
      healthy("a")(call, index);
      // the close races with the next request
      setTimeout(() => call.fin(), index % 4);
    });
    for (let each = 0; each < 200; each++) {
      const response = await chat(plane.url, { user: String(each) });
      assert.equal(response.status, 200);
      await response.text();
    }
    const users = a.calls.map((call) => JSON.parse(call.body.toString()).user as string);
    assert.equal(new Set(users).size + b.calls.length, 200, "nobody is lost");
    assert.equal(b.calls.length, 0, "a stale connection is no failure");
    assert.equal(plane.table.cooldownUntil[0], 0);
    await plane.settled();
  });

  test("F02: a node that dies over a request on a reused connection has failed, and is not asked again", async () => {
    const { a, b, plane } = await pair((call, index) => {
      if (index === 0) healthy("a")(call, index);
      // it took the request and worked on it: far longer than noticing a closed connection takes
      else setTimeout(() => call.rst(), 250);
    });
    await (await chat(plane.url)).text();
    const response = await chat(plane.url);
    assert.equal(nodeOf(response), "b");
    await response.text();
    assert.equal(a.calls.length, 2, "the request is not run on the node a second time");
    assert.equal(b.calls.length, 1);
    assert.notEqual(plane.table.cooldownUntil[0], 0);
    await plane.settled();
  });

  test("a reset of a reused connection is tried once more on a fresh one", async () => {
    const { a, b, plane } = await pair(healthy("a"));
    await (await chat(plane.url)).text();
    a.script = (call, index) => (call.connection === 0 ? call.rst() : healthy("a")(call, index));
    const response = await chat(plane.url);
    assert.equal(response.status, 200);
    assert.equal(nodeOf(response), "a");
    assert.equal(a.calls.length, 3);
    assert.equal(b.calls.length, 0);
    assert.equal(plane.table.cooldownUntil[0], 0);
    await plane.settled();
  });

  test("a node that cools down since is not asked again over a reset: the request goes on to another", async () => {
    const { a, b, plane } = await pair(healthy("a"));
    await (await chat(plane.url)).text();
    a.script = (call) => {
      Atomics.store(plane.table.cooldownUntil, 0, 2 ** 30);
      call.rst();
    };
    const response = await chat(plane.url);
    assert.equal(response.status, 200);
    assert.equal(nodeOf(response), "b");
    assert.equal(a.calls.length, 2);
    assert.equal(b.calls.length, 1);
    await plane.settled();
  });

  test("a reset of a trial's reused connection leaves it the trial, whose success ends the cooldown", async () => {
    const { a, plane } = await pair(healthy("a"));
    await (await chat(plane.url)).text();
    // a cooldown that is over and asks for a trial
    Atomics.store(plane.table.cooldownUntil, 0, 1);
    a.script = (call, index) => (call.connection === 0 ? call.rst() : healthy("a")(call, index));
    const response = await chat(plane.url);
    assert.equal(nodeOf(response), "a");
    assert.equal(a.calls.length, 3);
    await response.text();
    await plane.settled();
    assert.equal(plane.table.cooldownUntil[0], 0);
    assert.equal(plane.table.trialUntil[0], 0);
  });

  test("F02: a reset of a fresh connection after a reused one is the node's failure: two executions there, no more", async () => {
    const { a, b, plane } = await pair(healthy("a"));
    await (await chat(plane.url)).text();
    a.script = (call) => call.rst();
    const response = await chat(plane.url);
    assert.equal(nodeOf(response), "b");
    assert.equal(a.calls.length, 3);
    assert.equal(b.calls.length, 1);
    assert.notEqual(plane.table.cooldownUntil[0], 0);
    await plane.settled();
  });

  test("F02: a reset of a fresh connection is the node's failure, one execution", async () => {
    const { a, b, plane } = await pair((call) => call.rst());
    assert.equal(nodeOf(await chat(plane.url)), "b");
    assert.equal(a.calls.length, 1);
    assert.equal(b.calls.length, 1);
    await plane.settled();
  });

  test("a large body on a connection that goes stale arrives whole", async () => {
    const { a, plane } = await pair(healthy("a"));
    await (await chat(plane.url)).text();
    a.script = (call, index) => (call.connection === 0 ? call.rst() : healthy("a")(call, index));
    const response = await chat(plane.url, { x: "y".repeat(900_000) });
    assert.equal(response.status, 200);
    assert.equal(a.calls.at(-1)?.sha256(), a.calls.at(-2)?.sha256());
    await plane.settled();
  });

  test("idle connections are closed by us first", async () => {
    const { a, plane } = await pair(healthy("a"), { keepAliveMs: 100 });
    await (await chat(plane.url)).text();
    await until(() => a.openSockets() === 0);
    assert.equal((await chat(plane.url)).status, 200);
    await plane.settled();
  });

  test("a node that asks for a close gets it", async () => {
    const { a, plane } = await pair((call) => {
      call.write(plain(200, chatAnswer("a"), { connection: "close" }));
      call.fin();
    });
    for (let each = 0; each < 5; each++) assert.equal((await chat(plane.url)).status, 200);
    assert.equal(a.connections, 5);
    await plane.settled();
  });
});

describe("nodes that are not there", () => {
  test("J04: a refused connect goes on to the next node, and the next request does not ask it again", async () => {
    const { a, b, plane } = await pair(healthy("a"));
    await a.stop();
    for (let each = 0; each < 5; each++) assert.equal(nodeOf(await chat(plane.url)), "b");
    assert.equal(b.calls.length, 5);
    assert.notEqual(plane.table.cooldownUntil[0], 0);
    await plane.settled();
  });

  test("refused connects don't count as attempts", async () => {
    const gone = await Promise.all([1, 2, 3, 4].map(() => startScriptedNode(healthy("x"))));
    const b = await startScriptedNode(healthy("b"));
    const plane = await startPlane([
      ...gone.map((node, index) => ({ id: `gone${index}`, url: node.url, family: `F${index}` })),
      { id: "b", url: b.url, family: "Z" },
    ]);
    toStop.push(plane, b);
    for (const node of gone) await node.stop();
    assert.equal(nodeOf(await chat(plane.url)), "b");
    await plane.settled();
  });

  test("nobody there is a 502", async () => {
    const { a, b, plane } = await pair(healthy("a"));
    await a.stop();
    await b.stop();
    const response = await chat(plane.url);
    assert.equal(response.status, 502);
    assert.equal((await errorOf(response)).code, "upstream_failed");
    await plane.settled();
  });

  test("a node that polls say is down loses what has not been committed, and keeps the rest", async () => {
    const { a, b, plane } = await pair((call, index) => {
      if (index === 0) call.write(STREAM_HEAD + chunk(token("a")));
    });
    const committed = await chat(plane.url, { stream: true });
    const waiting = chat(plane.url, { stream: true });
    await until(() => a.calls.length === 2);
    plane.plane.nodeDown(0);
    assert.equal(nodeOf(await waiting), "b");
    assert.equal(b.calls.length, 1);
    assert.equal(a.calls[0]?.isClosed, false);
    a.calls[0]?.write(chunk(token("!", "stop")));
    a.calls[0]?.write("0\r\n\r\n");
    assert.match(await committed.text(), /"!"/);
    await plane.settled();
  });

  test("a node that leaves the configuration finishes what runs there", async () => {
    const { a, plane } = await pair((call) => call.write(STREAM_HEAD + chunk(token("a"))));
    const running = await chat(plane.url, { stream: true });
    plane.plane.removeNode(0);
    plane.table.isDraining[0] = 1;
    a.calls[0]?.write(chunk(token("!", "stop")));
    a.calls[0]?.write("0\r\n\r\n");
    assert.match(await running.text(), /"!"/);
    assert.equal(nodeOf(await chat(plane.url)), "b");
    await plane.settled();
    await until(() => a.openSockets() === 0);
  });

  for (const [change, apply] of [
    ["gets a new pool", ({ plane }, node) => plane.setNode({ ...node, keepAliveMs: 5000 })],
    ["moves to another URL", ({ plane }, node) => plane.setNode({ ...node, url: `${node.url}/prefix` })],
    [
      "gets two new pools",
      ({ plane }, node) => {
        plane.setNode({ ...node, keepAliveMs: 5000 });
        plane.setNode({ ...node, maxConnections: 5 });
      },
    ],
    [
      "leaves the configuration",
      ({ plane, table }) => {
        plane.removeNode(0);
        table.isDraining[0] = 1;
      },
    ],
    [
      "leaves the configuration and comes back",
      ({ plane }, node) => {
        plane.removeNode(0);
        plane.setNode(node);
      },
    ],
  ] as [string, (plane: PlaneFixture, node: WorkerNode) => void][]) {
    test(`a node that ${change} and is then down loses what was sent to it before, too`, async () => {
      const { a, b, plane } = await pair(() => {});
      const waiting = chat(plane.url);
      await until(() => a.calls.length === 1);
      const node = plane.plane.upstreamOf(0)?.node;
      assert.ok(node !== undefined);
      apply(plane, node);
      plane.plane.nodeDown(0);
      assert.equal(nodeOf(await waiting), "b");
      assert.equal(b.calls.length, 1);
      await plane.settled();
    });
  }

  test("a node that takes the row of one that left does not fail what runs on that one", async () => {
    const { a, plane } = await pair(() => {});
    const running = chat(plane.url);
    await until(() => a.calls.length === 1);
    const node = plane.plane.upstreamOf(0)?.node;
    assert.ok(node !== undefined);
    plane.plane.removeNode(0);
    plane.plane.setNode({ ...node, id: "another" });
    plane.plane.nodeDown(0);
    a.calls[0]?.write(plain(200, chatAnswer("a")));
    assert.equal(nodeOf(await running), "a");
    await plane.settled();
  });

  test("a request that waits for a connection while its node gets a new pool is served", async () => {
    const { a, b, plane } = await pair(() => {}, { maxConnections: 1 });
    const headers = { "x-zml-accelerator": "H100" };
    const both = [chat(plane.url, {}, { headers }), chat(plane.url, {}, { headers })];
    await until(() => a.calls.length === 1 && plane.inFlight() === 2);
    const node = plane.plane.upstreamOf(0)?.node;
    assert.ok(node !== undefined);
    plane.plane.setNode({ ...node, keepAliveMs: 5000 });
    a.script = healthy("a");
    a.calls[0]?.write(plain(200, chatAnswer("a")));
    for (const response of await Promise.all(both)) assert.equal(nodeOf(response), "a");
    assert.equal(b.calls.length, 0);
    await plane.settled();
    await until(() => a.openSockets() === 0, "the end of the old pool");
  });

  test("B06: one node that hangs does not slow the others", async () => {
    const { plane } = await pair(() => {}, { maxConnections: 4 });
    const left = new AbortController();
    const stuck = Array.from({ length: 50 }, () =>
      chat(plane.url, {}, { signal: left.signal }).then(
        () => {},
        () => {},
      ),
    );
    await until(() => plane.inFlight() === 50);
    const response = await chat(plane.url, {}, { headers: { "x-zml-accelerator": "MI300X" } });
    assert.equal(nodeOf(response), "b");
    left.abort();
    await Promise.all(stuck);
    await plane.settled();
  });
});

describe("G09: a node that answers before it has read the body", () => {
  test("its refusal is relayed, and the upload ends", async () => {
    const body = '{"error":{"message":"too large","code":413}}';
    const { b, plane } = await pair(
      (call) => {
        call.write(plain(413, body, { connection: "close" }));
        call.fin();
      },
      {},
      { atHead: true },
    );
    for (let run = 0; run < 10; run++) {
      const response = await chat(plane.url, { x: "y".repeat(3_000_000) });
      assert.equal(response.status, 413, await response.clone().text());
      assert.equal(await response.text(), body);
    }
    assert.equal(b.calls.length, 0);
    await plane.settled();
    assert.equal(plane.table.cooldownUntil[0], 0);
  });

  test("its early answer is complete", async () => {
    const { plane } = await pair(answering(200, chatAnswer("a")), {}, { atHead: true });
    const response = await chat(plane.url, { x: "y".repeat(3_000_000) });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /"a"/);
    await plane.settled();
  });
});
