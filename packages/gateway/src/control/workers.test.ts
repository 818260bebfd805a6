import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { createEvidenceRing, createFleetTable, createLimitsTable } from "@zml/engine";
import type { WorkerUpdate } from "../thread-messages.ts";
import { SILENT_LOG } from "./gateway-log.ts";
import { LimitRows } from "./limit-rows.ts";
import { Workers } from "./workers.ts";

test("a worker is handed one slice of a version in a turn of its loop, however many there are, and all in order", async (t) => {
  const handed: string[] = [];
  const workers = new Workers({
    table: createFleetTable({ nodes: 4, workers: 1 }),
    rings: [createEvidenceRing(16)],
    limitRows: new LimitRows(createLimitsTable({ rows: 1, workers: 1 })),
    prefixes: null,
    clockOriginMs: 0,
    seed: 1,
    ids: { unixOriginMs: 0, tail: 1 },
    url: new URL("./testing/counting-worker.ts", import.meta.url),
    log: {
      ...SILENT_LOG,
      info: (fields) => handed.push((fields as { handed: string }).handed),
    },
    fullUpdates: () => [1, 2, 3].map(update),
    onSamples: () => undefined,
  });
  t.after(() => workers.terminate());
  await workers.start();
  workers.broadcast(Array.from({ length: 20 }, (_, index) => update(4 + index)));
  assert.equal(await workers.waitForVersion(23, 20_000), true);
  assert.deepEqual(
    handed,
    Array.from({ length: 23 }, (_, index) => String(1 + index)),
  );
});

test("a worker that ends waits for no update", async (t) => {
  const workers = new Workers({
    table: createFleetTable({ nodes: 4, workers: 1 }),
    rings: [createEvidenceRing(16)],
    limitRows: new LimitRows(createLimitsTable({ rows: 1, workers: 1 })),
    prefixes: null,
    clockOriginMs: 0,
    seed: 1,
    ids: { unixOriginMs: 0, tail: 1 },
    url: new URL("./testing/counting-worker.ts", import.meta.url),
    log: SILENT_LOG,
    fullUpdates: () => [update(1)],
    onSamples: () => undefined,
  });
  t.after(() => workers.terminate());
  await workers.start();
  workers.broadcast(Array.from({ length: 1000 }, (_, index) => update(2 + index)));
  assert.deepEqual(await workers.drain(10_000, false), { interrupted: 0, isClean: true });
});

test("what a worker's requests held of their callers' limits is given back when it dies", async (t) => {
  const limits = createLimitsTable({ rows: 1, workers: 1 });
  const limitRows = new LimitRows(limits);
  const account = { name: "default", displayName: "default", defaultPolicy: null };
  const none = { requestsPerMinute: null, tokensPerMinute: null, budgetUsdPerDay: null, budgetUsdPerMonth: null };
  limitRows.assign({ accounts: [{ ...account, limits: { ...none, concurrentRequests: 5 } }], keys: [] });
  const workers = new Workers({
    prefixes: null,
    table: createFleetTable({ nodes: 4, workers: 1 }),
    rings: [createEvidenceRing(16)],
    ids: { unixOriginMs: 0, tail: 1 },
    limitRows,
    clockOriginMs: 0,
    seed: 1,
    url: new URL("../../test/dying-worker.ts", import.meta.url),
    log: SILENT_LOG,
    fullUpdates: () => [update(1)],
    onSamples: () => undefined,
  });
  t.after(() => workers.terminate());
  await workers.start();
  const port = await workers.listen({ host: "127.0.0.1", port: 0 });
  const running = (): number => Atomics.load(limits.running, 0);
  const say = async (word: string) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    socket.end(word);
    socket.resume();
    await once(socket, "close");
  };
  await say("book");
  await say("book");
  assert.equal(running(), 2);
  await say("die");
  const deadlineMs = performance.now() + 10_000;
  while (running() !== 0 && performance.now() < deadlineMs) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(running(), 0);
});

function update(version: number): WorkerUpdate {
  return { kind: "update", version };
}
