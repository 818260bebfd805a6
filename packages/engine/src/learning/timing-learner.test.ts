import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { DEFAULT_TIMING, PLACEMENTS_PER_NODE } from "../bounds.ts";
import { createFleetTable, type FleetTable, takeModelRow, takeNodeRow, takePlacementRow } from "../fleet-table.ts";
import { type AttemptSample, applySamples } from "./attempt-samples.ts";
import type { TimingState } from "./family-timing.ts";
import { TimingLearner } from "./timing-learner.ts";

/** A node's true constants, ms. */
const TRUTH = { base: 12, perRequest: 0.04, perKvToken: 8e-5, perPrompt: 0.04, first: 16, perToken: 0.058 };
const OUTPUT = 200;
const COLUMNS = Object.keys(DEFAULT_TIMING).filter(
  (name) => name !== "predictorSamples",
) as (keyof typeof DEFAULT_TIMING)[];

class Bench {
  readonly table: FleetTable;
  readonly learner: TimingLearner;
  readonly placed: { row: number; model: number; placement: number }[];
  nowMs = 0;
  #state = 17;

  /** @param families family of each row. */
  constructor(families: readonly number[]) {
    this.table = createFleetTable({ nodes: families.length, workers: 1 });
    takeModelRow(this.table, 0);
    families.forEach((family, row) => {
      takeNodeRow(this.table, row, { family, identity: row, maxInFlight: 256, cooldownMs: 1, priceUsdPerHour: 1 });
      takePlacementRow(this.table, row * PLACEMENTS_PER_NODE);
    });
    this.learner = new TimingLearner(this.table);
    this.placed = families.map((_, row) => ({ row, model: 0, placement: row * PLACEMENTS_PER_NODE }));
  }

  random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }

  /** An attempt on a row in some company, as the truth has it, `slowness` times as slow. */
  sample(row: number, { slowness = 1, noise = 0.05 } = {}): AttemptSample {
    const depth = Math.floor(this.random() * 60);
    const prompt = 200 + Math.floor(this.random() * 2_000);
    const prompts = depth * 1_000;
    const ahead = this.random() < 0.5 ? 0 : Math.floor(this.random() * 4_000);
    const outputTokens = 20 + Math.floor(this.random() * 300);
    const computed = Math.floor(depth * outputTokens * 5 * this.random());
    const cached = prompts + prompt + ((depth + 1) * OUTPUT) / 2;
    const step = TRUTH.base + TRUTH.perRequest * (depth + 1) + TRUTH.perKvToken * cached;
    const shaken = () => slowness * Math.exp(noise * (this.random() + this.random() + this.random() - 1.5));
    const wait = depth > 0 ? step / 2 : 0;
    const firstTokenMs = (TRUTH.first + wait + Math.max(step, TRUTH.perToken * (ahead + prompt))) * shaken();
    const tokenMs = (step + (TRUTH.perPrompt * computed) / (outputTokens - 1)) * shaken();
    this.nowMs += 100;
    return {
      row,
      placement: row * PLACEMENTS_PER_NODE,
      model: 0,
      outputTokens,
      promptTokens: prompt,
      durationMs: firstTokenMs + tokenMs * (outputTokens - 1),
      firstTokenMs,
      atMs: this.nowMs,
      outcome: "success",
      timing: {
        depth,
        own: depth,
        kvTokens: prompts + depth * OUTPUT,
        aheadTokens: ahead,
        plainTokens: 0,
        warmTokens: 0,
        firstMs: firstTokenMs / shaken(),
        tokenMs: tokenMs / shaken(),
        promisedMs: Number.NaN,
        outputTokens: OUTPUT,
        meanDepth: depth + 1,
        meanKvTokens: prompts + prompt + (depth + 1) * OUTPUT,
        prefilledTokens: computed,
        isPromptOnly: false,
        bookedPromptTokens: prompt,
        freshTokens: prompt,
      },
    };
  }

  teach(samples: readonly AttemptSample[]): void {
    for (const [index, sample] of samples.entries()) {
      applySamples(this.table, [sample], this.learner);
      if (index % 10 === 9) this.learner.refresh(this.placed, this.nowMs);
    }
    this.learner.refresh(this.placed, this.nowMs);
  }

  run(row: number, count: number, how: { slowness?: number; noise?: number } = {}): void {
    this.teach(Array.from({ length: count }, () => this.sample(row, how)));
  }

  of(column: keyof FleetTable, row: number): number {
    return (this.table[column] as Float64Array)[row * PLACEMENTS_PER_NODE] as number;
  }
}

