import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { announceRoom, nextSequence, readRecord } from "@zml/engine";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { decodeDecisionId } from "../src/decision-id.ts";
import { chat, errorOf, type FixtureNode, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import { chatAnswer, type NodeScript, plain, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const toStop: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of toStop.splice(0)) await each.stop();
});

interface Fixture {
  node: ScriptedNode;
  plane: PlaneFixture;
}

async function fixture(
  options: {
    script?: NodeScript;
    file?: Record<string, unknown>;
    maxQueueMs?: number;
    queues?: boolean;
    node?: Partial<FixtureNode>;
    /** More nodes, each with room for one. */
    others?: readonly FixtureNode[];
  } = {},
): Promise<Fixture> {
  const node = await startScriptedNode(options.script ?? (() => {}));
  const others = (options.others ?? []).map((other) => ({ maxInFlight: 1, ...other }));
  const plane = await startPlane([{ id: "a", url: node.url, maxInFlight: 1, ...options.node }, ...others], {
    file: options.file ?? {},
    policy: { queueOnSaturation: options.queues ?? true, maxQueueMs: options.maxQueueMs ?? 30_000 },
  });
  toStop.push(plane, node);
  return { node, plane };
}

/** One caller whose prompt names it. */
async function caller(plane: PlaneFixture, name: string): Promise<RawClient> {
  const client = await RawClient.open(plane.port);
  client.send(post(chatBody({ messages: [{ role: "user", content: name }] })));
  return client;
}

const answer = (node: ScriptedNode, index: number): void => node.calls[index]?.write(plain(200, chatAnswer("a")));
const namesOf = (node: ScriptedNode): string[] =>
  node.calls.map((call) => JSON.parse(call.body.toString()).messages[0].content);

test("who waits is served in order of arrival, one as each place gets free", async () => {
  const { node, plane } = await fixture();
  const clients = [await caller(plane, "0")];
  await until(() => node.calls.length === 1);
  for (let each = 1; each <= 4; each++) {
    clients.push(await caller(plane, String(each)));
    await until(() => plane.plane.parked.count === each);
  }
  for (let each = 0; each <= 4; each++) {
    await until(() => node.calls.length === each + 1);
    assert.equal(plane.inFlight(), 1);
    answer(node, each);
  }
  for (const client of clients) assert.equal((await client.answer()).status, 200);
  assert.deepEqual(namesOf(node), ["0", "1", "2", "3", "4"]);
  for (const client of clients) client.kill();
  await plane.settled();
});

test("after max_queue_ms a 503 says why, per family, and when to come back", async () => {
  const { node, plane } = await fixture({ maxQueueMs: 100 });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const response = await chat(plane.url);
  const error = await errorOf(response);
  assert.equal(response.status, 503);
  assert.equal(error.code, "queue_timeout");
  assert.equal(error.type, "saturation");
  assert.match(error.message, /within \d+ ms \(max_queue_ms\)/);
  assert.deepEqual(error.families, [{ family: "H100", reason: "at_capacity", nodes: 1 }]);
  assert.match(response.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  assert.equal(response.headers.get("x-should-retry"), null);
  assert.equal(decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "")?.reason, "queue_saturated");
  first.kill();
  await plane.settled();
});

test("without the option saturation is told at once, with the families", async () => {
  const { node, plane } = await fixture({ queues: false });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const response = await chat(plane.url);
  const error = await errorOf(response);
  assert.equal(response.status, 503);
  assert.equal(error.code, "queue_saturated");
  assert.deepEqual(error.families, [{ family: "H100", reason: "at_capacity", nodes: 1 }]);
  assert.equal(node.calls.length, 1);
  const routing = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");
  const place = decodeDecisionId(routing?.decision ?? "");
  assert.ok(place !== null, "the answer names the decision that found no node");
  assert.equal(readRecord(plane.ring, place.sequence)?.reason, "queue_saturated");
  first.kill();
  await plane.settled();
});

