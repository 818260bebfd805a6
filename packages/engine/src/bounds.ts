/**
 * Every fixed bound of the engine, with the reason for its number. Bounds that an operator may change are in the
 * configuration schema; these are sizes of memory layouts and guards of loops.
 */

/** Families of one policy chain that a decision weighs. Fleets mix a handful; 16 keeps the scratch in two cache lines. */
export const CHAIN_FAMILIES_MAX = 16;

/** Families of one decision whose evidence is kept. A longer chain is decided in full and recorded up to here. */
export const EVIDENCE_FAMILIES_MAX = 8;

/** Models that may be known at once: a queue key packs the model index into 15 bits. */
export const MODELS_MAX = 16_384;

/** Policies that may be known at once: a queue key packs the policy index into 16 bits. */
export const POLICIES_MAX = 65_535;

/** Keys and accounts whose use is counted: 1 KB each of memory that is touched when they are used. */
export const LIMIT_ROWS_MAX = 16_384;

/** Placements (a model on a node) per row of the node table. Fleets serve one or two models a node, LoRA a few more. */
export const PLACEMENTS_PER_NODE = 4;

/** Saturation queues, one for each (account, model, policy) with parked requests: far more than are full at once. */
export const QUEUES_MAX = 1024;

/** Times that one request may find its place taken by another worker before it takes any node with room. */
export const BOOKING_TRIES_MAX = 3;

/** Places that one decision may lose in a row; a worker that looped for ever would serve nobody. */
export const BOOKING_RACES_MAX = 1_000;

/** Tokens that one booking counts: sixteen times the longest context there is, and 128 of them fit an Int32 cell. */
export const BOOKING_TOKENS_MAX = 2 ** 24 - 1;

/** Nodes that one request may fail on. Refused connects do not count as attempts, so the list needs its own bound. */
export const FAILED_NODES_MAX = 64;

/**
 * Resolution of the deadlines that threads share as Int32 cells, ms. 16 ms is far below the shortest sensible cooldown
 * and lets a process run for 2^31 × 16 ms = 397 days before a cell would overflow.
 */
export const TICK_MS = 16;

/** Throughput of a placement about which nothing is known yet, tokens/s: a small model on a mid-range GPU. */
export const DEFAULT_TOKENS_PER_SECOND = 1000;

/** Speed of one request's own stream where nothing is known yet, tokens/s: an 8B model at a 25 ms step. */
export const DEFAULT_STREAM_TOKENS_PER_SECOND = 40;

/**
 * Timing of a model on a node where nothing is known yet. Steps of 25 ms and 1 ms for each request more are the two speeds
 * above (40 tokens/s alone, 1,000 in a large batch); prompts go ten times as fast as decoding, which is the least that
 * computing them in one piece gives. A spread of 1.5 stands for the factor by which a guess is off.
 */
export const DEFAULT_TIMING = {
  stepBaseMs: 1000 / DEFAULT_STREAM_TOKENS_PER_SECOND,
  stepPerRequestMs: 1000 / DEFAULT_TOKENS_PER_SECOND,
  stepPerKvTokenMs: 0,
  stepPerPromptTokenMs: 100 / DEFAULT_TOKENS_PER_SECOND,
  firstBaseMs: 1000 / DEFAULT_STREAM_TOKENS_PER_SECOND,
  firstPerTokenMs: 100 / DEFAULT_TOKENS_PER_SECOND,
  firstPerAheadMs: 100 / DEFAULT_TOKENS_PER_SECOND,
  firstPerSquareMs: 0,
  firstSpread: 1.5,
  tokenSpread: 1.5,
  predictorSamples: 0,
} as const;

/** Prompt of a model that has not answered yet, tokens. */
export const DEFAULT_PROMPT_TOKENS = 512;

/** Output of a model that has not answered yet, tokens. */
export const DEFAULT_OUTPUT_TOKENS = 256;

/** Requests a node takes when neither the operator nor the engine states a limit. */
export const DEFAULT_MAX_IN_FLIGHT = 256;

/** Bounds of `Retry-After`, ms: below a second clients hammer, above a minute SDKs stall their callers. */
export const RETRY_AFTER_MIN_MS = 1_000;
export const RETRY_AFTER_MAX_MS = 60_000;
