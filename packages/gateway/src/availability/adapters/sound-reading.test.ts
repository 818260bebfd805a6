import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reportedModel, UNKNOWN_READING } from "./adapter.ts";
import { adapterFor } from "./index.ts";
import { soundReading } from "./sound-reading.ts";
import { response } from "./testing/adapter-suite.ts";

describe("a reading that can be believed", () => {
  it("has no number that no node can have", () => {
    const lie = {
      ...UNKNOWN_READING,
      running: -1,
      waiting: 1e308,
      kvUse: 7,
      generationTokensTotal: 9e18,
      admissionLimit: 1e12,
    };
    const { running, waiting, kvUse, generationTokensTotal, admissionLimit } = soundReading(lie);
    assert.deepEqual(
      [running, waiting, kvUse, generationTokensTotal, admissionLimit],
      [Number.NaN, Number.NaN, Number.NaN, Number.NaN, Number.NaN],
    );
  });

  it("keeps what can be, and takes a cache that is filled a little over the brim for full", () => {
    const { running, kvUse } = soundReading({ ...UNKNOWN_READING, running: 0, kvUse: 1.02 });
    assert.deepEqual([running, kvUse], [0, 1]);
  });

  it("has no text that a terminal would obey, and no name that no caller can send", () => {
    const models = [
      reportedModel("ok", { parent: "a\nb", contextTokens: 1e308 }),
      reportedModel("bell\u0007"),
      reportedModel("x".repeat(257)),
    ];
    const {
      version,
      platform,
      models: sound,
    } = soundReading({
      ...UNKNOWN_READING,
      version: "1\u001b[31m",
      platform: "p".repeat(129),
      models,
    });
    assert.deepEqual([version, platform, sound], [null, null, [reportedModel("ok")]]);
  });

  it("is what every adapter gives", () => {
    for (const engine of ["vllm", "sglang", "llamacpp", "tgi", "trtllm", "triton", "custom", null] as const) {
      const models = response({
        data: [
          { id: "\u0000", owned_by: "x" },
          { id: "m", max_model_len: 1e308 },
        ],
      });
      const round = { health: response(""), metrics: null, models, facts: {} };
      assert.deepEqual(
        adapterFor(engine)
          .read(round, null)
          .models?.map(({ id }) => id),
        ["m"],
        `${engine}`,
      );
    }
  });
});