test("a full queue refuses, and those in it keep their place", async () => {
  const { node, plane } = await fixture({ file: { limits: { queue_requests: 2 } } });
  const clients = [await caller(plane, "0")];
  await until(() => node.calls.length === 1);
  clients.push(await caller(plane, "1"), await caller(plane, "2"));
  await until(() => plane.plane.parked.count === 2);
  const response = await chat(plane.url);
  const error = await errorOf(response);
  assert.equal(response.status, 503);
  assert.equal(error.code, "queue_full");
  assert.match(error.message, /\(limits\.queue_requests\)/);
  assert.ok(Array.isArray(error.families));
  assert.ok(response.headers.get("retry-after"));
  assert.equal(plane.plane.parked.count, 2);
  for (let each = 0; each < 3; each++) {
    await until(() => node.calls.length === each + 1);
    answer(node, each);
  }
  for (const client of clients) {
    assert.equal((await client.answer()).status, 200);
    client.kill();
  }
  await plane.settled();
});

test("the bytes that wait are bounded too", async () => {
  const { node, plane } = await fixture({ file: { limits: { queue_bytes: 4096 } } });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const response = await chat(plane.url, { x: "y".repeat(10_000) });
  assert.equal(response.status, 503);
  const error = await errorOf(response);
  assert.equal(error.code, "queue_full");
  assert.match(error.message, /\(limits\.queue_bytes\)/);
  first.kill();
  await plane.settled();
});

test("C04: of 50 who wait 49 leave: the one who stayed is next, and the node sees two requests", async () => {
  const { node, plane } = await fixture();
  const first = await caller(plane, "first");
  await until(() => node.calls.length === 1);
  const leaving: RawClient[] = [];
  for (let each = 0; each < 49; each++) leaving.push(await caller(plane, "gone"));
  await until(() => plane.plane.parked.count === 49);
  const live = await caller(plane, "live");
  await until(() => plane.plane.parked.count === 50);
  for (const client of leaving) client.kill();
  await until(() => plane.plane.parked.count === 1);
  answer(node, 0);
  await until(() => node.calls.length === 2);
  answer(node, 1);
  assert.equal((await live.answer()).status, 200);
  assert.deepEqual(namesOf(node), ["first", "live"]);
  first.kill();
  live.kill();
  await plane.settled();
});

test("those who leave make place in a full queue at once", async () => {
  const { node, plane } = await fixture({ file: { limits: { queue_requests: 1 } } });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const leaver = await caller(plane, "1");
  await until(() => plane.plane.parked.count === 1);
  leaver.kill();
  await until(() => plane.plane.parked.count === 0);
  const next = await caller(plane, "2");
  await until(() => plane.plane.parked.count === 1);
  answer(node, 0);
  await until(() => node.calls.length === 2);
  answer(node, 1);
  assert.equal((await next.answer()).status, 200);
  first.kill();
  next.kill();
  await plane.settled();
});

test("it waits also while every node cools, and goes on when one may be tried", async () => {
  const { node, plane } = await fixture({ script: (call) => call.rst(), file: { failover: { cooldown_ms: 200 } } });
  const wakes = setInterval(() => announceRoom(plane.table), 20);
  try {
    const client = await caller(plane, "0");
    await until(() => node.calls.length === 1);
    node.script = (call) => call.write(plain(200, chatAnswer("a")));
    // the node failed this request, so that it is no node for it; the next one waits for the trial
    assert.equal((await client.answer()).status, 502);
    const next = await caller(plane, "1");
    await until(() => plane.plane.parked.count === 1);
    assert.equal((await next.answer()).status, 200);
    client.kill();
    next.kill();
  } finally {
    clearInterval(wakes);
  }
  await plane.settled();
});

