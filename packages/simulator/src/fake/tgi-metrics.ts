import type { NodeContext } from "./engine-behaviour.ts";
import type { GenerationRun } from "./generation.ts";
import type { Labels } from "./prometheus-text.ts";
import { Histogram, PrometheusText, rustNumber } from "./prometheus-text.ts";

export type TgiFailure = "overloaded" | "validation" | "template" | "incomplete" | "dropped" | "generation";

const DURATIONS = Array.from({ length: 35 }, (_, n) => 0.0001 * 1.5 ** (n + 1));

/**
 * `/metrics` of TGI. A series exists only after it was first recorded; there is no model label. Latencies are real
 * seconds, lengths are tokens and are added at completion.
 */
export class TgiMetrics {
  readonly #context: NodeContext;
  readonly #counters = new Map<string, Map<string, { labels: Labels; value: number }>>();
  readonly #histograms = new Map<string, Histogram>();

  constructor(context: NodeContext) {
    this.#context = context;
  }

  count(name: string, labels: Labels = {}): void {
    const rows = this.#counters.get(name) ?? new Map<string, { labels: Labels; value: number }>();
    this.#counters.set(name, rows);
    const key = JSON.stringify(labels);
    const row = rows.get(key) ?? { labels, value: 0 };
    row.value += 1;
    rows.set(key, row);
  }

  fail(err: TgiFailure): void {
    this.count("tgi_request_failure", { err });
  }

  finish(run: GenerationRun): void {
    const { driver, settings } = this.#context;
    const { arrivedMs, startedMs, lastTokenMs } = run.times;
    const tokens = run.completionTokens;
    this.count("tgi_request_success");
    this.#length("tgi_request_input_length", run.request.promptTokens, settings.maxModelLen);
    this.#length("tgi_request_generated_tokens", tokens, settings.maxModelLen);
    const limit = Number.isNaN(run.request.maxTokens)
      ? settings.maxModelLen - run.request.promptTokens
      : run.request.maxTokens;
    this.#length("tgi_request_max_new_tokens", limit, settings.maxModelLen);
    if (Number.isNaN(lastTokenMs)) return;
    this.#duration("tgi_request_duration", driver.realSeconds(lastTokenMs - arrivedMs));
    this.#duration("tgi_request_validation_duration", 0.0002);
    this.#duration("tgi_request_queue_duration", driver.realSeconds(startedMs - arrivedMs));
    this.#duration("tgi_request_inference_duration", driver.realSeconds(lastTokenMs - startedMs));
    const perToken = driver.realSeconds(lastTokenMs - startedMs) / Math.max(1, tokens);
    this.#duration("tgi_request_mean_time_per_token_duration", perToken);
  }

  text(): string {
    const { batch } = this.#context.driver;
    const { kvCapacityTokens } = this.#context.settings;
    const text = new PrometheusText(rustNumber);
    const gauge = (name: string, value: number) => {
      text.family(name, "gauge");
      text.sample(name, {}, value);
    };
    for (const [name, rows] of this.#counters) {
      text.family(name, "counter");
      for (const { labels, value } of rows.values()) text.sample(name, labels, value);
    }
    if (batch.totals.steps > 0) {
      gauge("tgi_queue_size", batch.waitingCount);
      gauge("tgi_batch_current_size", batch.runningCount);
      gauge("tgi_batch_current_max_tokens", batch.kvTokens);
      gauge("tgi_batch_max_total_tokens", kvCapacityTokens);
    }
    for (const [name, histogram] of this.#histograms) {
      text.family(name, "histogram");
      text.histogram(name, {}, histogram);
    }
    return text.text();
  }

  #duration(name: string, seconds: number): void {
    this.#observe(name, seconds, DURATIONS);
  }

  #length(name: string, tokens: number, largest: number): void {
    this.#observe(
      name,
      tokens,
      Array.from({ length: 100 }, (_, n) => (largest / 100) * (n + 1)),
    );
  }

  #observe(name: string, value: number, bounds: readonly number[]): void {
    const histogram = this.#histograms.get(name) ?? new Histogram(bounds);
    this.#histograms.set(name, histogram);
    histogram.observe(value);
  }
}
