import assert from "node:assert/strict";
import { before, it } from "node:test";
import { measureClients, pythonOf } from "./measure-clients.ts";

/** The goals of goals.json with room for what else runs on a machine of tests; measured ratios are far below both. */
const EVENT_RATIO_MAX = 0.75;
const CALL_RATIO_MAX = 1.2;

// on a fresh clone packages are installed, beside what other tests install
before(() => pythonOf(() => {}), { timeout: 240_000 });

it("our clients add no more to a call than openai's, and far less to an event", { timeout: 110_000 }, async () => {
  const plan = {
    pythonRounds: 8,
    nodeRounds: 24,
    pacedRounds: 0,
    calls: 20,
    events: 500,
    imports: 0,
    deadlineMs: 45_000,
  };
  const { costs } = await measureClients(plan, () => {});
  for (const [runtime, { call, event }] of Object.entries(costs)) {
    const told = JSON.stringify({ runtime, call, event });
    assert.ok(event.openai.overheadUs > 0 && call.openai.overheadUs > 0, told);
    assert.ok(event.zml.overheadUs <= EVENT_RATIO_MAX * event.openai.overheadUs, told);
    assert.ok(call.zml.overheadUs <= CALL_RATIO_MAX * call.openai.overheadUs, told);
  }
});
