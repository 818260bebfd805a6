import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DEFAULT_STREAM_TOKENS_PER_SECOND, DEFAULT_TOKENS_PER_SECOND } from "../bounds.ts";
import { createFleetTable, takeModelRow, takeNodeRow, takePlacementRow } from "../fleet-table.ts";
import { type AttemptSample, applySamples } from "./attempt-samples.ts";
import { CapacityMeter, type CapacityScrape } from "./capacity-meter.ts";
import { writeCapacity, writeDrain } from "./node-load.ts";
import { refreshSpeeds } from "./refresh-speeds.ts";

function scrape(
  atMs: number,
  tokensTotal: number,
  running: number,
  more: Partial<CapacityScrape> = {},
): CapacityScrape {
  return { atMs, uncertainMs: 0, tokensTotal, running, waiting: 0, concurrencyLimit: Number.NaN, ...more };
}

function tableOf(nodes: number) {
  const table = createFleetTable({ nodes, workers: 1 });
  for (let row = 0; row < nodes; row++) {
    takeNodeRow(table, row, { family: row % 2, identity: row, maxInFlight: 8, cooldownMs: 1, priceUsdPerHour: 1 });
    takePlacementRow(table, row);
  }
  takeModelRow(table, 0);
  return table;
}

describe("the capacity meter", () => {
  it("takes a counter that moves with every step between two busy looks only", () => {
    const meter = new CapacityMeter();
    assert.equal(meter.take(scrape(0, 0, 0), "step"), null);
    assert.equal(meter.take(scrape(1_000, 10, 8), "step"), null);
    assert.deepEqual(meter.take(scrape(3_000, 4_010, 8), "step"), {
      tokensPerSecond: 2_000,
      busyMs: 2_000,
      isLoaded: true,
    });
    assert.equal(meter.take(scrape(4_000, 4_500, 0), "step"), null);
    assert.equal(meter.take(scrape(9_000, 4_500, 8), "step"), null);
  });

  it("joins stretches until their length is known well enough", () => {
    const meter = new CapacityMeter();
    const late = { uncertainMs: 500 };
    assert.equal(meter.take(scrape(0, 0, 8), "step"), null);
    assert.equal(meter.take(scrape(400, 400, 8), "step"), null, "too short");
    assert.equal(meter.take(scrape(1_400, 1_900, 8, late), "step"), null, "it may have been read at 900 ms");
    assert.deepEqual(meter.take(scrape(2_000, 2_000, 8), "step"), {
      tokensPerSecond: 1_000,
      busyMs: 2_000,
      isLoaded: true,
    });
    assert.equal(meter.take(scrape(2_500, 2_500, 8), "step"), null);
    assert.equal(meter.take(scrape(2_900, 2_600, 0), "step"), null, "idleness ends a stretch");
    assert.equal(meter.take(scrape(3_200, 2_600, 8), "step"), null);
    assert.equal(meter.take(scrape(3_900, 3_300, 8), "step"), null);
  });

  it("takes a joined stretch for a lower bound if the node had little to do in any part of it", () => {
    const meter = new CapacityMeter();
    meter.take(scrape(0, 0, 1), "step");
    meter.take(scrape(500, 100, 1), "step");
    assert.equal(meter.take(scrape(1_000, 900, 8), "step")?.isLoaded, false);
    meter.take(scrape(1_500, 1_700, 8), "step");
    assert.equal(meter.take(scrape(2_000, 2_500, 8), "step")?.isLoaded, true);
  });

  it("takes a counter that moves when requests end over the whole busy stretch, its ends counted half", () => {
    const meter = new CapacityMeter();
    const looks = [scrape(0, 0, 0), scrape(1_000, 0, 4), scrape(2_000, 0, 4), scrape(3_000, 1_500, 4)];
    for (const look of looks) assert.equal(meter.take(look, "completion"), null);
    assert.deepEqual(meter.take(scrape(4_000, 3_000, 0), "completion"), {
      tokensPerSecond: 1_000,
      busyMs: 3_000,
      isLoaded: true,
    });
  });

  it("gives a sample every ten seconds of a node that is never idle", () => {
    const meter = new CapacityMeter();
    let samples = 0;
    for (let second = 0; second <= 100; second += 1) {
      if (meter.take(scrape(second * 1_000, second * 100, 4), "completion") !== null) samples += 1;
    }
    assert.ok(samples >= 9 && samples <= 10, `${samples}`);
  });

  it("keeps the time in which nothing ended: answers that end together after a minute took that minute", () => {
    const meter = new CapacityMeter();
    const samples: number[] = [];
    for (let second = 0; second <= 65; second += 5) {
      const sample = meter.take(scrape(second * 1_000, second < 60 ? 0 : 9_000, second < 60 ? 6 : 0), "completion");
      if (sample !== null) samples.push(Math.round(sample.tokensPerSecond));
    }
    assert.deepEqual(samples, [157]);
  });

  it("begins anew when the counter went down or is unknown", () => {
    const meter = new CapacityMeter();
    meter.take(scrape(0, 50_000, 8), "step");
    assert.equal(meter.take(scrape(1_000, 100, 8), "step"), null);
    assert.equal(meter.take(scrape(2_000, Number.NaN, 8), "step"), null);
    assert.equal(meter.take(scrape(3_000, 90_000, 8), "step"), null);
    assert.equal(meter.take(scrape(4_000, 90_500, 8), "step")?.tokensPerSecond, 500);
  });

  it("calls a node loaded by its queue, by half of its limit, or by four requests", () => {
    const isLoaded = (running: number, more: Partial<CapacityScrape>) => {
      const meter = new CapacityMeter();
      meter.take(scrape(0, 0, running, more), "step");
      return meter.take(scrape(1_000, 10, running, more), "step")?.isLoaded;
    };
    assert.equal(isLoaded(1, {}), false);
    assert.equal(isLoaded(4, {}), true);
    assert.equal(isLoaded(1, { waiting: 1 }), true);
    assert.equal(isLoaded(2, { concurrencyLimit: 4 }), true);
    assert.equal(isLoaded(1, { concurrencyLimit: 4 }), false);
    assert.equal(isLoaded(3, { concurrencyLimit: 256 }), false);
  });
});

