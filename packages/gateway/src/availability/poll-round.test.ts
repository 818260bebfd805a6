import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createFleetTable } from "@zml/engine";
import { type Adapter, UNKNOWN_READING } from "./adapters/adapter.ts";
import { adapterFor } from "./adapters/index.ts";
import { response, sampleText } from "./adapters/testing/adapter-suite.ts";
import type { NodeSpec } from "./node-spec.ts";
import { PollError, type PollFetch, type PollRequest } from "./poll-fetch.ts";
import { pollRound, type RoundPlan } from "./poll-round.ts";

const SPEC: NodeSpec = {
  row: 0,
  id: "n",
  url: "http://10.0.0.1:30000/prefix",
  engine: null,
  apiKey: "key",
  healthPath: null,
  health: { pollIntervalMs: 5_000, timeoutMs: 4_000, unhealthyAfter: 2, healthyAfter: 1 },
  maxInFlight: null,
  placements: [],
};
const LOADS = response({ version: "0.5.20", loads: [{ dp_rank: 0, num_running_reqs: 3, num_waiting_reqs: 0 }] });

/** One round against answers by path; others are 404, `hang` ends with the request's time only. */
async function round(
  answers: Record<string, ReturnType<typeof response> | "hang" | "refuse">,
  plan: Partial<RoundPlan> = {},
) {
  const asked: PollRequest[] = [];
  const fetch: PollFetch = (request) => {
    asked.push(request);
    const key = request.origin.endsWith(":30000")
      ? request.path.replace("/prefix", "")
      : `:${new URL(request.origin).port}${request.path}`;
    const answer = answers[key] ?? response("", 404);
    if (answer === "refuse") return Promise.reject(new PollError("refused", "nobody listens"));
    if (answer !== "hang") return Promise.resolve(answer);
    return new Promise((_, reject) => {
      // the timer of a wait does not hold the process: this one does
      const hold = setInterval(() => {}, 1_000);
      request.signal.addEventListener("abort", () => {
        clearInterval(hold);
        reject(new PollError("timeout", "no time is left"));
      });
    });
  };
  const table = createFleetTable({ nodes: 1, workers: 1 });
  const sources = { table, fetch, nowMs: () => performance.now() };
  const full = { spec: SPEC, adapter: null, isFull: true, usesFallback: false, ...plan };
  const result = await pollRound(sources, full, new AbortController().signal);
  return { result, asked };
}

describe("a round of polls", () => {
  it("does not wait for a fact longer than the adapter wants", async () => {
    const { result } = await round(
      { "/v1/loads": LOADS, "/metrics": response("", 404), "/health": "hang" },
      { adapter: adapterFor("sglang") },
    );
    assert.equal(result.responses.facts["/health"], null);
    assert.equal(adapterFor("sglang").read(result.responses, null).isReady, true);
  });

  it("asks for facts in full rounds only, and for the load by model in all", async () => {
    const paths = (asked: readonly PollRequest[]) => asked.map(({ path }) => path.replace("/prefix", "")).sort();
    const byModel = [{ id: "a b", running: 0, waiting: 0, generationTokensTotal: 0 }];
    const known = { adapter: adapterFor("llamacpp"), reading: { ...UNKNOWN_READING, byModel } };
    const load = "/metrics?model=a%20b&autoload=false";
    const metrics = response("", 400);
    const ordinary = await round(
      { "/metrics": metrics, [load]: response("llamacpp:requests_processing 2\n") },
      { ...known, isFull: false },
    );
    assert.deepEqual(paths(ordinary.asked), ["/health", "/metrics", load]);
    assert.equal(ordinary.result.responses.facts[load]?.status, 200);
    const full = await round({ "/metrics": metrics }, known);
    assert.deepEqual(paths(full.asked), ["/health", "/metrics", load, "/props", "/v1/models"]);
  });

  it("reaches another port of the host beside the node's prefix, with the node's key", async () => {
    const adapter: Adapter = {
      ...adapterFor("custom"),
      probes: { ...adapterFor("custom").probes, metrics: ":8002/metrics" },
    };
    const { result, asked } = await round({ ":8002/metrics": response("up 1\n") }, { adapter });
    assert.equal(result.responses.metrics?.body, "up 1\n");
    const [metrics] = asked.filter(({ origin }) => origin === "http://10.0.0.1:8002");
    assert.equal(metrics?.headers["authorization"], "Bearer key");
    assert.equal(metrics?.path, "/metrics");
    const six = await round({}, { adapter, spec: { ...SPEC, url: "http://[::1]:30000" } });
    assert.ok(six.asked.some(({ origin }) => origin === "http://[::1]:8002"));
  });

  it("that detects serves as the first round of the engine that it finds", async () => {
    const found = await round({ "/v1/loads": LOADS, "/health": response("", 503), "/metrics": response("", 404) });
    assert.equal(found.result.detected, "sglang");
    const reading = adapterFor("sglang").read(found.result.responses, null);
    assert.deepEqual([reading.isReady, reading.version], [false, "0.5.20"]);
    const vllm = await round({ "/health": response(""), "/metrics": response(sampleText("vllm-load.prom")) });
    assert.equal(vllm.result.detected, "vllm");
    assert.equal(adapterFor("vllm").read(vllm.result.responses, null).running, 4);
  });

  it("that detects takes a port that nobody listens on for no answer that is missing", async () => {
    const { result } = await round({ "/health": response("ok"), ":8002/metrics": "refuse" });
    assert.equal(result.detected, "custom");
    const silent = await round({ "/health": response("ok"), "/props": "refuse" });
    assert.equal(silent.result.detected, null);
  });
});
