import type { NodeContext } from "./engine-behaviour.ts";
import type { Labels } from "./prometheus-text.ts";
import { PrometheusText, rustNumber } from "./prometheus-text.ts";
import type { RequestCounters } from "./strict-openai.ts";

/** Tokens of one block of the KV cache. */
const BLOCK_TOKENS = 64;
const GPU_BYTES = 80 * 2 ** 30;

/** `/metrics` of a Triton: the model and its ensemble, numbers of the TensorRT-LLM backend, one GPU. No tokens. */
export class TritonMetrics implements RequestCounters {
  readonly #context: NodeContext;
  #successes = 0;
  #iterations = 0;
  readonly #failures = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 };

  constructor(context: NodeContext) {
    this.#context = context;
    context.stepListeners.push(() => {
      this.#iterations += 1;
    });
  }

  finish(): void {
    this.#successes += 1;
  }

  fail(): void {
    this.#failures.BACKEND += 1;
  }

  cancel(): void {
    this.#failures.CANCELED += 1;
  }

  reject(): void {
    this.#failures.REJECTED += 1;
  }

  text(): string {
    const { settings, driver } = this.#context;
    const { batch } = driver;
    const text = new PrometheusText(rustNumber);
    const own = { model: settings.model, version: "1" };
    const family = (name: string, type: string, rows: readonly [Labels, number][]) => {
      text.family(name, type, "");
      for (const [labels, value] of rows) text.sample(name, labels, value);
    };
    const ensemble = { model: "ensemble", version: "1" };
    family("nv_inference_request_success", "counter", [
      [ensemble, this.#successes],
      [own, this.#successes],
    ]);
    const failures = Object.entries(this.#failures);
    family(
      "nv_inference_request_failure",
      "counter",
      failures.map(([reason, count]) => [{ ...own, reason }, count]),
    );
    family("nv_inference_exec_count", "counter", [[own, this.#iterations]]);
    family("nv_inference_pending_request_count", "gauge", [
      [ensemble, 0],
      [own, 0],
    ]);
    const requests = {
      waiting: batch.waitingCount,
      scheduled: batch.runningCount,
      max: settings.maxSequences,
      active: batch.runningCount + batch.waitingCount,
    };
    family(
      "nv_trt_llm_request_metrics",
      "gauge",
      Object.entries(requests).map(([type, count]) => [{ ...own, request_type: type }, count]),
    );
    const max = Math.floor(settings.kvCapacityTokens / BLOCK_TOKENS);
    const used = Math.ceil(batch.kvTokens / BLOCK_TOKENS);
    const blocks = { fraction: used / max, tokens_per: BLOCK_TOKENS, used, free: max - used, max };
    family(
      "nv_trt_llm_kv_cache_block_metrics",
      "gauge",
      Object.entries(blocks).map(([type, count]) => [{ ...own, kv_cache_block_type: type }, count]),
    );
    family("nv_gpu_memory_total_bytes", "gauge", [[{ gpu_uuid: "GPU-0" }, GPU_BYTES]]);
    family("nv_gpu_memory_used_bytes", "gauge", [[{ gpu_uuid: "GPU-0" }, GPU_BYTES - 4 * 2 ** 30]]);
    return text.text();
  }
}
