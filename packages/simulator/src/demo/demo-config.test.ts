import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../../gateway/src/config/read-config.ts";
import { configText } from "./demo-config.ts";

const node = {
  id: "a",
  url: "http://127.0.0.1:1",
  family: "H100",
  engine: "vllm",
  gpus: 8,
  usdPerGpuHour: 2.99,
} as const;
const text = configText({
  model: "llama-3-8b",
  nodes: [
    node,
    { ...node, id: "b", url: "http://127.0.0.1:2", family: "MI300X", engine: "tgi" },
    { ...node, id: "c", url: "http://127.0.0.1:3", family: "A100" },
  ],
  policies: [
    { name: "batch", costPriority: "cost", targetMs: 30_000, tiers: [["H100", "MI300X"], ["A100"]], share: 0.5 },
    { name: "interactive", costPriority: "latency", targetMs: 5000, tiers: [["H100"]], share: 0.5 },
  ],
  cooldownMs: 900,
});

test("the gateway reads from the file what the demo meant", () => {
  const { config, errors, warnings } = readConfig(text, { fileName: "zml.yaml", env: {} });
  assert.deepEqual([errors, warnings], [[], []]);
  assert.ok(config !== undefined);
  const [first, second] = config.nodes;
  assert.equal(first?.gpus, 8);
  assert.equal(first?.usdPerGpuHour, 2.99);
  assert.deepEqual(
    first?.models?.map(({ name }) => name),
    ["llama-3-8b"],
  );
  assert.equal(second?.engine, "tgi");
  assert.equal(second?.failover.cooldownMs, 900);
  assert.equal(second?.health.pollIntervalMs, 500);
  const [batch] = config.policies;
  assert.deepEqual(batch?.acceleratorPreference, [
    { family: "H100", priority: 1 },
    { family: "MI300X", priority: 1 },
    { family: "A100", priority: 2 },
  ]);
  assert.equal(batch?.latencyTargetMs, 30_000);
  assert.equal(batch?.costPriority, "cost");
  assert.equal(config.models[0]?.policy, "batch");
  assert.deepEqual([config.data.listen.port, config.admin.listen.port], [0, 0]);
});
