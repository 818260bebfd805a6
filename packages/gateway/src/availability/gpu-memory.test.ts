import assert from "node:assert/strict";
import { test } from "node:test";
import { GpuMemory } from "./gpu-memory.ts";

test("the last number of a GPU exporter counts for 90 s, and it is asked every 10 s at most", async () => {
  let nowMs = 0;
  let asked = 0;
  const memory = new GpuMemory({ url: "http://exporter:9400/metrics", match: {}, metric: null });
  const body = 'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="a"} 2048\n';
  const sources = {
    fetch: async () => {
      asked += 1;
      return { status: asked === 1 ? 200 : 500, contentType: null, body };
    },
    nowMs: () => nowMs,
    after: () => () => {},
    allowsLinkLocal: false,
  };
  await memory.ask(sources);
  assert.equal(memory.freeGib(0), 2);
  nowMs = 9_999;
  await memory.ask(sources);
  assert.equal(asked, 1);
  nowMs = 10_000;
  await memory.ask(sources);
  assert.equal(asked, 2);
  assert.equal(memory.fault, "bad_status");
  assert.equal(memory.freeGib(90_000), 2);
  assert.ok(Number.isNaN(memory.freeGib(90_001)));
});
