import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createFleetTable, OUTCOMES, type Outcome } from "@zml/engine";
import type { MoneyGroup, MoneyWindow } from "@zml/protocol/admin";
import { compileDirectory } from "../control/compile-directory.ts";
import { createNameRegistry } from "../control/name-registry.ts";
import { SAMPLE_FIELDS } from "../thread-messages.ts";
import type { MetricFamily } from "./metric-family.ts";
import { Money } from "./money.ts";

type Sample = Partial<Record<(typeof SAMPLE_FIELDS)[number], number>> & { readonly as?: Outcome };

/** Two nodes of H100 at $4 and 100 tokens/s each, one of MI300X at $3 and 200; account `acme` prefers H100. */
function fixture({ rowsMax = 1_000, seriesMax = 1_000 } = {}) {
  const names = createNameRegistry();
  const table = createFleetTable({ nodes: 8, workers: 1 });
  const nodes = [
    { row: 0, family: "H100", placement: 0 },
    { row: 1, family: "H100", placement: 1 },
    { row: 2, family: "MI300X", placement: 2 },
  ];
  for (const { row, placement, family } of nodes) {
    table.priceUsdPerHour[row] = family === "H100" ? 4 : 3;
    const speed = family === "H100" ? 100 : 200;
    table.tokensPerSecond[placement] = speed;
    table.measuredTokensPerSecond[placement] = speed;
  }
  const policy = (account: string, families: readonly string[]) => ({
    account,
    name: "p",
    acceleratorPreference: families.map((family, at) => ({ family, priority: 9 - at })),
    ...{ latencyTargetMs: null, ttftTargetMs: null, tokenTargetMs: null, costPriority: "cost", estimator: "simple" },
    ...{ queueOnSaturation: false, maxQueueMs: 1, acceptableWaiting: 4 },
  });
  const config = {
    accounts: ["acme", "bolt"].map((name) => ({ name, defaultPolicy: null, displayName: null, limits: null })),
    // the larger number is the later choice
    policies: [policy("acme", ["MI300X", "H100"]), policy("bolt", ["H100", "MI300X"])],
    models: [
      { account: "acme", name: "m", policy: "p" },
      { account: "bolt", name: "m", policy: "p" },
    ],
    nodes: [],
  } as unknown as Parameters<typeof compileDirectory>[0];
  const placed = nodes.map(({ row, family, placement }) => ({
    ...{ row, family, accounts: ["acme", "bolt"], areModelsKnown: true },
    models: [{ name: "m", placement, adapterOf: null }],
  }));
  const directory = compileDirectory(config, placed, names);
  let nowMs = 0;
  const money = new Money({
    ...{ table, names, directory: () => directory },
    ...{ moneyRowsMax: () => rowsMax, seriesMax: () => seriesMax, nowMs: () => nowMs },
  });
  const of = {
    acme: { policy: names.policies.find("acme", "p"), model: names.models.find("acme", "m") },
    bolt: { policy: names.policies.find("bolt", "p"), model: names.models.find("bolt", "m") },
  };
  const take = (...samples: readonly Sample[]) => {
    const flat = samples.flatMap(({ as = "success", ...values }) => {
      const whole: Sample = {
        ...of.acme,
        ...{
          family: names.families.find("", "MI300X"),
          promptTokens: 10,
          outputTokens: 100,
          usd: 0.5,
          workedTokens: 100,
        },
        "timing.bookedPromptTokens": 7,
        ...values,
        outcome: OUTCOMES.indexOf(as),
      };
      return SAMPLE_FIELDS.map((name) => whole[name] ?? 0);
    });
    money.takeAttempts(Float64Array.from(flat));
  };
  const ask = (by: MoneyGroup, window: MoneyWindow = "start", account: string | null = null, limit = 100) =>
    money.report({ by, window, account, limit }, 11);
  const pass = (ms: number) => {
    for (const end = nowMs + ms; nowMs < end; ) {
      nowMs += 5_000;
      money.noteStep();
    }
  };
  return { table, names, money, of, take, ask, pass };
}

/** USD of 100 tokens on the two H100 nodes: $8 an hour for 200 tokens/s. */
const BASELINE = (100 * 8) / 200 / 3600;
const near = (value: number | null | undefined, expected: number) =>
  assert.ok(Math.abs((value ?? Number.NaN) - expected) <= 1e-8 * Math.abs(expected), `${value}, not ${expected}`);

