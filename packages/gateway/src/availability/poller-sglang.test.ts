import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { describe, it, type TestContext } from "node:test";
import { createFleetTable, takeNodeRow } from "@zml/engine";
import { type FakeNodeOptions, startFakeNode } from "@zml/simulator";
import type { NodeReading } from "./adapters/index.ts";
import { Poller } from "./poller.ts";

const FAKE = { engine: "sglang", hardware: "H100-SXM-80GB/llama-3-8b/bf16/1", model: "m", speedUp: 50 } as const;

/** A poller on one fake SGLang; `until` waits for an event. */
async function start(t: TestContext, options: Partial<FakeNodeOptions>, engine: "sglang" | null = null) {
  const node = await startFakeNode({ ...FAKE, ...options });
  t.after(() => node.stop());
  const table = createFleetTable({ nodes: 1, workers: 1 });
  takeNodeRow(table, 0, { family: 0, identity: 1, maxInFlight: 256, cooldownMs: 30_000, priceUsdPerHour: 1 });
  const events: string[] = [];
  const waiting = new Set<() => void>();
  let reading: NodeReading | null = null;
  const tell = (event: string) => {
    events.push(event);
    for (const wake of waiting) wake();
  };
  const poller = new Poller({
    table,
    clock: { nowMs: () => performance.now() },
    onEngine: (_, engine) => tell(engine),
    onReading: (_, told) => {
      reading = told;
      tell("reading");
    },
    onDown: (_, cause) => tell(`down ${cause}`),
    onUp: () => tell("up"),
  });
  t.after(() => poller.stop());
  poller.addNode({
    row: 0,
    id: "n",
    url: node.url,
    engine,
    apiKey: null,
    healthPath: null,
    health: { pollIntervalMs: 100, timeoutMs: 5_000, unhealthyAfter: 2, healthyAfter: 1 },
    maxInFlight: null,
    placements: [],
  });
  const until = async (event: string) => {
    while (!events.includes(event)) {
      await new Promise<void>((resolve) => {
        const wake = () => {
          waiting.delete(wake);
          resolve();
        };
        waiting.add(wake);
      });
    }
  };
  return { node, table, until, read: () => reading };
}

describe("the poller on an SGLang", { timeout: 60_000 }, () => {
  it("keeps it out while it starts, although its load is told", async (t) => {
    // for as long as the test likes, however slow the machine is
    const { node, until, table } = await start(t, { loadMs: 3_600_000, healthWaitMs: 5 });
    await until("sglang");
    await until("down not_ready");
    assert.equal(table.isUnhealthy[0], 1);
    await node.stop();
    const ready = await startFakeNode({ ...FAKE, port: Number(new URL(node.url).port) });
    t.after(() => ready.stop());
    await until("up");
    assert.equal(table.isUnhealthy[0], 0);
  });

  it("takes it out when it leaves, although it still takes requests", async (t) => {
    const { until, node } = await start(t, { speedUp: 1, healthWaitMs: 5 });
    await until("reading");
    const abort = new AbortController();
    t.after(() => abort.abort());
    const open = await fetch(`${node.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ stream: true, max_tokens: 4000, messages: [{ role: "user", content: "hello" }] }),
      signal: abort.signal,
    });
    assert.equal(open.status, 200);
    node.terminate();
    await until("down not_ready");
    assert.equal(node.state, "stopping");
  });

  it("knows its load and limits without its metrics, and never waits for the token of its health page", async (t) => {
    const options = { healthWaitMs: 60_000, dataParallelRanks: 2, maxSequences: 64 };
    const { until, table, read } = await start(t, options, "sglang");
    await until("reading");
    assert.deepEqual([table.running[0], table.waiting[0], table.concurrencyLimit[0]], [0, 0, 64]);
    assert.equal(read()?.platform, "cuda");
  });
});