test("500 requests teach a family its constants to 15 %, and its idle node as well as its busy one", () => {
  const bench = new Bench([0, 0]);
  bench.run(0, 500);
  for (const row of [0, 1]) {
    const about = (column: keyof FleetTable, truth: number) => {
      const found = bench.of(column, row);
      assert.ok(Math.abs(found / truth - 1) < 0.15, `${column} of row ${row}: ${found}, true ${truth}`);
    };
    about("stepBaseMs", TRUTH.base);
    about("stepPerPromptTokenMs", TRUTH.perPrompt);
    about("firstPerTokenMs", TRUTH.perToken);
    // the two that always grow together are told apart roughly, and their sum well
    const perRequest = bench.of("stepPerRequestMs", row) + bench.of("stepPerKvTokenMs", row) * (1_000 + OUTPUT / 2);
    assert.ok(Math.abs(perRequest / (TRUTH.perRequest + TRUTH.perKvToken * 1_100) - 1) < 0.15, `${perRequest}`);
  }
});

test("a node that turns three times slower is known as such within 30 of its requests, its neighbour stays", () => {
  const bench = new Bench([0, 0]);
  for (let turn = 0; turn < 200; turn++) {
    bench.run(0, 1);
    bench.run(1, 1);
  }
  for (let turn = 0; turn < 30; turn++) {
    bench.run(0, 1);
    bench.run(1, 1, { slowness: 3 });
  }
  const [well, ill] = [bench.of("slowness", 0), bench.of("slowness", 1)];
  assert.ok(ill / well > 2.3, `${ill} against ${well}`);
  assert.ok(bench.of("stepBaseMs", 1) / bench.of("stepBaseMs", 0) > 2.3);
});

test("a slow node without traffic is believed to be as its family again, after minutes and not before", () => {
  const bench = new Bench([0, 0]);
  bench.run(0, 200);
  bench.run(1, 60, { slowness: 3 });
  const ill = bench.of("slowness", 1);
  bench.learner.refresh(bench.placed, bench.nowMs + 10_000);
  assert.ok(bench.of("slowness", 1) > 0.8 * ill);
  bench.learner.refresh(bench.placed, bench.nowMs + 600_000);
  assert.ok(bench.of("slowness", 1) < 1.05);
});

test("a node that takes a slow one's place begins as its family is", () => {
  const bench = new Bench([0, 0]);
  bench.run(0, 200);
  bench.run(1, 60, { slowness: 3 });
  assert.ok(bench.of("slowness", 1) > 2);
  takePlacementRow(bench.table, 1 * PLACEMENTS_PER_NODE);
  bench.learner.refresh(bench.placed, bench.nowMs);
  assert.equal(bench.of("slowness", 1), 1);
});

test("a family that has shown nothing stands at the median of the others, and alone at the documented defaults", () => {
  const bench = new Bench([0, 1]);
  for (const column of COLUMNS) assert.equal(bench.of(column, 1), DEFAULT_TIMING[column]);
  bench.run(0, 500);
  const shown = bench.of("stepBaseMs", 0) / bench.of("slowness", 0);
  assert.ok(Math.abs(bench.of("stepBaseMs", 1) / shown - 1) < 0.01);
  assert.equal(bench.of("predictorSamples", 1), 0);
});

test("the spread covers the share of outcomes that it promises", () => {
  const bench = new Bench([0]);
  bench.run(0, 1_000, { noise: 0.6 });
  let covered = 0;
  const samples = Array.from({ length: 2_000 }, () => bench.sample(0, { noise: 0.6 }));
  for (const sample of samples) {
    const tokenMs = (sample.durationMs - sample.firstTokenMs) / (sample.outputTokens - 1);
    if (tokenMs <= (sample.timing?.tokenMs ?? 0) * bench.of("tokenSpread", 0)) covered += 1;
    bench.teach([sample]);
  }
  assert.ok(covered / 2_000 > 0.93 && covered / 2_000 < 0.97, `${covered / 2_000}`);
});

test("answers that do not stream teach token times too", () => {
  const bench = new Bench([0]);
  bench.run(0, 50);
  bench.teach(Array.from({ length: 300 }, () => ({ ...bench.sample(0), firstTokenMs: Number.NaN })));
  assert.ok(Math.abs(bench.of("stepBaseMs", 0) / TRUTH.base - 1) < 0.25, `${bench.of("stepBaseMs", 0)}`);
});