describe("what is counted", () => {
  test("answers cost what their nodes cost, per hour of the window and per million tokens of either kind", () => {
    const { take, ask, pass } = fixture();
    pass(1_800_000);
    take({}, {});
    const { total, rows, seconds, fleet_usd_per_hour } = ask("model");
    assert.equal(seconds, 1800);
    assert.equal(fleet_usd_per_hour, 11);
    assert.deepEqual([total.usd, total.usd_per_hour, total.answers], [1, 2, 2]);
    assert.deepEqual([total.input_tokens, total.output_tokens], [20, 200]);
    near(total.usd_per_million_input_tokens, 50_000);
    near(total.usd_per_million_output_tokens, 5_000);
    near(total.usd_per_million_tokens, 1e6 / 220);
    assert.deepEqual(
      rows.map(({ account, name }) => [account, name]),
      [["acme", "m"]],
    );
  });

  test("attempts that failed or were left cost as well, and are told apart; their tokens are nobody's", () => {
    const { take, ask } = fixture();
    take({}, { as: "interrupted", usd: 0.25 }, { as: "cancelled", usd: 0.125 }, { as: "failure", usd: 0 });
    const { total } = ask("account");
    assert.deepEqual([total.usd, total.failed_usd, total.cancelled_usd, total.answers], [0.875, 0.25, 0.125, 1]);
    assert.deepEqual([total.input_tokens, total.output_tokens], [10, 100]);
  });

  test("an answer without a price is counted as such, and is in no dollars and no tokens", () => {
    const { take, ask } = fixture();
    take({ usd: Number.NaN }, { usd: Number.POSITIVE_INFINITY }, { as: "failure", usd: Number.NaN });
    const { total } = ask("account");
    assert.deepEqual([total.usd, total.answers, total.unpriced_answers, total.output_tokens], [0, 2, 2, 0]);
    assert.equal(total.usd_per_million_tokens, null);
  });

  test("a prompt that the engine does not report, or reports absurdly, is the one that was estimated", () => {
    const { take, ask } = fixture();
    take({ promptTokens: Number.NaN }, { promptTokens: 1e300 }, { promptTokens: -1 });
    assert.equal(ask("account").total.input_tokens, 21);
  });

  test("embeddings have a prompt and no output", () => {
    const { take, ask } = fixture();
    take({ "timing.isPromptOnly": 1, workedTokens: 10 });
    const { total } = ask("account");
    assert.deepEqual([total.input_tokens, total.output_tokens], [10, 0]);
    assert.equal(total.usd_per_million_output_tokens, null);
  });
});

describe("the baseline", () => {
  test("is the price of the first family over its tokens/s, whatever the order in which it was written", () => {
    const { take, ask } = fixture();
    take({});
    const { total } = ask("account");
    near(total.baseline_usd, BASELINE);
    near(total.savings_usd, BASELINE - 0.5);
    near(total.savings_share, (BASELINE - 0.5) / BASELINE);
    assert.equal(total.baseline_assumed_usd, 0);
  });

  test("is that of the policy of each request", () => {
    const { take, ask, of } = fixture();
    take({}, of.bolt);
    const { rows } = ask("account");
    near(rows.find(({ name }) => name === "bolt")?.baseline_usd, (100 * 3) / 200 / 3600);
    near(rows.find(({ name }) => name === "acme")?.baseline_usd, BASELINE);
  });

  test("has no attempt that failed: those are dollars of the real way only", () => {
    const { take, ask } = fixture();
    take({ as: "failure", usd: 0.25 });
    const { total } = ask("account");
    assert.deepEqual([total.compared_usd, total.baseline_usd, total.savings_usd], [0.25, 0, -0.25]);
    assert.equal(total.savings_share, null);
  });

  test("leaves out nodes of unknown price; without any there is none, and nothing is compared", () => {
    const { table, take, ask, pass } = fixture();
    table.priceUsdPerHour[0] = Number.NaN;
    take({});
    near(ask("account").total.baseline_usd, (100 * 4) / 100 / 3600);
    table.priceUsdPerHour[1] = Number.NaN;
    pass(5_000);
    take({});
    const { total } = ask("account");
    assert.deepEqual([total.usd, total.compared_usd], [1, 0.5]);
  });

  test("that stands on an assumed speed says so, and measured nodes stand in for the others", () => {
    const { table, take, ask, pass } = fixture();
    table.measuredTokensPerSecond[0] = Number.NaN;
    table.tokensPerSecond[0] = 1;
    take({});
    near(ask("account").total.baseline_usd, (100 * 4) / 100 / 3600);
    assert.equal(ask("account").total.baseline_assumed_usd, 0);
    table.measuredTokensPerSecond[1] = Number.NaN;
    pass(5_000);
    take({});
    near(ask("account").total.baseline_assumed_usd, (100 * 8) / 101 / 3600);
  });

  test("follows the price of its time", () => {
    const { table, take, ask, pass } = fixture();
    take({});
    table.priceUsdPerHour[0] = 8;
    table.priceUsdPerHour[1] = 8;
    pass(5_000);
    take({});
    near(ask("account").total.baseline_usd, 3 * BASELINE);
  });

  test("of a policy or model that is gone is unknown", () => {
    const { names, take, ask } = fixture();
    take({ policy: names.policies.register("acme", "gone") }, { model: names.models.register("acme", "gone") });
    assert.equal(ask("account").total.compared_usd, 0);
  });
});

