import type { NodeContext } from "./engine-behaviour.ts";
import type { GenerationRun } from "./generation.ts";
import { PrometheusText, streamNumber } from "./prometheus-text.ts";

/**
 * `/metrics` of llama.cpp: no labels, no histograms. Generated tokens and times are added when a request ends; the two
 * rates are over the window since the last scrape, which each scrape resets.
 */
export class LlamacppMetrics {
  readonly #context: NodeContext;
  #promptTokens = 0;
  #promptSeconds = 0;
  #predictedTokens = 0;
  #predictedSeconds = 0;
  #window = { promptTokens: 0, promptSeconds: 0, predictedTokens: 0, predictedSeconds: 0 };

  constructor(context: NodeContext) {
    this.#context = context;
  }

  finish(run: GenerationRun): void {
    const { driver } = this.#context;
    const { startedMs, firstTokenMs, lastTokenMs } = run.times;
    const promptSeconds = Number.isNaN(firstTokenMs) ? 0 : driver.realSeconds(firstTokenMs - startedMs);
    const predictedSeconds = Number.isNaN(lastTokenMs) ? 0 : driver.realSeconds(lastTokenMs - firstTokenMs);
    this.#promptTokens += run.request.promptTokens;
    this.#promptSeconds += promptSeconds;
    this.#predictedTokens += run.completionTokens;
    this.#predictedSeconds += predictedSeconds;
    this.#window.promptTokens += run.request.promptTokens;
    this.#window.promptSeconds += promptSeconds;
    this.#window.predictedTokens += run.completionTokens;
    this.#window.predictedSeconds += predictedSeconds;
  }

  text(): string {
    const { batch } = this.#context.driver;
    const window = this.#window;
    this.#window = { promptTokens: 0, promptSeconds: 0, predictedTokens: 0, predictedSeconds: 0 };
    const text = new PrometheusText(streamNumber);
    const row = (name: string, type: string, help: string, value: number) => {
      text.family(`llamacpp:${name}`, type, help);
      text.sample(`llamacpp:${name}`, {}, value);
    };
    row(
      "prompt_tokens_total",
      "counter",
      "Number of prompt tokens processed, excluding cached tokens",
      this.#promptTokens,
    );
    row("prompt_tokens_cached_total", "counter", "Number of prompt tokens reused from the cache", 0);
    row("prompt_seconds_total", "counter", "Total time spent processing prompts", this.#promptSeconds);
    row("tokens_predicted_total", "counter", "Number of generation tokens processed", this.#predictedTokens);
    row("tokens_predicted_seconds_total", "counter", "Total time spent generating tokens", this.#predictedSeconds);
    row(
      "n_decode_total",
      "counter",
      "Total number of llama_decode() calls, excluding speculative decoding and multimodal decoding",
      batch.totals.steps,
    );
    row(
      "n_tokens_max",
      "counter",
      "Largest observed sequence length (prompt + generation)",
      batch.totals.longestSequenceTokens,
    );
    row("spec_decode_num_draft_tokens_total", "counter", "Speculative: Total draft tokens generated", 0);
    row(
      "spec_decode_num_accepted_tokens_total",
      "counter",
      "Speculative: Total draft tokens accepted by the target model",
      0,
    );
    row("spec_decode_num_drafts_total", "counter", "Speculative: Total speculative decoding verification steps", 0);
    row(
      "prompt_tokens_seconds",
      "gauge",
      "Average prompt throughput in tokens/s",
      rate(window.promptTokens, window.promptSeconds),
    );
    row(
      "predicted_tokens_seconds",
      "gauge",
      "Average generation throughput in tokens/s",
      rate(window.predictedTokens, window.predictedSeconds),
    );
    row("requests_processing", "gauge", "Number of requests processing", batch.runningCount);
    row("requests_deferred", "gauge", "Number of requests deferred", batch.waitingCount);
    row(
      "n_busy_slots_per_decode",
      "gauge",
      "Average number of busy slots per llama_decode() call",
      rate(batch.totals.sequenceSteps, batch.totals.steps),
    );
    return text.text();
  }
}

function rate(amount: number, per: number): number {
  return per > 0 ? amount / per : 0;
}
