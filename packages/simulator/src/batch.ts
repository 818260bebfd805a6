import type { NodeConstants, PrefillChunk } from "./step-model.ts";
import { stepMs } from "./step-model.ts";

/** One sequence to compute. `outputTokens` 0 means the prompt only (embeddings). */
export type BatchRequest = { readonly id: number; readonly promptTokens: number; readonly outputTokens: number };

/** What happened at the end (or for `started` the begin) of a step. `index` counts output tokens from 0. */
export type BatchEvent =
  | { readonly kind: "started"; readonly id: number; readonly atMs: number }
  | { readonly kind: "token"; readonly id: number; readonly atMs: number; readonly index: number }
  | { readonly kind: "finished"; readonly id: number; readonly atMs: number };

export type BatchOptions = {
  readonly constants: NodeConstants;
  /** Most sequences in one step (vLLM max_num_seqs, llama.cpp slots). */
  readonly maxSequences: number;
  /** Tokens of one step: decoding sequences take one each, chunks of prompts share the rest. */
  readonly stepTokenBudget: number;
  readonly kvCapacityTokens: number;
  /** A factor on the duration of each step; 1 without noise. */
  readonly stepNoise?: () => number;
  /** Told the tokens of each step (prompt chunks and decoding sequences) when it begins. */
  readonly onStep?: (tokens: number) => void;
};

/** Totals since creation. Prompt tokens include those computed again after a preemption. */
export type BatchTotals = {
  steps: number;
  busyMs: number;
  prefillMs: number;
  promptTokens: number;
  outputTokens: number;
  sequenceSteps: number;
  preemptions: number;
  longestSequenceTokens: number;
};

type Sequence = {
  readonly id: number;
  readonly outputTokens: number;
  promptTokens: number;
  prefilledTokens: number;
  chunkTokens: number;
  emittedTokens: number;
  /** Tokens emitted before the last preemption: they are part of `promptTokens` now. */
  recomputedTokens: number;
  hasStarted: boolean;
};

/**
 * Continuous batching with chunked prefill, step by step, as a state machine without a clock: the caller says what
 * time it is (ms on any monotonic clock; it must never go back). First come, first served. A sequence enters when a
 * place is free and its prompt and half of its output fit into the KV cache beside what is there; when the cache runs
 * over, the youngest sequence is preempted and computed again later.
 *
 * Adding sequences later never makes an earlier one faster. Cost of a step: O(running sequences).
 */
export class Batch {
  readonly totals: BatchTotals = {
    steps: 0,
    busyMs: 0,
    prefillMs: 0,
    promptTokens: 0,
    outputTokens: 0,
    sequenceSteps: 0,
    preemptions: 0,
    longestSequenceTokens: 0,
  };
  readonly #options: BatchOptions;
  #running: Sequence[] = [];
  #waiting: Sequence[] = [];
  #stepEndMs = Number.POSITIVE_INFINITY;
  #pendingStarts: number[] = [];
  #stepStartMs = 0;
  #isAdvancing = false;

  constructor(options: BatchOptions) {
    if (!(options.maxSequences >= 1)) throw new Error(`maxSequences is ${options.maxSequences}: it must be 1 or more`);
    if (!(options.stepTokenBudget >= 1)) {
      throw new Error(`stepTokenBudget is ${options.stepTokenBudget}: it must be 1 or more`);
    }
    this.#options = options;
  }

  /** Sequences in the current step. */
  get runningCount(): number {
    return this.#running.length;
  }

  /** Sequences that wait for a place. */
  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Tokens in the KV cache. */
  get kvTokens(): number {
    let tokens = 0;
    for (const sequence of this.#running) tokens += contextTokens(sequence);
    return tokens;
  }

  /** When the current step ends, in ms; Infinity when idle. */
  get nextEventMs(): number {
    return this.#stepEndMs;
  }

  /** Adds a sequence at `nowMs`. Call `advance(nowMs, …)` before, so that no step of the past sees it. */
  enqueue(request: BatchRequest, nowMs: number): void {
    this.#waiting.push({
      id: request.id,
      outputTokens: request.outputTokens,
      promptTokens: Math.max(1, request.promptTokens),
      prefilledTokens: 0,
      chunkTokens: 0,
      emittedTokens: 0,
      recomputedTokens: 0,
      hasStarted: false,
    });
    if (this.#stepEndMs === Number.POSITIVE_INFINITY) this.#beginStep(nowMs);
  }

  /** Takes a sequence out, running or waiting. Returns false when it isn't here (any more). */
  cancel(id: number): boolean {
    const before = this.#running.length + this.#waiting.length;
    this.#running = this.#running.filter((sequence) => sequence.id !== id);
    this.#waiting = this.#waiting.filter((sequence) => sequence.id !== id);
    return this.#running.length + this.#waiting.length < before;
  }

