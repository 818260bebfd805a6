import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PollResponses } from "./adapter.ts";
import { UNKNOWN_READING } from "./adapter.ts";
import { DETECTION_PATHS, detectEngine, isOtherEngine } from "./detect.ts";
import { response, sampleText } from "./testing/adapter-suite.ts";

const missing = response("", 404);
const ANSWERS: PollResponses = {
  health: response(""),
  metrics: missing,
  models: missing,
  facts: Object.fromEntries(DETECTION_PATHS.facts.map((path) => [path, missing])),
};

function detect(answers: Partial<PollResponses>) {
  return detectEngine({ ...ANSWERS, ...answers, facts: { ...ANSWERS.facts, ...answers.facts } });
}

describe("detection of an engine", () => {
  it("goes by the names of metrics", () => {
    assert.equal(detect({ metrics: response(sampleText("vllm-idle.prom")) }), "vllm");
    assert.equal(detect({ metrics: response(sampleText("llamacpp-idle.prom")) }), "llamacpp");
    assert.equal(detect({ metrics: response(sampleText("tgi-load.prom")) }), "tgi");
    const trtllm = { "/prometheus/metrics": response(sampleText("trtllm-load.prom")) };
    assert.equal(detect({ metrics: response("[]"), facts: trtllm }), "trtllm");
    assert.equal(detect({ metrics: response(sampleText("triton-load.prom")) }), "triton");
    assert.equal(detect({ metrics: response(sampleText("sglang-two-ranks.prom")) }), "sglang");
    assert.equal(detect({ metrics: response('other{by="vllm:"} 1\n') }), "custom");
  });

  it("finds a llama.cpp without metrics by its slots, a fresh TGI by its limits, a vLLM by its models", () => {
    assert.equal(detect({ metrics: response("", 501), facts: { "/props": response({ total_slots: 4 }) } }), "llamacpp");
    assert.equal(detect({ facts: { "/info": response({ model_id: "m", max_total_tokens: 4096 }) } }), "tgi");
    assert.equal(detect({ models: response({ data: [{ id: "m", owned_by: "vllm" }] }) }), "vllm");
  });

  it("finds a trtllm-serve and a Triton that show no metrics by their models, and a Triton that runs a vLLM", () => {
    const listed = (owner: string) => response({ data: [{ id: "m", owned_by: owner }] });
    assert.equal(detect({ metrics: response("[]"), models: listed("tensorrt_llm") }), "trtllm");
    assert.equal(detect({ models: listed("Triton Inference Server") }), "triton");
    assert.equal(detect({ metrics: response('nv_inference_count{model="m"} 1\nvllm:x 1\n') }), "triton");
  });

  it("finds an SGLang without metrics by its load, and without that by its models", () => {
    const loads = response({ version: "0.5.20", loads: [{ dp_rank: 0, num_running_reqs: 0 }] });
    assert.equal(detect({ facts: { "/v1/loads": loads } }), "sglang");
    assert.equal(detect({ health: response("", 503), facts: { "/v1/loads": loads } }), "sglang");
    assert.equal(detect({ models: response({ data: [{ id: "m", owned_by: "sglang" }] }) }), "sglang");
    assert.equal(detect({ facts: { "/v1/loads": response({ loads: [] }) } }), "custom");
  });

  it("believes an engine's own words before a name that something in front of it may repeat", () => {
    const models = response({ data: [{ id: "m", owned_by: "vllm" }] });
    assert.equal(detect({ models, metrics: response(sampleText("llamacpp-idle.prom")) }), "llamacpp");
  });

  it("is undecided while a server loads or doesn't answer", () => {
    assert.equal(detect({ health: response({ error: { message: "Loading model" } }, 503) }), null);
    assert.equal(detect({ health: null }), null);
    assert.equal(detect({ metrics: null }), null);
  });
});

describe("a node that became another engine", () => {
  const round = (answers: Partial<PollResponses>) => ({
    health: response(""),
    metrics: null,
    models: null,
    facts: {},
    ...answers,
  });
  const known = { ...UNKNOWN_READING, isReady: true, running: 3 };
  const unknown = { ...UNKNOWN_READING, isReady: true };

  it("is told by another engine's metrics, or by its name on the models", () => {
    const metrics = response(sampleText("llamacpp-idle.prom"));
    assert.equal(isOtherEngine("vllm", round({ metrics }), { before: null, after: unknown }), true);
    const models = response({ data: [{ id: "m", owned_by: "vllm" }] });
    assert.equal(isOtherEngine("custom", round({ models }), { before: null, after: unknown }), true);
    assert.equal(isOtherEngine("tgi", round({ metrics: missing, models }), { before: null, after: unknown }), true);
  });

  it("is suspected when metrics that were there are gone", () => {
    const readings = { before: known, after: unknown };
    assert.equal(isOtherEngine("vllm", round({ metrics: missing }), readings), true);
    assert.equal(isOtherEngine("vllm", round({ metrics: response("up 1\n") }), readings), true);
  });

  it("is not seen in an engine that is itself, was never known, is late, fails, or says nothing of itself", () => {
    const own = response(sampleText("vllm-idle.prom"));
    assert.equal(isOtherEngine("vllm", round({ metrics: own }), { before: known, after: known }), false);
    assert.equal(isOtherEngine("vllm", round({ metrics: missing }), { before: null, after: unknown }), false);
    assert.equal(isOtherEngine("vllm", round({ metrics: missing }), { before: unknown, after: unknown }), false);
    const models = response({ data: [{ id: "m", owned_by: "llamacpp" }] });
    assert.equal(isOtherEngine("vllm", round({ models }), { before: known, after: known }), false);
    const failing = response("", 503);
    assert.equal(isOtherEngine("vllm", round({ metrics: failing }), { before: known, after: unknown }), false);
    assert.equal(isOtherEngine("custom", round({}), { before: unknown, after: unknown }), false);
  });
});