describe("capacity in the table", () => {
  it("never sinks by what a quiet node gave, nor starts below what is assumed", () => {
    const table = tableOf(1);
    const quiet = { tokensPerSecond: 40, busyMs: 60_000, isLoaded: false };
    writeCapacity(table, 0, quiet);
    assert.equal(table.measuredTokensPerSecond[0], Number.NaN);
    assert.equal(table.tokensPerSecond[0], DEFAULT_TOKENS_PER_SECOND);
    writeCapacity(table, 0, { ...quiet, tokensPerSecond: 200, isLoaded: true });
    assert.equal(table.tokensPerSecond[0], 200);
    writeCapacity(table, 0, quiet);
    assert.equal(table.tokensPerSecond[0], 200);
    writeCapacity(table, 0, { ...quiet, tokensPerSecond: 400 });
    assert.ok((table.tokensPerSecond[0] as number) > 200);
  });
});

describe("speeds that decisions use", () => {
  it("are the measured ones, else medians of the family, else of the model elsewhere, else the default", () => {
    const table = tableOf(8);
    const placed = [0, 1, 2, 3, 4, 5, 6, 7].map((row) => ({ row, placement: row, model: row < 6 ? 0 : 1 }));
    table.measuredTokensPerSecond.set([100, Number.NaN, 300, Number.NaN, Number.NaN, Number.NaN, Number.NaN], 0);
    refreshSpeeds(table, placed);
    assert.equal(table.tokensPerSecond[0], 100);
    assert.equal(table.tokensPerSecond[4], 200, "median of the family for the model");
    assert.equal(table.tokensPerSecond[6], 200, "median of the family over its models");
    assert.equal(table.tokensPerSecond[1], 200, "median of the model on other families");
    assert.equal(
      table.tokensPerSecond[7],
      DEFAULT_TOKENS_PER_SECOND,
      "nobody has shown anything of the model or the family",
    );
    assert.equal(table.streamTokensPerSecond[0], DEFAULT_STREAM_TOKENS_PER_SECOND);
  });
});

describe("samples of attempts", () => {
  const sample: AttemptSample = {
    row: 0,
    placement: 0,
    model: 0,
    outputTokens: 101,
    promptTokens: 10,
    durationMs: 2_500,
    firstTokenMs: 500,
    atMs: 9_000,
    outcome: "success",
  };

  it("tell stream speed, output, errors and the last success", () => {
    const table = tableOf(1);
    applySamples(table, [sample]);
    assert.equal(table.measuredStreamTokensPerSecond[0], 50);
    assert.equal(table.streamTokensPerSecond[0], 50);
    assert.equal(table.meanOutputTokens[0], 101);
    assert.equal(table.errorRate[0], 0);
    assert.equal(table.lastSuccessAtMs[0], 9_000);
    applySamples(table, [{ ...sample, atMs: 8_000 }]);
    assert.equal(table.lastSuccessAtMs[0], 9_000, "an older one changes nothing");
  });

  it("count only what is the node's fault as an error", () => {
    const table = tableOf(1);
    applySamples(table, [
      { ...sample, outcome: "caller_error" },
      { ...sample, outcome: "cancelled" },
      { ...sample, outcome: "overloaded" },
    ]);
    assert.equal(table.errorRate[0], Number.NaN);
    assert.equal(table.lastSuccessAtMs[0], Number.NaN);
    applySamples(table, [sample, { ...sample, outcome: "failure" }, { ...sample, outcome: "interrupted" }]);
    const rate = table.errorRate[0] as number;
    assert.ok(rate > 0 && rate < 0.2, `${rate}`);
    assert.equal(table.placementErrorRate[0], rate);
  });

  it("keep the stream speed where an answer was read in one piece", () => {
    const table = tableOf(1);
    applySamples(table, [sample]);
    const usual = table.streamTokensPerSecond[0] as number;
    applySamples(table, [{ ...sample, durationMs: sample.firstTokenMs + 0.5 }]);
    const measured = table.streamTokensPerSecond[0] as number;
    assert.ok(measured > usual && measured < usual * 1.2, String(measured));
  });

  it("tell no stream speed without a first token, with a few tokens, or without a placement", () => {
    const table = tableOf(1);
    applySamples(table, [
      { ...sample, firstTokenMs: Number.NaN },
      { ...sample, outputTokens: 3 },
      { ...sample, outputTokens: Number.NaN, model: -1 },
      { ...sample, placement: -1, model: -1 },
    ]);
    assert.equal(table.measuredStreamTokensPerSecond[0], Number.NaN);
  });
});

describe("the drain rate", () => {
  it("is that of times with requests: idleness neither starts nor lowers it", () => {
    const table = tableOf(1);
    writeDrain(table, 0, { count: 0, intervalMs: 1_000 });
    assert.equal(table.drainPerSecond[0], Number.NaN);
    writeDrain(table, 0, { count: 10, intervalMs: 1_000 });
    assert.equal(table.drainPerSecond[0], 10);
    writeDrain(table, 0, { count: 0, intervalMs: 600_000 });
    assert.equal(table.drainPerSecond[0], 10);
    table.total.inFlight[0] = 1;
    writeDrain(table, 0, { count: 0, intervalMs: 30_000 });
    assert.equal(table.drainPerSecond[0], 5);
  });
});
