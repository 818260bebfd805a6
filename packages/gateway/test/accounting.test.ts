import assert from "node:assert/strict";
import { test } from "node:test";
import { announceRoom, BOOKING_COUNT_NAMES, nextSequence, readRecord } from "@zml/engine";
import { seededRandom } from "@zml/simulator";
import { isLong, longForm } from "./field/field-fixture.ts";
import { chat, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import {
  answering,
  chatAnswer,
  chunk,
  DONE,
  ERROR_EVENT,
  healthy,
  type NodeScript,
  plain,
  STREAM_HEAD,
  startScriptedNode,
  streaming,
  token,
} from "./scripted-node.ts";

const REQUESTS = isLong ? 5000 : 1500;
const CALLERS = 40;

const part = STREAM_HEAD + chunk(token("a"));
/** What a node may do with a request: most of them bad. */
const HABITS: NodeScript[] = [
  healthy("n"),
  healthy("n"),
  healthy("n"),
  healthy("n"),
  answering(500, '{"error":{"message":"boom"}}'),
  answering(503, '{"error":{"message":"queue is full"}}'),
  answering(429, "{}", { "retry-after": "1" }),
  answering(400, '{"error":{"message":"no"}}'),
  answering(401, "{}"),
  answering(501, "{}"),
  answering(200, ""),
  streaming(ERROR_EVENT, DONE),
  streaming(token("a"), ERROR_EVENT, DONE),
  streaming(token("a"), token("", "abort"), DONE),
  streaming(),
  (call) => call.rst(),
  (call) => call.fin(),
  () => {},
  (call) => call.write(STREAM_HEAD),
  (call) => call.write(part),
  (call) => call.write(`${part}zz\r\n`),
  (call) => call.write(Buffer.concat([Buffer.from(STREAM_HEAD), chunk(token("a", "stop") + DONE)])),
  (call) => {
    call.write(part);
    setTimeout(() => call.rst(), 5);
  },
  (call) => {
    call.write(part);
    setTimeout(() => call.fin(), 5);
  },
  (call) => {
    call.write(plain(200, chatAnswer("n")));
    setTimeout(() => call.fin(), 1);
  },
  (call) => void setTimeout(() => call.write(plain(200, chatAnswer("n"))), 30),
];

test("D01: requests with faults at random on both sides leave every count at 0", longForm, async () => {
  const strays: unknown[] = [];
  const onStray = (error: unknown): number => strays.push(error);
  process.on("unhandledRejection", onStray);
  process.on("uncaughtException", onStray);
  process.on("warning", onStray);
  const random = seededRandom(20_261_129);
  const pick = (count: number): number => Math.floor(random() * count);
  const script: NodeScript = (call, index) => (HABITS[pick(HABITS.length)] as NodeScript)(call, index);
  const nodes = await Promise.all([0, 1, 2].map(() => startScriptedNode(script)));
  const plane = await startPlane(
    nodes.map((node, index) => ({ id: `n${index}`, url: node.url, family: `F${index}`, maxInFlight: 8 })),
    {
      records: 16_384,
      file: {
        failover: { cooldown_ms: 10, hold_ms: 50 },
        timeouts: { first_byte_ms: 60, first_token_ms: 80, idle_ms: 60, total_ms: 400, slow_client_ms: 200 },
        data: { body_ms: 200 },
      },
      policy: { queueOnSaturation: true, maxQueueMs: 150 },
    },
  );
  const wakes = setInterval(() => announceRoom(plane.table), 20);
  const { table } = plane;
  try {
    let begun = 0;
    let answered = 0;
    const one = async (): Promise<void> => {
      const client = await RawClient.open(plane.port);
      // some go out in one piece, some joined from several, some piece by piece
      const size = pick(20) === 0 ? 300_000 + pick(300_000) : pick(3) === 0 ? pick(100_000) : 10;
      const bytes = post(chatBody({ stream: pick(2) === 0, x: "y".repeat(size) }));
      const fate = pick(6);
      if (fate === 0) {
        client.send(bytes.subarray(0, pick(bytes.length)));
        await new Promise((resolve) => setTimeout(resolve, pick(10)));
        client.kill();
      } else if (fate === 1) {
        client.send(bytes);
        await new Promise((resolve) => setTimeout(resolve, pick(60)));
        if (pick(2) === 0) client.kill();
        else client.socket.destroy();
      } else {
        client.send(bytes);
        await until(() => client.isClosed || client.answers().length === 1, "an answer or its visible end");
        answered += 1;
        client.socket.destroy();
      }
    };
    const callers = Array.from({ length: CALLERS }, async () => {
      while (begun < REQUESTS) {
        begun += 1;
        await one();
      }
    });
    await Promise.all(callers);
    await plane.settled();
    assert.ok(answered > REQUESTS / 2);
    for (const name of BOOKING_COUNT_NAMES) {
      assert.ok(
        table.total[name].every((count) => count === 0),
        `total ${name}`,
      );
    }
    assert.equal(plane.plane.parked.count, 0);
    assert.equal(plane.plane.upstreamOf(0)?.running.size, 0);
    const decisions = nextSequence(plane.ring);
    assert.ok(decisions > 1000 && decisions < 16_384, String(decisions));
    const outcomes = new Set<string>();
    for (let sequence = 0; sequence < decisions; sequence++) {
      const record = readRecord(plane.ring, sequence);
      if (record === null || record.identity < 0) continue;
      outcomes.add(record.outcome);
    }
    assert.equal(outcomes.has("running"), false, "every decision has its outcome");
    // the faults did what they were for
    assert.ok(outcomes.size >= 7, [...outcomes].join());
    assert.deepEqual(plane.logs, []);
    assert.deepEqual(strays, []);
  } finally {
    clearInterval(wakes);
    await plane.stop();
    await until(() => nodes.every((node) => node.openSockets() === 0), "the end of every connection");
    for (const node of nodes) await node.stop();
    process.off("unhandledRejection", onStray);
    process.off("uncaughtException", onStray);
    process.off("warning", onStray);
  }
});

test("bodies that go out piece by piece leave nothing on the connection that carries them all", async () => {
  const warnings: unknown[] = [];
  const onWarning = (warning: unknown): number => warnings.push(warning);
  process.on("warning", onWarning);
  const node = await startScriptedNode(healthy("n"));
  const plane = await startPlane([{ id: "n", url: node.url }]);
  try {
    for (let each = 0; each < 30; each++) {
      const response = await chat(plane.url, { x: "y".repeat(300_000 + each) });
      assert.equal(response.status, 200);
      await response.text();
      await plane.settled();
    }
    assert.equal(node.connections, 1);
    assert.deepEqual(warnings, []);
  } finally {
    await plane.stop();
    await node.stop();
    process.off("warning", onWarning);
  }
});
