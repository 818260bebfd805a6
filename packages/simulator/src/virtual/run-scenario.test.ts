import assert from "node:assert/strict";
import { it } from "node:test";
import { FLEETS, type FleetName } from "./fleet-plan.ts";
import { POLICY_NAMES } from "./policies.ts";
import { prepareScenario, runPolicy } from "./run-scenario.ts";
import { parseScenario, type Scenario } from "./scenario.ts";
import { WORKLOADS, type WorkloadName } from "./workload-presets.ts";

function scenarioOf(value: unknown): Scenario {
  const parsed = parseScenario(value);
  assert.ok("scenario" in parsed, JSON.stringify(parsed));
  return parsed.scenario;
}

for (const workload of Object.keys(WORKLOADS) as WorkloadName[]) {
  it(`${workload} runs on fleets of small and large models, and every request ends`, () => {
    // sessions begin rarely, and each brings 47 requests
    const duration = workload === "W5" ? 600 : 15;
    for (const fleet of ["F4", "F5"] satisfies FleetName[]) {
      const prepared = prepareScenario(
        scenarioOf({ fleet, workload: { preset: workload, load: 0.4, duration_s: duration } }),
        ".",
      );
      for (const policy of ["PFX", "zml-cost"] as const) {
        const report = runPolicy(prepared, policy);
        assert.equal(report.served + report.rejected + report.failed, report.requests);
        assert.equal(report.failed, 0);
        assert.ok(report.served > 0.9 * report.requests);
      }
    }
  });
}

it("every policy runs, and all meet the same requests", () => {
  const prepared = prepareScenario(scenarioOf({ workload: { load: 0.3, duration_s: 15 } }), ".");
  const counts = POLICY_NAMES.map((name) => runPolicy(prepared, name).requests);
  assert.deepEqual(new Set(counts).size, 1);
});

it("every fleet has a capacity, the mixed ones more than their fast part", () => {
  const capacity = (fleet: FleetName) =>
    prepareScenario(scenarioOf({ fleet, workload: { duration_s: 15 } }), ".").capacityRps;
  for (const fleet of Object.keys(FLEETS) as FleetName[])
    assert.ok(capacity(fleet) > 1, `${fleet}: ${capacity(fleet)}`);
  assert.ok(capacity("F4") > capacity("F3"));
});

it("tells stretches of a run that add up to its report, and shows an outage in the one that it is in", () => {
  const prepared = prepareScenario(
    scenarioOf({
      workload: { load: 0.2, duration_s: 60 },
      series_every_s: 20,
      failures: [{ kind: "down", families: ["MI300X"], from_s: 20, to_s: 40 }],
    }),
    ".",
  );
  const { series = [], nodes, ...report } = runPolicy(prepared, "RR");
  const sum = (of: (stretch: (typeof series)[number]) => number) => series.reduce((total, one) => total + of(one), 0);
  assert.deepEqual(
    series.map(({ from_s: from }) => from),
    [0, 20, 40],
  );
  assert.equal(
    sum(({ requests }) => requests),
    report.requests,
  );
  assert.equal(
    sum((one) => one.good_tokens),
    report.good_tokens,
  );
  assert.ok(Math.abs(sum((one) => one.busy_usd) - report.busy_usd) < 1e-9);
  const mi300x = nodes.findIndex(({ family }) => family === "MI300X");
  const [before = 0, during = 1, after = 0] = series.map((one) => one.node_requests[mi300x]);
  assert.ok(during < 5 && before > 20 && after > 5, `${before} ${during} ${after}`);
});
