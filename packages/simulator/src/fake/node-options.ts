import { nodeConstants } from "../node-constants.ts";
import type { RandomSource } from "../seeded-random.ts";
import { logNormalFactor } from "../seeded-random.ts";
import type { NodeConstants } from "../step-model.ts";
import type { EngineKind, NodeSettings, OutputTokensFunction } from "./engine-behaviour.ts";

/** Options of `startFakeNode`. Only engine, hardware and model are needed. */
export type FakeNodeOptions = {
  readonly engine: EngineKind;
  /** Key of `data/node-params.csv`, for example `H100-SXM-80GB/llama-3-8b/bf16/1`. */
  readonly hardware: string;
  /** The model's name on this node. */
  readonly model: string;
  readonly id?: string;
  /** More names of the model (vLLM). */
  readonly aliases?: readonly string[];
  /** Instead of the constants of `hardware`. */
  readonly constants?: NodeConstants;
  readonly host?: string;
  /** 0 (default) takes a free port, kept over restarts. */
  readonly port?: number;
  /** How much faster than the real accelerator; default 1. */
  readonly speedUp?: number;
  /** Default 1. Same seed, same texts and lengths. */
  readonly seed?: number;
  /** Sigma of the log-normal factor on each step; default 0. */
  readonly stepNoiseSigma?: number;
  /** Sequences in one batch; default 256, llama.cpp 4. */
  readonly maxSequences?: number;
  /** Tokens of one step; default 2048. */
  readonly stepTokenBudget?: number;
  /** Default: that of the hardware. */
  readonly kvCapacityTokens?: number;
  /** Context length in tokens; default 8192. */
  readonly maxModelLen?: number;
  /**
   * vLLM `--max-num-queued-reqs`: running and waiting; SGLang `--max-queued-requests`: waiting on one rank; default none.
   */
  readonly maxQueuedRequests?: number;
  /** TGI `--max-concurrent-requests`; default 128. */
  readonly maxConcurrentRequests?: number;
  /** Bearer key that the node asks for; default none. */
  readonly apiKey?: string;
  /** Tokens that the model wants to say; default about 128. The answer has min(this, the caller's limit). */
  readonly outputTokens?: number | OutputTokensFunction;
  /** Real ms between comment pings: llama.cpp 1,000, TGI 15,000. */
  readonly pingIntervalMs?: number;
  /** Real ms until an idle connection is closed: 5,000; TGI 0 (never). */
  readonly keepAliveMs?: number;
  /** vLLM `--shutdown-timeout` in real ms; 0 (default) aborts at once. */
  readonly shutdownTimeoutMs?: number;
  /** Real ms of silence of a llama.cpp after SIGTERM; default 30,000. */
  readonly terminateSilenceMs?: number;
  /** Real ms during which llama.cpp says "Loading model", and SGLang's `/health` refuses; default 0. */
  readonly loadMs?: number;
  /** llama.cpp HTTP workers, each busy for a whole exchange; default 24. */
  readonly httpThreads?: number;
  /** vLLM `--enable-request-id-headers`; default false. */
  readonly echoesRequestId?: boolean;
  /** SGLang `--enable-metrics`, trtllm-serve's two options; default false. Triton's front end: default true. */
  readonly hasMetrics?: boolean;
  /** trtllm-serve before 1.3: names of metrics without a prefix; default false. */
  readonly hasOldMetricNames?: boolean;
  /** Real ms until trtllm-serve notices a caller who left; default 1,000, others at once. */
  readonly disconnectPollMs?: number;
  /** SGLang `--dp-size`: ranks that share what the node has; default 1. */
  readonly dataParallelRanks?: number;
  /** Real ms after which SGLang's `/health` looks for its token, again and again; default 1,000. */
  readonly healthWaitMs?: number;
  /** Name of the accelerator in SGLang's `/v1/loads`; default `NVIDIA H100 80GB HBM3`. */
  readonly accelerator?: string;
  /** Keep a log of what arrived; default true. */
  readonly record?: boolean;
  /** Requests in the log; default 1,000. */
  readonly keepRequests?: number;
  /** Bytes of each body in the log; default 64 KiB. */
  readonly keepBodyBytes?: number;
};

let nodeCount = 0;

/** Fills in the defaults of the engine. Throws when a number makes no sense. */
export function resolveSettings(options: FakeNodeOptions): NodeSettings {
  const constants = options.constants ?? nodeConstants(options.hardware);
  const speedUp = options.speedUp ?? 1;
  const ranks = options.dataParallelRanks ?? 1;
  if (!Number.isInteger(ranks) || ranks < 1) throw new Error(`dataParallelRanks is ${ranks}: it must be 1 or more`);
  if (!(speedUp > 0)) throw new Error(`speedUp is ${speedUp}: it must be above 0`);
  nodeCount += 1;
  const { engine } = options;
  const wanted = options.outputTokens ?? defaultOutputTokens;
  return {
    id: options.id ?? `${engine}-${nodeCount}`,
    engine,
    model: options.model,
    aliases: options.aliases ?? [],
    constants,
    speedUp,
    seed: options.seed ?? 1,
    stepNoiseSigma: options.stepNoiseSigma ?? 0,
    maxSequences: options.maxSequences ?? (engine === "llamacpp" ? 4 : 256),
    stepTokenBudget: options.stepTokenBudget ?? 2048,
    kvCapacityTokens: options.kvCapacityTokens ?? constants.kvCapacityTokens,
    maxModelLen: options.maxModelLen ?? 8192,
    maxQueuedRequests: options.maxQueuedRequests ?? Infinity,
    maxConcurrentRequests: options.maxConcurrentRequests ?? 128,
    apiKey: options.apiKey ?? "",
    outputTokens: typeof wanted === "number" ? () => wanted : wanted,
    pingIntervalMs: options.pingIntervalMs ?? (engine === "tgi" ? 15_000 : 1000),
    keepAliveMs: options.keepAliveMs ?? (engine === "tgi" ? 0 : 5000),
    shutdownTimeoutMs: options.shutdownTimeoutMs ?? 0,
    terminateSilenceMs: options.terminateSilenceMs ?? 30_000,
    loadMs: options.loadMs ?? 0,
    // A burst of 24 left the real server's default workers with none for `/health`.
    httpThreads: engine === "llamacpp" ? (options.httpThreads ?? 24) : Infinity,
    echoesRequestId: options.echoesRequestId ?? false,
    hasMetrics: options.hasMetrics ?? engine === "triton",
    hasOldMetricNames: options.hasOldMetricNames ?? false,
    disconnectPollMs: options.disconnectPollMs ?? (engine === "trtllm" ? 1000 : 0),
    dataParallelRanks: ranks,
    healthWaitMs: options.healthWaitMs ?? 1000,
    accelerator: options.accelerator ?? "NVIDIA H100 80GB HBM3",
  };
}

function defaultOutputTokens({ random }: { readonly random: RandomSource }): number {
  return Math.max(1, Math.round(128 * logNormalFactor(random, 0.5)));
}