/** A request whose whole prompt had been sent to the node before; `hits` of it are found in the cache. */
function warmSample(bench: Bench, hits: number, isTold: boolean): AttemptSample {
  const sample = bench.sample(0);
  const { timing, promptTokens } = sample;
  assert.ok(timing !== undefined);
  const prompt = promptTokens + 3_000;
  const fresh = prompt * (1 - hits);
  const wait = timing.depth > 0 ? (TRUTH.base + TRUTH.perRequest * timing.depth) / 2 : 0;
  const firstTokenMs = TRUTH.first + wait + Math.max(TRUTH.base, TRUTH.perToken * (timing.aheadTokens + fresh));
  const known = bench.of("cacheHits", 0);
  return {
    ...sample,
    promptTokens: prompt,
    firstTokenMs,
    durationMs: sample.durationMs - sample.firstTokenMs + firstTokenMs,
    cachedTokens: isTold ? prompt - fresh : Number.NaN,
    timing: {
      ...timing,
      firstMs: firstTokenMs,
      warmTokens: prompt,
      bookedPromptTokens: prompt,
      freshTokens: prompt * (1 - (known >= 0 ? known : 0.5)),
    },
  };
}

for (const isTold of [true, false]) {
  test(`what a node's cache held of warm prompts is learned ${isTold ? "as it tells it" : "from first tokens"}`, () => {
    for (const hits of [0, 0.5, 0.97]) {
      const bench = new Bench([0, 0]);
      bench.run(0, 300);
      const before = bench.of("firstPerTokenMs", 0);
      bench.teach(Array.from({ length: 40 }, () => warmSample(bench, hits, isTold)));
      const learned = bench.of("cacheHits", 0);
      assert.ok(Math.abs(learned - hits) < 0.15, `${learned} of ${hits}`);
      const moved = bench.of("firstPerTokenMs", 0) / before;
      assert.ok(Math.abs(moved - 1) < 0.1, `the coefficients stay: ${moved}`);
      assert.ok(Math.abs(bench.of("slowness", 0) - 1) < 0.1, "and the node is not taken for a fast or slow one");
      assert.ok(Number.isNaN(bench.of("cacheHits", 1)), "another node's cache is its own");
    }
  });
}

test("an engine without a prefix cache is known within ten answers", () => {
  const bench = new Bench([0]);
  bench.run(0, 300);
  bench.teach(Array.from({ length: 10 }, () => warmSample(bench, 0, true)));
  assert.ok(bench.of("cacheHits", 0) < 0.1, `${bench.of("cacheHits", 0)}`);
});

test("whatever samples say, every column that decisions read stays a number above or at 0", () => {
  const number = fc.oneof(
    fc.double(),
    fc.constantFrom(0, -1, 1e308, -1e308, 5e-324, Number.NaN, Number.POSITIVE_INFINITY),
    fc.double({ min: 1, max: 1e5, noNaN: true }),
  );
  const odd = fc.record({
    outputTokens: number,
    promptTokens: number,
    durationMs: number,
    firstTokenMs: number,
    cachedTokens: number,
    timing: fc.record({
      depth: number,
      own: number,
      kvTokens: number,
      aheadTokens: number,
      plainTokens: number,
      warmTokens: number,
      freshTokens: number,
      firstMs: number,
      tokenMs: number,
      promisedMs: number,
      outputTokens: number,
      meanDepth: number,
      meanKvTokens: number,
      prefilledTokens: number,
      isPromptOnly: fc.boolean(),
      bookedPromptTokens: number,
    }),
  });
  fc.assert(
    fc.property(fc.array(odd, { maxLength: 30 }), (lies) => {
      const bench = new Bench([0, 0, 1]);
      bench.teach(lies.map((lie) => ({ ...bench.sample(0), ...lie })));
      for (const row of [0, 1, 2]) {
        for (const column of COLUMNS) {
          const value = bench.of(column, row);
          assert.ok(value >= 0 && value < Number.POSITIVE_INFINITY, `${column} of row ${row} is ${value}`);
        }
      }
      assert.ok(bench.of("stepBaseMs", 0) + bench.of("stepPerRequestMs", 0) + bench.of("firstBaseMs", 0) >= 0);
    }),
    { numRuns: 200 },
  );
});

test("one absurd answer moves a node by a seventh at most", () => {
  const bench = new Bench([0]);
  bench.run(0, 200);
  const before = bench.of("slowness", 0);
  const absurd = bench.sample(0);
  bench.teach([{ ...absurd, firstTokenMs: 3_600_000, durationMs: 7_200_000 }]);
  assert.ok(bench.of("slowness", 0) / before < 1.16, `${bench.of("slowness", 0) / before}`);
});

/** What a learner knows, as another process reads it. */
function kept(bench: Bench): TimingState {
  const text = JSON.stringify(bench.learner.states()[0]?.state);
  return JSON.parse(text, (_, value) => value ?? Number.NaN) as TimingState;
}

function restored(from: Bench, ageMs: number, families: readonly number[] = [0]): Bench {
  const next = new Bench(families);
  next.nowMs = 5_000;
  assert.equal(next.learner.restore(0, 0, kept(from), { ageMs, nowMs: next.nowMs }), true);
  next.learner.refresh(next.placed, next.nowMs);
  return next;
}