  /** Runs all steps that end at or before `nowMs` and reports what they did, in order of time. */
  advance(nowMs: number, onEvent: (event: BatchEvent) => void): void {
    // A handler of an event may add a sequence, which asks to advance again: the outer call is at it already.
    if (this.#isAdvancing) return;
    this.#isAdvancing = true;
    try {
      this.#reportStarts(onEvent);
      while (this.#stepEndMs <= nowMs && this.#stepEndMs < Number.POSITIVE_INFINITY) {
        this.#endStep(onEvent);
        this.#reportStarts(onEvent);
      }
    } finally {
      this.#isAdvancing = false;
    }
  }

  #reportStarts(onEvent: (event: BatchEvent) => void): void {
    if (this.#pendingStarts.length === 0) return;
    for (const id of this.#pendingStarts) onEvent({ kind: "started", id, atMs: this.#stepStartMs });
    this.#pendingStarts = [];
  }

  #beginStep(nowMs: number): void {
    this.#admit();
    this.#stepStartMs = nowMs;
    let decodeSequences = 0;
    let cachedTokens = 0;
    for (const sequence of this.#running) {
      sequence.chunkTokens = 0;
      if (!isDecoding(sequence)) continue;
      decodeSequences += 1;
      cachedTokens += contextTokens(sequence);
    }
    const prefills: PrefillChunk[] = [];
    // At least one token, so that prompts go on when decoding sequences fill the budget.
    let budget = Math.max(1, this.#options.stepTokenBudget - decodeSequences);
    for (const sequence of this.#running) {
      if (budget === 0) break;
      if (isDecoding(sequence)) continue;
      sequence.chunkTokens = Math.min(budget, sequence.promptTokens - sequence.prefilledTokens);
      budget -= sequence.chunkTokens;
      prefills.push({ newTokens: sequence.chunkTokens, doneTokens: sequence.prefilledTokens });
    }
    if (this.#running.length === 0) {
      this.#stepEndMs = Number.POSITIVE_INFINITY;
      return;
    }
    const noise = this.#options.stepNoise?.() ?? 1;
    const durationMs = stepMs(this.#options.constants, { decodeSequences, cachedTokens, prefills }) * noise;
    this.totals.steps += 1;
    this.totals.busyMs += durationMs;
    if (prefills.length > 0) this.totals.prefillMs += durationMs;
    this.totals.sequenceSteps += this.#running.length;
    if (this.#options.onStep !== undefined) {
      this.#options.onStep(prefills.reduce((sum, { newTokens }) => sum + newTokens, decodeSequences));
    }
    this.#stepEndMs = nowMs + durationMs;
  }

  #endStep(onEvent: (event: BatchEvent) => void): void {
    const atMs = this.#stepEndMs;
    const staying: Sequence[] = [];
    for (const sequence of this.#running) {
      if (!isDecoding(sequence)) {
        this.totals.promptTokens += sequence.chunkTokens;
        sequence.prefilledTokens += sequence.chunkTokens;
        if (sequence.prefilledTokens < sequence.promptTokens) {
          staying.push(sequence);
          continue;
        }
      }
      if (sequence.outputTokens > 0) {
        onEvent({ kind: "token", id: sequence.id, atMs, index: sequence.emittedTokens });
        sequence.emittedTokens += 1;
        this.totals.outputTokens += 1;
      }
      this.totals.longestSequenceTokens = Math.max(this.totals.longestSequenceTokens, contextTokens(sequence));
      if (sequence.emittedTokens >= sequence.outputTokens) onEvent({ kind: "finished", id: sequence.id, atMs });
      else staying.push(sequence);
    }
    // The handler of an event may have cancelled a sequence: what it took out stays out.
    const present = new Set(this.#running);
    this.#running = staying.filter((sequence) => present.has(sequence));
    this.#preempt();
    this.#beginStep(atMs);
  }

  #admit(): void {
    const { maxSequences, kvCapacityTokens } = this.#options;
    let committed = 0;
    for (const sequence of this.#running) committed += committedTokens(sequence);
    while (this.#running.length < maxSequences) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      const expected = next.promptTokens + (next.outputTokens - next.emittedTokens) / 2;
      // A sequence that is alone always runs, so that one that is too large can't block the queue for ever.
      if (this.#running.length > 0 && committed + expected > kvCapacityTokens) return;
      this.#waiting.shift();
      this.#running.push(next);
      committed += committedTokens(next);
      if (!next.hasStarted) this.#pendingStarts.push(next.id);
      next.hasStarted = true;
    }
  }

  #preempt(): void {
    while (this.#running.length > 1 && this.kvTokens + this.#running.length > this.#options.kvCapacityTokens) {
      const youngest = this.#running.pop();
      if (youngest === undefined) return;
      youngest.promptTokens += youngest.emittedTokens - youngest.recomputedTokens;
      youngest.recomputedTokens = youngest.emittedTokens;
      youngest.prefilledTokens = 0;
      this.#waiting.unshift(youngest);
      this.totals.preemptions += 1;
    }
  }
}

function isDecoding(sequence: Sequence): boolean {
  return sequence.prefilledTokens >= sequence.promptTokens;
}

function contextTokens(sequence: Sequence): number {
  return sequence.prefilledTokens + sequence.emittedTokens - sequence.recomputedTokens;
}

function committedTokens(sequence: Sequence): number {
  return sequence.promptTokens + sequence.emittedTokens - sequence.recomputedTokens;
}
