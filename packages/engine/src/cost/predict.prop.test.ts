import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { DEFAULT_TIMING } from "../bounds.ts";
import { createFleetTable, type FleetTable, takeNodeRow, takePlacementRow } from "../fleet-table.ts";
import { type Ask, P, predictorOf } from "./predict.ts";

/** A request, of whose prompt the one node has so many tokens for certain. */
type TestAsk = Omit<Ask, "warmTokens" | "isNext"> & { cachedTokens: number };

/** Load of the one node. */
interface NodeLoad {
  depth: number;
  own: number;
  kvTokens: number;
  aheadTokens: number;
  plainTokens: number;
}

const COLD = { cachedTokens: 0, freshShare: 1 };

const COEFFICIENTS = Object.keys(DEFAULT_TIMING).slice(0, 8) as (keyof typeof DEFAULT_TIMING)[];
const load = fc.record({
  depth: fc.nat(300),
  own: fc.nat(300),
  kvTokens: fc.nat(1e6),
  aheadTokens: fc.nat(1e5),
  plainTokens: fc.nat(1e5),
});
const ask = fc.record({
  promptTokens: fc.integer({ min: 1e4, max: 1e5 }),
  cachedTokens: fc.constantFrom(0, 1, 1_000, 9_999),
  freshShare: fc.double({ min: 0, max: 1, noNaN: true }),
  outputTokens: fc.integer({ min: 1, max: 4_000 }),
  meanPromptTokens: fc.integer({ min: 1, max: 1e4 }),
});
const coefficients = fc.tuple(
  fc.double({ min: 0.1, max: 100, noNaN: true }),
  fc.double({ min: 0, max: 5, noNaN: true }),
  fc.double({ min: 0, max: 1e-2, noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: 0, max: 100, noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: 0, max: 1e-5, noNaN: true }),
);

function tableWith(values: readonly number[]): FleetTable {
  const table = createFleetTable({ nodes: 1, workers: 1 });
  takeNodeRow(table, 0, { family: 0, identity: 0, maxInFlight: 256, cooldownMs: 1, priceUsdPerHour: 1 });
  takePlacementRow(table, 0);
  COEFFICIENTS.forEach((name, index) => {
    table[name][0] = values[index] as number;
  });
  return table;
}

function predicted(table: FleetTable, on: NodeLoad, of: TestAsk, limit = Number.NaN): Record<keyof typeof P, number> {
  table.total.inFlight[0] = on.own;
  table.foreign[0] = Math.max(0, on.depth - on.own);
  table.total.kvTokens[0] = on.kvTokens;
  table.total.promptTokens[0] = on.aheadTokens;
  table.total.plainPromptTokens[0] = on.plainTokens;
  table.concurrencyLimit[0] = limit;
  const predictor = predictorOf(table);
  const model = { rows: Int32Array.of(0), placements: Int32Array.of(0) };
  table.cacheHits[0] = 1;
  const asked: Ask = { ...of, warmTokens: Float64Array.of(of.cachedTokens), isNext: false };
  predictor.predict(asked, model, { index: Int32Array.of(0), count: 1 }, () => 1);
  const cell = (name: keyof typeof P) => predictor.cells[P[name]] as number;
  return Object.fromEntries(Object.keys(P).map((name) => [name, cell(name as keyof typeof P)])) as Record<
    keyof typeof P,
    number
  >;
}

const LATENCIES = ["firstMs", "tokenMs", "residentMs"] as const;

test("nothing gets faster by more of our own streams, by prompts that wait, or by a longer prompt", () => {
  fc.assert(
    fc.property(coefficients, load, ask, fc.nat(5_000), (values, base, of, more) => {
      const on = { ...base, own: base.depth, plainTokens: 0 };
      const table = tableWith(values);
      const before = predicted(table, on, of);
      const heavier: [NodeLoad, TestAsk][] = [
        // another request of the model's usual size, as a booking adds it
        [
          {
            ...on,
            depth: on.depth + 1,
            own: on.own + 1,
            kvTokens: on.kvTokens + of.meanPromptTokens + of.outputTokens,
          },
          of,
        ],
        [{ ...on, aheadTokens: on.aheadTokens + more }, of],
        [{ ...on, kvTokens: on.kvTokens + more }, of],
      ];
      for (const [node, asked] of heavier) {
        const after = predicted(table, node, asked);
        for (const name of LATENCIES) {
          assert.ok(after[name] >= before[name] * (1 - 1e-9), `${name} fell from ${before[name]} to ${after[name]}`);
        }
      }
      const longer = predicted(table, on, { ...of, promptTokens: of.promptTokens + more });
      assert.ok(longer.firstMs >= before.firstMs * (1 - 1e-9));
      assert.ok(longer.prefillMs >= before.prefillMs);
      assert.ok(longer.kvTokens >= before.kvTokens);
    }),
  );
});

