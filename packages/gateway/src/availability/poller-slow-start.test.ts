import assert from "node:assert/strict";
import { test } from "node:test";
import { msOfTick } from "@zml/engine";
import { type PollClient, PollError } from "./poll-fetch.ts";
import { fleetOf, VirtualTime } from "./testing/virtual-time.ts";

const SLOW_START_MS = 16_000;

/** Two nodes; `isUp(row)` says whether a node answers just now. */
function pair(isUp: (row: number) => boolean) {
  const time = new VirtualTime();
  const client: PollClient = {
    fetch: async ({ origin }) => {
      if (!isUp(Number(/\d+$/.exec(origin)?.[0]))) throw new PollError("refused", "nobody listens");
      return { status: 200, contentType: null, body: "" };
    },
    close: async () => {},
  };
  const { table, poller } = fleetOf(time, { nodes: 2, client, random: () => 0.5 });
  table.slowStartMs.fill(SLOW_START_MS);
  const run = (untilMs: number) => time.run(untilMs, () => {});
  const warmUntilMs = (row: number) => msOfTick(table.warmUntil[row] ?? 0);
  return { time, table, poller, run, warmUntilMs };
}

test("nodes that answer in the gateway's first round are warm, one that answers later starts slowly", async () => {
  let isLateUp = false;
  const { time, poller, run, warmUntilMs } = pair((row) => row === 0 || isLateUp);
  const first = poller.firstRound(4_000);
  await run(6_000);
  await first;
  isLateUp = true;
  await run(20_000);
  assert.equal(warmUntilMs(0), 0);
  assert.ok(warmUntilMs(1) > 6_000 + SLOW_START_MS && warmUntilMs(1) <= time.nowMs + SLOW_START_MS);
  await poller.stop();
});

test("a node that polls took out starts slowly when it is back, once", async () => {
  let isDown = false;
  const { table, poller, run, warmUntilMs } = pair((row) => row === 0 || !isDown);
  const first = poller.firstRound(4_000);
  await run(6_000);
  await first;
  isDown = true;
  await run(30_000);
  assert.equal(table.isUnhealthy[1], 1);
  assert.equal(warmUntilMs(1), 0);
  isDown = false;
  await run(40_000);
  assert.equal(table.isUnhealthy[1], 0);
  const endMs = warmUntilMs(1);
  assert.ok(endMs > 30_000 + SLOW_START_MS && endMs <= 40_000 + SLOW_START_MS);
  await run(90_000);
  assert.equal(warmUntilMs(1), endMs, "good polls do not begin it again");
  assert.equal(warmUntilMs(0), 0);
  await poller.stop();
});