describe("windows", () => {
  test("hold their time and at most a step more", () => {
    const { take, ask, pass } = fixture();
    take({});
    pass(75_000);
    take({}, {});
    assert.equal(ask("account", "minute").total.answers, 2);
    assert.equal(ask("account", "hour").total.answers, 3);
    pass(30_000);
    assert.equal(ask("account", "minute").total.answers, 2);
    const { seconds } = ask("account", "minute");
    assert.ok(seconds >= 60 && seconds <= 70, String(seconds));
    pass(60_000);
    const late = ask("account", "minute");
    assert.deepEqual([late.total.usd, late.rows, late.other], [0, [], null]);
    pass(3 * 3_600_000);
    assert.equal(ask("account", "hour").total.answers, 0);
    assert.equal(ask("account", "day").total.answers, 3);
    pass(26 * 3_600_000);
    assert.equal(ask("account", "day").total.answers, 0);
    assert.equal(ask("account", "start").total.answers, 3);
  });

  test("of a young process say since when they are", () => {
    const { take, ask, pass } = fixture();
    pass(10_000);
    take({});
    const { seconds, total } = ask("account", "day");
    assert.deepEqual([seconds, total.usd_per_hour], [10, 180]);
  });
});

describe("rows", () => {
  test("are by account, model, family or policy, the dearest first, and the rest is one", () => {
    const { names, take, ask, of } = fixture();
    const h100 = names.families.find("", "H100");
    take({}, { ...of.bolt, usd: 2 }, { ...of.bolt, usd: 1, family: h100 });
    const rowsOf = (by: MoneyGroup) => ask(by).rows.map(({ account, name, usd }) => [account, name, usd]);
    assert.deepEqual(rowsOf("account"), [
      ["bolt", "bolt", 3],
      ["acme", "acme", 0.5],
    ]);
    assert.deepEqual(rowsOf("model"), [
      ["bolt", "m", 3],
      ["acme", "m", 0.5],
    ]);
    assert.deepEqual(rowsOf("policy"), [
      ["bolt", "p", 3],
      ["acme", "p", 0.5],
    ]);
    assert.deepEqual(rowsOf("family"), [
      [null, "MI300X", 2.5],
      [null, "H100", 1],
    ]);
    const { rows, other, other_rows } = ask("account", "start", null, 1);
    assert.deepEqual([rows.length, other?.usd, other_rows], [1, 0.5, 1]);
  });

  test("of one account tell nothing of the others", () => {
    const { take, ask, of } = fixture();
    take({}, { ...of.bolt, usd: 2 });
    for (const by of ["account", "model", "family", "policy"] as const) {
      const { rows, total, other } = ask(by, "start", "acme");
      assert.deepEqual([rows.map(({ usd }) => usd), total.usd, other], [[0.5], 0.5, null], by);
    }
  });

  test("beyond the bound are one sum, and no dollar is lost", () => {
    const { names, take, ask, money } = fixture({ rowsMax: 100 });
    for (let index = 0; index < 5_000; index++) {
      take({
        model: names.models.register(`a${index}`, "m"),
        policy: names.policies.register(`a${index}`, "p"),
        usd: 1,
      });
    }
    const { rows, total, other } = ask("account", "start", null, 1_000);
    assert.deepEqual([rows.length, total.usd, other?.usd], [100, 5_000, 4_900]);
    assert.equal(money.totals().costUsd, 5_000);
    assert.equal(ask("account", "start", "a4000").total.usd, 0);
  });
});

describe("metrics", () => {
  const sumOf = (families: readonly MetricFamily[], name: string, labels: Record<string, string> = {}) =>
    (families.find((one) => one.name === name)?.values ?? [])
      .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0);

  test("are counters of dollars by what became of them, with what they are compared to", () => {
    const { take, money } = fixture();
    take({}, { as: "interrupted", usd: 0.25 }, { as: "cancelled", usd: 0.125, workedTokens: 0 });
    const families = money.families();
    const who = { account: "acme", policy: "p", family: "MI300X", gen_ai_request_model: "m" };
    assert.equal(sumOf(families, "zml_cost_usd_total", { ...who, outcome: "delivered" }), 0.5);
    assert.equal(sumOf(families, "zml_cost_usd_total", { ...who, outcome: "failed" }), 0.25);
    assert.equal(sumOf(families, "zml_cost_usd_total", { ...who, outcome: "cancelled" }), 0.125);
    assert.equal(sumOf(families, "zml_cost_compared_usd_total", who), 0.875);
    near(sumOf(families, "zml_cost_baseline_usd_total", who), BASELINE);
    assert.equal(sumOf(families, "zml_cost_tokens_total", { ...who, gen_ai_token_type: "output" }), 100);
  });

  test("of ten thousand accounts are as many series as are asked for, and one more", () => {
    const { names, take, money } = fixture({ rowsMax: 20_000, seriesMax: 50 });
    for (let index = 0; index < 10_000; index++) take({ model: names.models.register(`a${index}`, "m"), usd: 1 });
    const families = money.families();
    assert.equal(sumOf(families, "zml_cost_usd_total"), 10_000);
    assert.equal(sumOf(families, "zml_cost_usd_total", { account: "other" }), 9_950);
    assert.equal(families.find(({ name }) => name === "zml_cost_usd_total")?.values.length, 51);
  });
});
