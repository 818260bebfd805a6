import assert from "node:assert/strict";
import { it } from "node:test";
import { errorsOf, type FidelityRow, type FidelityTimes, measureFidelity, orderOf } from "./against-fakes.ts";

const timesOf = (ms: number): FidelityTimes => ({
  attainment: 1,
  ttft_p50_ms: ms,
  ttft_p95_ms: ms,
  response_p50_ms: ms,
  response_p95_ms: ms,
  response_mean_ms: ms,
});
const row = (policy: FidelityRow["policy"], real: number, simulated: number): FidelityRow => ({
  policy,
  sockets: timesOf(real),
  simulated: timesOf(simulated),
});

it("errors are shares of what was measured, and ties are no order", () => {
  const rows = [row("RR", 100, 110), row("LR", 80, 115), row("WLR", 101, 50)];
  const errors = errorsOf(rows);
  assert.equal(errors.length, 15);
  assert.ok(Math.abs((errors[0] as number) - 0.1) < 1e-12);
  // RR and WLR are equal on sockets; LR is the fastest there and the slowest in the simulator
  assert.deepEqual(orderOf(rows), { pairs: 2, kept: 0 });
  assert.deepEqual(orderOf([row("RR", 100, 90), row("LR", 80, 70)]), { pairs: 1, kept: 1 });
});

it("the same requests run on sockets and in the simulator, and all of them are answered", async () => {
  const told: string[] = [];
  const rows = await measureFidelity({
    policies: ["RR", "zml-cost"],
    rps: 4,
    durationS: 12,
    dilation: 0.25,
    onProgress: (text) => told.push(text),
  });
  assert.match(told[0] ?? "", /^RR: \d+ requests over 3 s/);
  for (const { sockets, simulated } of rows) {
    for (const times of [sockets, simulated]) {
      // NaN of an answer that never came would be in the means
      assert.ok(times.ttft_p50_ms > 0 && times.response_mean_ms > times.ttft_p50_ms, JSON.stringify(times));
      assert.ok(times.response_p95_ms >= times.response_p50_ms);
    }
  }
});
