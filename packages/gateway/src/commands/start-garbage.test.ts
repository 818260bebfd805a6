import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

/** Runs in a thread of its own, whose heap no other test has touched; tells its room for new objects, bytes. */
const START = `
const { parentPort } = require("node:worker_threads");
const { getHeapSpaceStatistics } = require("node:v8");
const room = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space").physical_space_size;
(async () => {
  const { collectStartGarbage } = await import(${JSON.stringify(new URL("./start-garbage.ts", import.meta.url))});
  const kept = [];
  const keep = (count) => { for (let at = 0; at < count; at++) kept.push({ at, text: [at] }); };
  keep(COUNT);
  const before = room();
  const isCollected = collectStartGarbage();
  parentPort.postMessage({ before, isCollected, after: room(), kept: kept.length, hasGc: "gc" in globalThis });
})();
`;

async function start(count: number): Promise<Record<string, number | boolean>> {
  const worker = new Worker(START.replace("COUNT", String(count)), { eval: true });
  const [told] = await once(worker, "message", { signal: AbortSignal.timeout(20_000) });
  await worker.terminate();
  return told;
}

test("a heap that holds much is left alone", async () => {
  const { isCollected, before, after } = await start(1_500_000);
  assert.equal(isCollected, false);
  assert.equal(after, before);
});

test("the room for new objects that a start took is given back, and what it made is kept", async () => {
  const { isCollected, before, after, kept, hasGc } = await start(200_000);
  assert.equal(isCollected, true);
  assert.ok(Number(before) > 4e6, `${before} bytes before: nothing to give back`);
  assert.ok(Number(after) < 2e6, `${after} of ${before} bytes are left`);
  assert.equal(kept, 200_000);
  assert.equal(hasGc, false);
});
