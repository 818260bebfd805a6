import assert from "node:assert/strict";
import { it } from "node:test";
import { measureFleet } from "./measure-fleet.ts";

const LIMITS = { timeout: 90_000, skip: process.platform === "linux" ? false : "it reads /proc, which Linux has" };

it("a gateway keeps nodes of every engine healthy and fresh while others are silent", LIMITS, async () => {
  const pollIntervalMs = 500;
  const measured = await measureFleet({
    answering: 20,
    silent: 6,
    pollIntervalMs,
    // a machine of tests may be held for a second
    timeoutMs: 3_000,
    rounds: 2,
    warmUpMs: 1_000,
    say: () => {},
  });
  assert.equal(measured.healthyShare, 1);
  assert.equal(measured.silentHealthy, 0);
  assert.ok(measured.ageP50Ms > 0 && measured.ageP50Ms < 3 * pollIntervalMs, `${measured.ageP50Ms} ms`);
  assert.ok(measured.parsedBytesPerSecond > 50_000, `${measured.parsedBytesPerSecond} bytes/s`);
  assert.ok(measured.pollCpuShare < 1, `${measured.pollCpuShare}`);
});
