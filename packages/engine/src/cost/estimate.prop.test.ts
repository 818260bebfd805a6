import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createDecision, reserveCandidates } from "../decision.ts";
import { depthOf } from "../load.ts";
import { ENDPOINTS } from "../reasons.ts";
import { buildFleet } from "../testing/fleet.ts";
import { simpleEstimator } from "./estimate.ts";

const nodeArbitrary = fc.record({
  family: fc.constant("A"),
  foreign: fc.constantFrom(0, 0.5, 3, Number.NaN),
  inFlight: fc.nat(4),
  tokensPerSecond: fc.double({ min: 0.1, max: 1e5, noNaN: true }),
  streamTokensPerSecond: fc.oneof(fc.constant(40), fc.double({ min: 0.1, max: 1e3, noNaN: true })),
});

test("the least estimate of many is bit by bit that of asking one by one, and all that share it stay in order", () => {
  fc.assert(
    fc.property(
      fc.array(nodeArbitrary, { minLength: 1, maxLength: 12 }),
      fc.constantFrom(...ENDPOINTS),
      fc.double({ min: 1, max: 1e4, noNaN: true }),
      (nodes, endpoint, promptTokens) => {
        // every node twice, so that ties happen
        const fleet = buildFleet({ nodes: [...nodes, ...nodes] });
        const { table } = fleet;
        const request = fleet.request({ endpoint, promptTokens, maxTokens: promptTokens });
        const { candidates } = createDecision();
        const { rows, placements } = request.model;
        reserveCandidates(candidates, rows.length);
        candidates.count = rows.length;
        const depths = Array.from(rows, (row) => depthOf(table, row));
        const estimates = depths.map((depth, index) => {
          const placement = placements[index] ?? -1;
          candidates.index[index] = index;
          candidates.rank[index] = (depth + 1) / (table.tokensPerSecond[placement] ?? 0);
          return simpleEstimator.responseMs(table, request, placement, depth);
        });
        const ranks = [...candidates.rank];
        simpleEstimator.keepLeast(table, request, candidates);
        const least = Math.min(...estimates);
        const expected = estimates.flatMap((estimate, index) => (estimate === least ? [index] : []));
        assert.deepEqual([...candidates.index.slice(0, candidates.count)], expected);
        assert.deepEqual(
          [...candidates.rank.slice(0, candidates.count)],
          expected.map((index) => ranks[index]),
        );
      },
    ),
  );
});