test("what another process learned a moment ago is believed as it was", () => {
  const first = new Bench([0]);
  first.run(0, 500);
  const next = restored(first, 10_000);
  for (const column of COLUMNS) {
    const [before, after] = [first.of(column, 0), next.of(column, 0)];
    // a node's own slowness is not kept: a minute without traffic forgets it, too
    const expected = column.endsWith("Spread") ? before : before / first.of("slowness", 0);
    assert.ok(Math.abs(after - expected) <= 0.01 * expected, `${column}: ${expected}, then ${after}`);
  }
  assert.ok(next.of("predictorSamples", 0) > 490);
});

test("old knowledge promises less, counts as less measured, and is overruled sooner", () => {
  const first = new Bench([0]);
  first.run(0, 2_000);
  const young = restored(first, 60_000);
  const old = restored(first, 5 * 86_400_000);
  for (const spread of ["firstSpread", "tokenSpread"] as const) {
    assert.ok(old.of(spread, 0) > young.of(spread, 0) * 1.1, `${old.of(spread, 0)} ${young.of(spread, 0)}`);
  }
  assert.ok(Math.abs(old.of("stepBaseMs", 0) / young.of("stepBaseMs", 0) - 1) < 0.05, "it begins where it was");
  assert.ok(old.of("predictorSamples", 0) < 100);
  // the engine was changed meanwhile: half as fast
  const off = (bench: Bench) => {
    bench.run(0, 90, { slowness: 2 });
    const [base = Number.NaN] = bench.learner.states()[0]?.state.decode.coefficients ?? [];
    return Math.abs(Math.log(base / (2 * TRUTH.base)));
  };
  const [offOld, offYoung] = [off(old), off(young)];
  assert.ok(offOld < 0.7 * offYoung, `${offOld} ${offYoung}`);
});

test("what was learned here stands against what another process knew", () => {
  const first = new Bench([0]);
  first.run(0, 100, { slowness: 3 });
  const here = new Bench([0]);
  here.run(0, 5);
  const before = here.of("stepBaseMs", 0);
  assert.equal(here.learner.restore(0, 0, kept(first), { ageMs: 0, nowMs: here.nowMs }), false);
  here.learner.refresh(here.placed, here.nowMs);
  assert.equal(here.of("stepBaseMs", 0), before);
});

test("a correction of first tokens settles and does not swing, however many answers are under way", () => {
  const bench = new Bench([0]);
  bench.run(0, 200);
  const bias = () => bench.learner.states()[0]?.state.first.spread.bias ?? Number.NaN;
  const before = bias();
  // predictions are a fifth too low but for the correction, and each is told 600 answers later
  const underWay: AttemptSample[] = [];
  let most = Number.NEGATIVE_INFINITY;
  for (let answer = 0; answer < 40_000; answer++) {
    const sample = bench.sample(0);
    bench.nowMs -= 90;
    const { timing, firstTokenMs } = sample;
    assert.ok(timing !== undefined);
    underWay.push({ ...sample, timing: { ...timing, firstMs: 0.8 * firstTokenMs * Math.exp(bias() - before) } });
    const [ended] = underWay.length > 600 ? underWay.splice(0, 1) : [];
    if (ended === undefined) continue;
    applySamples(bench.table, [{ ...ended, atMs: bench.nowMs }], bench.learner);
    most = Math.max(most, bias());
  }
  const due = before - Math.log(0.8);
  assert.ok(Math.abs(bias() - due) < 0.05, `${bias()} in the end, due ${due}`);
  assert.ok(most < due + 0.08, `${most} on the way, due ${due}`);
});

test("coefficients are right for short and for widely spread times alike", () => {
  const bench = new Bench([0]);
  // a first token behind others varies by half, one alone by a tenth
  const samples = Array.from({ length: 3_000 }, () => {
    const sample = bench.sample(0, { noise: 0 });
    const isBehind = (sample.timing?.aheadTokens ?? 0) > 0;
    const shaken = Math.exp((isBehind ? 0.8 : 0.2) * (bench.random() + bench.random() + bench.random() - 1.5));
    const firstTokenMs = sample.firstTokenMs * shaken;
    return { ...sample, firstTokenMs, durationMs: sample.durationMs + firstTokenMs - sample.firstTokenMs };
  });
  bench.teach(samples);
  const slowness = bench.of("slowness", 0);
  const bias = Math.exp(bench.learner.states()[0]?.state.first.spread.bias ?? 0);
  for (const column of ["firstPerTokenMs", "firstPerAheadMs"] as const) {
    const found = bench.of(column, 0) / slowness / bias;
    assert.ok(Math.abs(found / TRUTH.perToken - 1) < 0.06, `${column}: ${found}, true ${TRUTH.perToken}`);
  }
});