test("a request that doesn't queue gets no room before one that waits for it", async () => {
  const { node, plane } = await fixture();
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const waiting = await caller(plane, "1");
  await until(() => plane.plane.parked.count === 1);
  const eager: Promise<Response>[] = [];
  for (let each = 0; each < 20; each++) {
    if (each === 10) answer(node, 0);
    eager.push(chat(plane.url, {}, { headers: { "x-zml-policy": "zml-default" } }));
  }
  await until(() => node.calls.length === 2);
  assert.equal(namesOf(node)[1], "1");
  for (const response of await Promise.all(eager)) {
    assert.equal(response.status, 503);
    await response.text();
  }
  answer(node, 1);
  assert.equal((await waiting.answer()).status, 200);
  first.kill();
  waiting.kill();
  await plane.settled();
});

test("room that comes in the moment in which a wait ends is taken, not lost", async () => {
  const { node, plane } = await fixture({ maxQueueMs: 300 });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const waiting = await caller(plane, "1");
  await until(() => plane.plane.parked.count === 1);
  // nobody is told, as if the wait ended before the news came
  plane.table.maxInFlight[0] = 2;
  await until(() => node.calls.length === 2);
  answer(node, 1);
  assert.equal((await waiting.answer()).status, 200);
  first.kill();
  waiting.kill();
  await plane.settled();
});

test("one that waits for another node than the free one keeps nobody behind it waiting, nor is anybody overtaken", async () => {
  // the first node is overloaded for one caller only; the second one is full for good
  const script: NodeScript = (call) => {
    if (call.body.includes("picky")) call.write(plain(429, "{}"));
  };
  const { node, plane } = await fixture({ script, others: [{ id: "b", url: "http://127.0.0.1:9", family: "B" }] });
  plane.table.total.inFlight[1] = 1;
  const picky = await caller(plane, "picky");
  await until(() => plane.plane.parked.count === 1);
  // its next poll says that the overload is over
  plane.table.overloadedAtPoll[0] = 0;
  const first = await caller(plane, "first");
  await until(() => node.calls.length === 2);
  const behind = await caller(plane, "behind");
  await until(() => plane.plane.parked.count === 2);
  answer(node, 1);
  const late = await caller(plane, "late");
  await until(() => node.calls.length === 3);
  answer(node, 2);
  assert.equal((await behind.answer()).status, 200);
  await until(() => node.calls.length === 4);
  answer(node, 3);
  assert.equal((await late.answer()).status, 200);
  assert.deepEqual(namesOf(node), ["picky", "first", "behind", "late"]);
  plane.table.total.inFlight[1] = 0;
  for (const client of [picky, first, behind, late]) client.kill();
  await plane.settled();
});

test("who waits writes no record for a look that finds nothing, and one for the end of the wait", async () => {
  const { node, plane } = await fixture({ maxQueueMs: 1000 });
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const waiting = await Promise.all([1, 2, 3].map((each) => caller(plane, String(each))));
  await until(() => plane.plane.parked.count === 3);
  assert.equal(nextSequence(plane.ring), 4);
  for (let each = 0; each < 20; each++) {
    announceRoom(plane.table);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(nextSequence(plane.ring), 4);
  for (const client of waiting) assert.equal((await client.answer()).status, 503);
  assert.equal(nextSequence(plane.ring), 7);
  for (const client of [first, ...waiting]) client.kill();
  await plane.settled();
});

test("a drain ends every wait with a 503, and the caller may come again", async () => {
  const { node, plane } = await fixture();
  const first = await caller(plane, "0");
  await until(() => node.calls.length === 1);
  const waiting = await caller(plane, "1");
  await until(() => plane.plane.parked.count === 1);
  const drained = plane.server.drain(200);
  const refused = await waiting.answer();
  assert.equal(refused.status, 503);
  assert.equal(refused.headers["connection"], "close");
  assert.ok(refused.headers["retry-after"]);
  assert.equal(JSON.parse(refused.body.toString()).error.code, "shutting_down");
  answer(node, 0);
  assert.equal((await first.answer()).status, 200);
  assert.equal(await drained, 0);
});
