import assert from "node:assert/strict";
import { it } from "node:test";
import { measureFleet } from "./measure-fleet.ts";

const isLinux = process.platform === "linux";

it("a gateway keeps the rows of nodes that answer fresh and healthy while others of every engine are silent", {
  timeout: 60_000,
  skip: isLinux ? false : "it reads /proc, which Linux has",
}, async () => {
  const pollIntervalMs = 500;
  const measured = await measureFleet({
    answering: 20,
    silent: 6,
    pollIntervalMs,
    rounds: 2,
    // two polls of a silent node: it takes so long until it is out
    warmUpMs: 2_000,
    say: () => {},
  });
  assert.equal(measured.healthyShare, 1);
  assert.equal(measured.silentHealthy, 0);
  // the machine of a test may be held for a moment, which the median does not feel
  assert.ok(measured.ageP50Ms > 0 && measured.ageP50Ms < pollIntervalMs, `${measured.ageP50Ms} ms`);
  assert.ok(measured.parsedBytesPerSecond > 100_000, `${measured.parsedBytesPerSecond} bytes/s`);
  assert.ok(measured.pollCpuShare > 0 && measured.pollCpuShare < 1, `${measured.pollCpuShare}`);
  assert.ok(measured.connectionsPerSecond < 20 / (0.88 * (pollIntervalMs / 1000)), "a round takes one connection");
});
