/** The fleet, the policies and the timing that recorded requests are replayed on. Structured-cloneable. */

import type { PolicyData } from "@zml/engine";
import type { NodeConstants } from "../step-model.ts";

export interface ReplayNode {
  readonly id: string;
  /** Index into `families`. */
  readonly family: number;
  readonly maxInFlight: number;
  /** Sequences that it computes at one time; NaN: not known. */
  readonly concurrencyLimit: number;
  /** NaN: unknown. */
  readonly usdPerHour: number;
  /** Index into `NODE_STATES` as the window begins. */
  readonly state: NodeState;
  readonly models: readonly {
    readonly model: number;
    /** NaN: not known. */
    readonly kvCapacityTokens: number;
    readonly contextTokens: number;
    /** Capacity that decisions were made on as the window begins; NaN: none were. */
    readonly tokensPerSecond: number;
    /** Capacity that answers are charged by as the window begins; NaN: the one that decisions are made on. */
    readonly chargedTokensPerSecond: number;
    /** Factor on the time of its steps against the family. */
    readonly slowness: number;
  }[];
}

/** `silent`: its polls fail, so that it gets no request; those that run there go on. */
export type NodeState = "up" | "down" | "silent" | "draining";

/** An attempt that taught the gateway before the window began, with the load of its time. */
export interface Lesson {
  /** When it ended, since the window began, ms. */
  readonly atMs: number;
  readonly row: number;
  readonly model: number;
  /** What was predicted of it, ms; NaN: nothing. */
  readonly predictedFirstMs: number;
  readonly predictedTokenMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** NaN: its answer did not stream. */
  readonly firstTokenMs: number;
  readonly durationMs: number;
  /** Requests on the node when it was sent, and prompt tokens that waited there. */
  readonly depth: number;
  readonly aheadTokens: number;
  /** Of its time there, itself included: mean requests, mean cached tokens, prompt tokens of others that were computed. */
  readonly meanDepth: number;
  readonly meanCachedTokens: number;
  readonly prefilledTokens: number;
}

/** What happens to a node. Times since the window began, ms. */
export type ReplayEvent =
  | { readonly atMs: number; readonly node: number; readonly kind: "state"; readonly state: NodeState }
  | { readonly atMs: number; readonly node: number; readonly kind: "price"; readonly usdPerHour: number }
  | {
      readonly atMs: number;
      readonly node: number;
      /** Capacity that decisions were made on from then on. */
      readonly kind: "speed";
      readonly model: number;
      readonly tokensPerSecond: number;
    }
  | {
      readonly atMs: number;
      readonly node: number;
      /** Capacity that answers are charged by from then on. */
      readonly kind: "charge";
      readonly model: number;
      readonly tokensPerSecond: number;
    };

/** How long a model takes on a family, as fitted on what was recorded. */
export interface FittedTiming {
  readonly model: number;
  readonly family: number;
  readonly constants: Omit<NodeConstants, "kvCapacityTokens">;
  /** What an answer takes beside the node's steps: network, gateway, the engine's own handling, ms. */
  readonly overheadMs: number;
  /** By how much first tokens came later than that, ms: quantiles, as far apart as each other; empty: not known. */
  readonly firstLateMs: readonly number[];
  /** Attempts that it was fitted on; 0: nothing was recorded, and it is what the model does elsewhere. */
  readonly samples: number;
  /** Median of |replayed ÷ recorded − 1| over single attempts that stay where they were; NaN: none. */
  readonly tokenError: number;
  readonly responseError: number;
}

/** A request that came before the window or after it, and where it ran. It is load, and counts for nothing. */
export interface OutsideCall {
  /** Since the window began, ms. */
  readonly atMs: number;
  readonly model: number;
  readonly policy: number;
  readonly node: number;
  /** Index into `ENDPOINTS`. */
  readonly endpoint: number;
  readonly isStream: boolean;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** The caller's limit, NaN: none. */
  readonly maxTokens: number;
}

export interface ReplayPlan {
  readonly families: readonly string[];
  readonly nodes: readonly ReplayNode[];
  /** Models of one kin are one model to a node that has both: its steps are of them together. */
  readonly models: readonly { readonly account: string; readonly name: string; readonly kin: number }[];
  /** By the index that requests name; of the same account as the request. */
  readonly policies: readonly PolicyData[];
  readonly accounts: readonly string[];
  readonly events: readonly ReplayEvent[];
  readonly timings: readonly FittedTiming[];
  readonly failover: { readonly maxAttempts: number; readonly windowMs: number; readonly retryBudget: number };
  readonly pollEveryMs: number;
  /** Fill the nodes before the window begins, in order, each on the node where it ran. Empty: `warmUp` does. */
  readonly earlier: readonly OutsideCall[];
  /** Come after the window, in order, for as long as requests of the window run: who came last had company too. */
  readonly later: readonly OutsideCall[];
  /** Requests from the window's beginning that fill the nodes before it begins; 0: a gateway began with the window. */
  readonly warmUp: number;
  /** What a gateway had learned that ran before the window. */
  readonly lessons: readonly Lesson[];
  /** By model: prompt tokens as nodes count them over those estimated; NaN: not known. */
  readonly promptRatios: readonly number[];
  readonly seed: number;
}

/** Where a node's memory is not known: no bound. */
export const KV_UNKNOWN_TOKENS = 2 ** 30;
/** Where an engine does not tell how many sequences it computes at one time: the default of vLLM. */
export const SEQUENCES_UNKNOWN = 256;
/** Prompt tokens of a step, the default of vLLM. */
export const STEP_TOKENS = 2_048;

/** The timing of a model on a family. */
export function timingOf(plan: Pick<ReplayPlan, "timings">, model: number, family: number): FittedTiming {
  const found = plan.timings.find((timing) => timing.model === model && timing.family === family);
  if (found === undefined) throw new Error(`no timing of model ${model} on family ${family}: a fault of the back-test`);
  return found;
}
