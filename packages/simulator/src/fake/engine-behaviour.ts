import type { RandomSource } from "../seeded-random.ts";
import type { NodeConstants } from "../step-model.ts";
import type { BatchDriver } from "./batch-driver.ts";
import type { Exchange, HeaderMap } from "./exchange.ts";
import type { Faults } from "./faults.ts";
import type { GenerationRun } from "./generation.ts";

export type EngineKind = "vllm" | "sglang" | "tgi" | "llamacpp" | "trtllm" | "triton";

/** What decides the number of output tokens: `limit` is Infinity when the caller gave none. */
export type OutputTokensFunction = (request: {
  readonly promptTokens: number;
  readonly limit: number;
  readonly random: RandomSource;
}) => number;

/** Options of a fake node after defaults. */
export type NodeSettings = {
  readonly id: string;
  readonly engine: EngineKind;
  readonly model: string;
  readonly aliases: readonly string[];
  readonly constants: NodeConstants;
  readonly speedUp: number;
  readonly seed: number;
  readonly stepNoiseSigma: number;
  readonly maxSequences: number;
  readonly stepTokenBudget: number;
  readonly kvCapacityTokens: number;
  readonly maxModelLen: number;
  readonly maxQueuedRequests: number;
  readonly maxConcurrentRequests: number;
  readonly apiKey: string;
  readonly outputTokens: OutputTokensFunction;
  readonly pingIntervalMs: number;
  readonly keepAliveMs: number;
  readonly shutdownTimeoutMs: number;
  readonly terminateSilenceMs: number;
  readonly loadMs: number;
  readonly httpThreads: number;
  readonly echoesRequestId: boolean;
  readonly hasMetrics: boolean;
  readonly hasOldMetricNames: boolean;
  readonly disconnectPollMs: number;
  readonly dataParallelRanks: number;
  readonly healthWaitMs: number;
  readonly accelerator: string;
};

/** What an engine sees of the node it runs on. One context lives from a start to the next stop. */
export type NodeContext = {
  readonly settings: NodeSettings;
  readonly driver: BatchDriver;
  readonly random: RandomSource;
  readonly faults: Faults;
  readonly runs: Set<GenerationRun>;
  /** Told the tokens of each engine step. */
  readonly stepListeners: ((tokens: number) => void)[];
  readonly startedUnixS: number;
  /** Stops accepting connections. */
  closeListener(): void;
  /** Cuts the open exchanges that `isWanted` picks. */
  cutExchanges(isWanted: (exchange: Exchange) => boolean): void;
  /** The process ends now: listener and all sockets close. */
  exit(how: "fin" | "rst"): void;
  /** Calls back after `ms`, unless the node has stopped by then. */
  after(ms: number, callback: () => void): void;
};

/** HTTP habits of an engine's server. 0 stands for "no limit" in `keepAliveMs` and `maxRequestsPerConnection`. */
export type HttpHabits = {
  readonly headers: HeaderMap;
  /** Content type of JSON answers. */
  readonly jsonType: string;
  readonly keepAliveMs: number;
  readonly maxRequestsPerConnection: number;
  readonly hasConnectionHint: boolean;
  readonly maxBodyBytes: number;
};

export type EngineBehaviour = {
  handle(exchange: Exchange): void;
  /** The engine's own answer when it is full; `retryAfterS` NaN means no `Retry-After`. */
  overloaded(exchange: Exchange, retryAfterS: number): void;
  /** The engine's own answer to a wrong key or a wrong model. */
  misconfigured(exchange: Exchange, code: 401 | 404): void;
  bodyTooLarge(exchange: Exchange): void;
  /** SIGTERM. */
  terminate(): void;
  /** The engine core dies under a living HTTP server. */
  engineDeath(): void;
};

export function retryAfterHeader(retryAfterS: number): HeaderMap {
  return Number.isNaN(retryAfterS) ? {} : { "retry-after": retryAfterS };
}
