/** What to do at each engine where it does not tell something; see docs/operations/engines.md. */

import type { EngineName } from "@zml/protocol";

interface EngineAdvice {
  /** Where its limit of concurrent requests stands. */
  readonly limit: string;
  /** How its metrics are switched on. */
  readonly metrics: string;
  /** How to find out what it was built for. */
  readonly platform: string;
}

const LOOK_AT_IMAGE = "look at the image that runs there";

export const ENGINE_ADVICE: Readonly<Record<EngineName, EngineAdvice>> = {
  vllm: {
    limit: "to its --max-num-seqs, or a quarter more",
    metrics: "look whether a proxy hides /metrics, or name the page with metrics_url",
    platform:
      "its default wheels do not say: look at the image, or run python -c 'import torch; print(torch.version.hip)' there",
  },
  sglang: {
    limit: "to its --max-running-requests, or a quarter more",
    metrics: "start it with --enable-metrics",
    platform: LOOK_AT_IMAGE,
  },
  llamacpp: {
    limit: "to its --parallel, or a quarter more",
    metrics: "start it with --metrics",
    platform: "its log names the device at the start",
  },
  tgi: {
    limit: "to its --max-concurrent-requests",
    metrics: "its series are there after the first request: ask again, or look whether a proxy hides /metrics",
    platform: LOOK_AT_IMAGE,
  },
  trtllm: {
    limit: "to its max_batch_size, or a quarter more",
    metrics: "start it with return_perf_metrics: true and enable_iter_perf_stats: true",
    platform: LOOK_AT_IMAGE,
  },
  triton: {
    limit: "to the engine's max_batch_size, or a quarter more",
    metrics: "name its metrics page with metrics_url, such as http://HOST:8002/metrics",
    platform: LOOK_AT_IMAGE,
  },
  custom: {
    limit: "to what it can run at once",
    metrics: "map its metrics under custom.metrics, where it has some",
    platform: LOOK_AT_IMAGE,
  },
};