test("a prediction is a number above 0, and those who run there fare no better for the request", () => {
  fc.assert(
    fc.property(coefficients, load, ask, fc.constantFrom(Number.NaN, 1, 8, 256), (values, on, of, limit) => {
      const result = predicted(tableWith(values), on, of, limit);
      for (const name of [...LATENCIES, "nodeMs", "prefillMs"] as const) {
        assert.ok(result[name] >= 0 && result[name] < Number.POSITIVE_INFINITY, `${name} is ${result[name]}`);
      }
      assert.ok(result.residentMs >= result.beforeMs * (1 - 1e-9));
      assert.ok(result.residentMs >= result.tokenMs * (1 - 1e-9));
    }),
  );
});

test("an idle node takes one step and the prompt, worked out by hand", () => {
  // base 10, 0.1 per request, 1e-4 per cached token, 0.02 per prompt token beside, first 15, 0.05 per prompt token of its own and ahead
  const table = tableWith([10, 0.1, 1e-4, 0.02, 15, 0.05, 0.05, 0]);
  const idle = { depth: 0, own: 0, kvTokens: 0, aheadTokens: 0, plainTokens: 0 };
  const of = { promptTokens: 1_000, outputTokens: 100, meanPromptTokens: 1_000, ...COLD };
  const result = predicted(table, idle, of);
  const step = 10 + 0.1 + 1e-4 * (1_000 + 50);
  assert.ok(Math.abs(result.firstMs - (15 + 50)) < 1e-9);
  assert.ok(Math.abs(result.tokenMs - step) < 1e-9);
  assert.ok(Math.abs(result.nodeMs - (50 + 100 * step)) < 1e-9);
  // short prompts wait for the step that computes them
  assert.ok(Math.abs(predicted(table, idle, { ...of, promptTokens: 10 }).firstMs - (15 + 10.1 + 1e-4 * 60)) < 1e-9);
});

test("a burst is seen as it is booked: prompts that wait make first token and token time later at once", () => {
  const table = tableWith([10, 0.1, 1e-4, 0.02, 15, 0.05, 0.05, 0]);
  const of = { promptTokens: 1_000, outputTokens: 30, meanPromptTokens: 1_000, ...COLD };
  const at = (waiting: number) =>
    predicted(
      table,
      {
        depth: 5 + waiting,
        own: 5 + waiting,
        kvTokens: (5 + waiting) * 1_030,
        aheadTokens: waiting * 1_000,
        plainTokens: 0,
      },
      of,
    );
  assert.ok(at(10).firstMs > at(0).firstMs + 9 * 50);
  assert.ok(at(10).residentMs > at(0).residentMs + 2);
});

test("what stands in the prefix cache is not computed: an idle node takes the rest of the prompt, worked out by hand", () => {
  const table = tableWith([10, 0.1, 1e-4, 0.02, 15, 0.05, 0.05, 1e-5]);
  const idle = { depth: 0, own: 0, kvTokens: 0, aheadTokens: 0, plainTokens: 0 };
  const cold = { promptTokens: 1_000, outputTokens: 100, meanPromptTokens: 1_000, ...COLD };
  const warm = predicted(table, idle, { ...cold, cachedTokens: 600 });
  // 400 tokens, each of which looks at all before it: 1000² − 600²
  assert.ok(Math.abs(warm.firstMs - (15 + 0.05 * 400 + 1e-5 * 640_000)) < 1e-9);
  assert.ok(Math.abs(warm.prefillMs - (0.05 * 400 + 1e-5 * 640_000)) < 1e-9);
  // a step still reads all of it
  assert.equal(warm.tokenMs, predicted(table, idle, cold).tokenMs);
  assert.ok(warm.residentMs < predicted(table, idle, cold).residentMs);
});

test("beyond the requests that a node runs at once each waits for its turn", () => {
  const table = tableWith([10, 0, 0, 0, 0, 0.01, 0.01, 0]);
  const of = { promptTokens: 100, outputTokens: 100, meanPromptTokens: 100, ...COLD };
  const on = (depth: number) => ({ depth, own: depth, kvTokens: depth * 200, aheadTokens: 0, plainTokens: 0 });
  assert.ok(predicted(table, on(3), of, 4).firstMs < 50);
  assert.ok(Math.abs(predicted(table, on(4), of, 4).firstMs - (15 + 250)) < 1);
});
