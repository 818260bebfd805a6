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
