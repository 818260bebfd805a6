import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PollResponse } from "./adapter.ts";
import { type DetectionAnswers, detectEngine } from "./detect.ts";
import { response, sampleText } from "./testing/adapter-suite.ts";

const missing = response("", 404);
const ANSWERS: DetectionAnswers = {
  health: response(""),
  metrics: missing,
  models: missing,
  props: missing,
  info: missing,
};

function detect(answers: Partial<Record<keyof DetectionAnswers, PollResponse | null>>) {
  return detectEngine({ ...ANSWERS, ...answers });
}

describe("detection of an engine", () => {
  it("goes by the names of metrics", () => {
    assert.equal(detect({ metrics: response(sampleText("vllm-idle.prom")) }), "vllm");
    assert.equal(detect({ metrics: response(sampleText("llamacpp-idle.prom")) }), "llamacpp");
    assert.equal(detect({ metrics: response(sampleText("tgi-load.prom")) }), "tgi");
    assert.equal(detect({ metrics: response('other{by="vllm:"} 1\n') }), "custom");
  });

  it("finds a llama.cpp without metrics by its slots, a fresh TGI by its limits, a vLLM by its models", () => {
    assert.equal(detect({ metrics: response("", 501), props: response({ total_slots: 4 }) }), "llamacpp");
    assert.equal(detect({ info: response({ model_id: "m", max_total_tokens: 4096 }) }), "tgi");
    assert.equal(detect({ models: response({ data: [{ id: "m", owned_by: "vllm" }] }) }), "vllm");
  });

  it("is undecided while a server loads or doesn't answer", () => {
    assert.equal(detect({ health: response({ error: { message: "Loading model" } }, 503) }), null);
    assert.equal(detect({ health: null }), null);
    assert.equal(detect({ metrics: null }), null);
  });
});
