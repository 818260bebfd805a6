import assert from "node:assert/strict";
import { test } from "node:test";
import { runFakeFleet } from "./fleet.ts";
import type { FakeNodeOptions } from "./node-options.ts";
import { spawnFakeFleet } from "./spawned-fleet.ts";

const NODES: readonly FakeNodeOptions[] = [
  { id: "a", engine: "vllm", hardware: "H100-SXM-80GB/llama-3-8b/bf16/1", model: "m", speedUp: 50 },
  {
    id: "s",
    engine: "sglang",
    hardware: "H100-SXM-80GB/llama-3-8b/bf16/1",
    model: "m",
    healthWaitMs: 5,
    dataParallelRanks: 2,
  },
  { id: "b", engine: "llamacpp", hardware: "L4-24GB/llama-3-8b/bf16/1", model: "m", speedUp: 50 },
];

test("a fleet in a child process answers, and loses and regains a node on command", async (t) => {
  const fleet = await spawnFakeFleet({ nodes: NODES });
  t.after(() => fleet.stop());
  assert.deepEqual(
    fleet.nodes.map(({ id, state }) => [id, state]),
    [
      ["a", "up"],
      ["s", "up"],
      ["b", "up"],
    ],
  );
  const url = fleet.nodes[0]?.url ?? "";
  assert.equal((await fetch(`${url}/health`)).status, 200);
  const loads = (await (await fetch(`${fleet.nodes[1]?.url}/v1/loads`)).json()) as { loads: unknown[] };
  assert.equal(loads.loads.length, 2);
  assert.equal((await fleet.command("a", { kind: "kill" })).state, "down");
  await assert.rejects(fetch(`${url}/health`));
  const back = await fleet.command("a", { kind: "start" });
  assert.deepEqual([back.state, back.url], ["up", url]);
  assert.equal((await fetch(`${url}/health`)).status, 200);
  await assert.rejects(fleet.command("c", { kind: "kill" }), /no node c: use one of a, s, b/);
});

test("a fleet that can't start says why and leaves no process", async () => {
  const nodes = [...NODES, { id: "c", engine: "tgi" as const, hardware: "H9000", model: "m" }];
  await assert.rejects(spawnFakeFleet({ nodes }), /unknown hardware key H9000/);
});

test("the control port sets and clears faults", async (t) => {
  const fleet = await runFakeFleet({ nodes: NODES, controlPort: 0 });
  t.after(() => fleet.stop());
  const command = (body: unknown) =>
    fetch(`${fleet.controlUrl}/nodes/a`, { method: "POST", body: JSON.stringify(body) });
  const chat = () =>
    fetch(`${fleet.node("a").url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }], max_tokens: 1 }),
    });
  assert.equal((await command({ kind: "status", code: 502 })).status, 200);
  assert.equal((await chat()).status, 502);
  assert.equal((await command({ kind: "clear" })).status, 200);
  assert.equal((await chat()).status, 200);
  assert.equal((await command({ kind: "explode" })).status, 400);
});
