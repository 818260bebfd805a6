import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { queryAvailability } from "../availability/query.ts";
import { PLACEMENTS_PER_NODE } from "../bounds.ts";
import { createDecision } from "../decision.ts";
import { buildFleet } from "../testing/fleet.ts";
import { F, weigherOf } from "./weigh.ts";

const node = fc.record({
  family: fc.constantFrom("A", "B", "C"),
  priceUsdPerHour: fc.oneof(fc.double({ min: 0.1, max: 20, noNaN: true }), fc.constant(Number.NaN)),
  stepMs: fc.double({ min: 1, max: 40, noNaN: true }),
  inFlight: fc.nat(60),
  heldMs: fc.constantFrom(0, 15, 25, 60, 200),
});
const policy = fc.record({
  costPriority: fc.constantFrom("cost" as const, "balanced" as const),
  tokenTargetMs: fc.constantFrom(25, 60, Number.NaN),
});

/** Neither meets its promises, and what they cost differs in the last digit alone. */
const NEARLY_ALIKE = [
  { family: "C", priceUsdPerHour: Number.NaN, stepMs: 39.097012863540705, inFlight: 1, heldMs: 60 },
  { family: "C", priceUsdPerHour: Number.NaN, stepMs: 39.999246597290046, inFlight: 1, heldMs: 15 },
];

test("a candidate that was passed over for the least it can cost would have cost more than what was found", () => {
  fc.assert(
    fc.property(
      fc.array(node, { minLength: 1, maxLength: 30 }),
      policy,
      fc.double({ max: 0.99, min: 0, noNaN: true }),
      fc.boolean(),
      (nodes, how, draw, isWarm) => {
        const fleet = buildFleet({
          nodes,
          policies: [{ name: "p", chain: [["A", "B", "C"]], estimator: "predictive", ...how }],
          models: [{ meanOutputTokens: 100, policy: "p" }],
        });
        const { table } = fleet;
        nodes.forEach(({ stepMs, inFlight, heldMs }, row) => {
          table.stepBaseMs[row * PLACEMENTS_PER_NODE] = stepMs;
          table.stepPerRequestMs[row * PLACEMENTS_PER_NODE] = stepMs / 100;
          table.total.inFlight[row] = inFlight;
          table.total.kvTokens[row] = inFlight * 600;
          table.tightestUs[row] = inFlight > 0 ? heldMs * 1000 : 0;
        });
        const request = fleet.request({ policy: "p", promptTokens: 500, isStream: true });
        request.expectedTokens = 100;
        const decision = createDecision();
        queryAvailability(
          table,
          request,
          { nowTick: 1, heads: [], draw, mayTryCooling: false, contextFloor: 0 },
          decision,
        );
        const weigher = weigherOf(table);
        const warm = isWarm
          ? { tokens: Float64Array.from(nodes, (_, row) => (row % 2) * 400), rows: Int32Array.of(1), count: 1 }
          : null;
        weigher.weigh(request, decision, () => 1, warm);
        const { candidates, evidence } = decision;
        const of = Array.from({ length: candidates.count }, (_, candidate) => {
          const index = candidates.index[candidate] as number;
          const usd = weigher.costOf(request, index, candidate);
          assert.ok((candidates.costUsd[candidate] as number) <= usd);
          const isKnown = (table.priceUsdPerHour[request.model.rows[index] as number] as number) >= 0;
          const position = request.policy.positionOfFamily[request.model.families[index] as number] as number;
          return { index, usd, isKnown, position, isFeasible: candidates.isFeasible[candidate] === 1 };
        });
        const least = Math.min(...of.map(({ usd }) => usd));
        assert.equal(of[weigher.found[F.cheapest] as number]?.usd, least);
        for (let position = 0; position < 3; position++) {
          const family = of.filter((one) => one.position === position);
          if (family.length === 0) continue;
          const feasible = family.filter(({ isFeasible }) => isFeasible);
          const best = family.find(({ index }) => index === evidence.best[position]);
          assert.ok(best !== undefined);
          assert.equal(best.usd, Math.min(...(feasible.length > 0 ? feasible : family).map(({ usd }) => usd)));
          assert.ok(Object.is(evidence.costUsd[position], best.isKnown ? best.usd : Number.NaN));
        }
      },
    ),
    { examples: [[NEARLY_ALIKE, { costPriority: "cost", tokenTargetMs: 60 }, 0, false]] },
  );
});
