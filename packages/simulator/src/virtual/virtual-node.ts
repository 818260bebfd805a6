/**
 * One node in virtual time, after §2 of the routing benchmark's node model: continuous batching, chunked prefill, KV
 * memory with preemption, prefix cache. The same rules as `Batch`, which the fake engines run step by step; here steps
 * that only decode are taken in one jump by the closed form of their sum, until a sequence finishes, the memory runs
 * over, or a request comes.
 */

import type { NodeConstants } from "../step-model.ts";
import { BLOCK_TOKENS, PrefixCache } from "./prefix-cache.ts";

export interface VirtualNodeOptions {
  readonly constants: NodeConstants;
  /** Most sequences in one step. */
  readonly maxSequences: number;
  /** Tokens of one step: decoding sequences take one each, chunks of prompts share the rest. */
  readonly stepTokenBudget: number;
  /**
   * Factor on the time of a run of so many steps; absent: 1. Steps with independent factors of a small spread σ have a
   * mean of spread σ ÷ √steps, so one draw stands for a jump.
   */
  readonly noise?: (steps: number) => number;
  onFirstToken(id: number, atMs: number): void;
  onFinished(id: number, atMs: number): void;
}

/** A sequence to compute. */
export interface VirtualRequest {
  readonly id: number;
  /** At least 1. */
  readonly promptTokens: number;
  /** At least 1. */
  readonly outputTokens: number;
  /** Ids of the prompt's full 512-token blocks, null: shares nothing. */
  readonly blocks: Int32Array | null;
}

/** What a sequence had when its node went down. */
export interface DroppedSequence {
  readonly id: number;
  readonly emittedTokens: number;
}

interface Sequence {
  readonly id: number;
  readonly outputTokens: number;
  readonly blocks: Int32Array | null;
  promptTokens: number;
  prefilled: number;
  chunk: number;
  emitted: number;
  recomputed: number;
  /** Blocks of the prefix cache that it holds. */
  held: number;
}

export class VirtualNode {
  /** When the present run ends, ms; Infinity while idle. */
  nextEventMs = Number.POSITIVE_INFINITY;
  /** Busy stretches, ms: start, end, start, … An odd length means that one runs. */
  readonly busy: number[] = [];
  /** Totals since creation. Prompt tokens include those computed again; those found in the prefix cache are not in it. */
  readonly totals = { promptTokens: 0, prefixTokens: 0, outputTokens: 0, preemptions: 0, runs: 0 };

  readonly #options: VirtualNodeOptions;
  readonly #cache = new PrefixCache();
  #running: Sequence[] = [];
  #waiting: Sequence[] = [];
  #firstWaiting = 0;
  /** Sequences of `#running` whose prompt is not done. */
  #prefilling = 0;
  /** Σ of the contexts of `#running`, tokens, shared ones counted each time. */
  #context = 0;
  #slowness = 1;

  #runStartMs = 0;
  /** Steps of the present run; 0: idle. A run with prefill has one. */
  #runSteps = 0;
  #isDecodeRun = false;
  /** T(j) = j × `#perStepMs` + j(j − 1)/2 × `#growthMs`: duration of the first j steps of a decode run. */
  #perStepMs = 0;
  #growthMs = 0;

  constructor(options: VirtualNodeOptions) {
    if (!(options.maxSequences >= 1)) throw new Error(`maxSequences is ${options.maxSequences}: it must be 1 or more`);
    if (!(options.stepTokenBudget >= 1)) {
      throw new Error(`stepTokenBudget is ${options.stepTokenBudget}: it must be 1 or more`);
    }
    this.#options = options;
  }

  /**
   * The node as it is, to go on by itself. O(sequences).
   *
   * @param options of the copy: hardware and limits are those of the original.
   * @throws Error when prefixes are cached: copies of caches are not made.
   */
  copy(options: VirtualNodeOptions): VirtualNode {
    if (this.#cache.size > 0) throw new Error("a node with cached prefixes can't be copied");
    const copy = new VirtualNode(options);
    copy.nextEventMs = this.nextEventMs;
    copy.busy.push(...this.busy);
    Object.assign(copy.totals, this.totals);
    copy.#running = this.#running.map((sequence) => ({ ...sequence }));
    copy.#waiting = this.#waiting.slice(this.#firstWaiting).map((sequence) => ({ ...sequence }));
    copy.#prefilling = this.#prefilling;
    copy.#context = this.#context;
    copy.#slowness = this.#slowness;
    copy.#runStartMs = this.#runStartMs;
    copy.#runSteps = this.#runSteps;
    copy.#isDecodeRun = this.#isDecodeRun;
    copy.#perStepMs = this.#perStepMs;
    copy.#growthMs = this.#growthMs;
    return copy;
  }

  /** Tokens that its KV cache holds. */
  get capacityTokens(): number {
    return this.#options.constants.kvCapacityTokens;
  }

  get runningCount(): number {
    return this.#running.length;
  }

  get waitingCount(): number {
    return this.#waiting.length - this.#firstWaiting;
  }

  /** Tokens in the KV cache that sequences hold, as of the last step boundary that was looked at. */
  get usedTokens(): number {
    return this.#context - this.#cache.sharedTokens;
  }

  /** Output tokens since creation, up to now. */
  outputTokensAt(nowMs: number): number {
    return this.totals.outputTokens + this.#stepsDone(nowMs) * this.#running.length;
  }

  /** Adds a request: it joins at the first step that begins after `nowMs`. Time never goes back. */
  enqueue(request: VirtualRequest, nowMs: number): void {
    this.advance(nowMs);
    const hadWaiting = this.waitingCount > 0;
    this.#waiting.push({
      id: request.id,
      outputTokens: request.outputTokens,
      blocks: request.blocks,
      promptTokens: Math.max(1, request.promptTokens),
      prefilled: 0,
      chunk: 0,
      emitted: 0,
      recomputed: 0,
      held: 0,
    });
    if (this.#runSteps === 0) {
      this.busy.push(nowMs);
      this.#begin(nowMs);
    } else if (!hadWaiting && this.#running.length < this.#options.maxSequences) {
      // who waits behind others that do not fit changes nothing
      this.#endAfterPresentStep(nowMs);
    }
  }

  /** Runs everything that ends at or before `nowMs`. */
  advance(nowMs: number): void {
    while (this.nextEventMs <= nowMs && this.#runSteps > 0) this.#end();
  }

  /** From the next step on everything takes so many times as long: a node that is ill without saying so. */
  setSlowness(factor: number, nowMs: number): void {
    this.advance(nowMs);
    this.#slowness = factor;
    if (this.#runSteps > 0) this.#endAfterPresentStep(nowMs);
  }

  /** Goes down: everything that was there is lost. */
  drop(nowMs: number): DroppedSequence[] {
    this.advance(nowMs);
    const steps = this.#stepsDone(nowMs);
    this.totals.outputTokens += steps * this.#running.length;
    const lost = this.#running.map(({ id, emitted }) => ({ id, emittedTokens: emitted + steps }));
    for (const { id, emitted } of this.#waiting.slice(this.#firstWaiting)) lost.push({ id, emittedTokens: emitted });
    this.#running = [];
    this.#waiting = [];
    this.#firstWaiting = 0;
    this.#prefilling = 0;
    this.#context = 0;
    this.#cache.clear();
    if (this.#runSteps > 0) this.busy.push(nowMs);
    this.#runSteps = 0;
    this.nextEventMs = Number.POSITIVE_INFINITY;
    return lost;
  }

  /** Steps of a decode run that are over; 0 in a run with prefill, which has one step. */
  #stepsDone(nowMs: number): number {
    return this.#runSteps === 0 || !this.#isDecodeRun ? 0 : this.#stepAt(nowMs) - 1;
  }

  /** 1-based step of a decode run that is being computed at `nowMs`: the first that ends after it. */
  #stepAt(nowMs: number): number {
    const elapsedMs = nowMs - this.#runStartMs;
    const linear = this.#perStepMs - this.#growthMs / 2;
    // T(j) = linear × j + growth/2 × j²; the root is made exact by looking at its neighbours
    const root =
      this.#growthMs > 0
        ? (-linear + Math.sqrt(linear * linear + 2 * this.#growthMs * elapsedMs)) / this.#growthMs
        : elapsedMs / linear;
    let step = Math.max(1, Math.min(this.#runSteps, Math.floor(root)));
    while (step > 1 && this.#durationMs(step - 1) > elapsedMs) step -= 1;
    while (step < this.#runSteps && this.#durationMs(step) <= elapsedMs) step += 1;
    return step;
  }

  #durationMs(steps: number): number {
    return steps * this.#perStepMs + ((steps * (steps - 1)) / 2) * this.#growthMs;
  }

  #endAfterPresentStep(nowMs: number): void {
    if (!this.#isDecodeRun) return;
    const step = this.#stepAt(nowMs);
    if (step >= this.#runSteps) return;
    this.#runSteps = step;
    this.nextEventMs = this.#runStartMs + this.#durationMs(step);
  }

  #begin(nowMs: number): void {
    this.#admit();
    const running = this.#running.length;
    if (running === 0) {
      this.#runSteps = 0;
      this.nextEventMs = Number.POSITIVE_INFINITY;
      this.busy.push(nowMs);
      return;
    }
    this.totals.runs += 1;
    this.#runStartMs = nowMs;
    this.#isDecodeRun = this.#prefilling === 0;
    if (this.#isDecodeRun) this.#beginDecodeRun(running);
    else this.#beginMixedStep();
    this.nextEventMs = nowMs + this.#durationMs(this.#runSteps);
  }

  #beginDecodeRun(running: number): void {
    const { constants } = this.#options;
    let steps = Number.POSITIVE_INFINITY;
    for (const { outputTokens, emitted } of this.#running) {
      const left = outputTokens - emitted;
      if (left < steps) steps = left;
    }
    if (running > 1) {
      const room = constants.kvCapacityTokens - running - this.usedTokens;
      steps = Math.min(steps, Math.max(1, Math.floor(room / running) + 1));
    }
    const factor = this.#factor(steps);
    this.#runSteps = steps;
    this.#perStepMs =
      factor *
      (constants.baseMs +
        (constants.usPerSequence * running) / 1e3 +
        (constants.nsPerCachedToken * this.#context) / 1e6);
    this.#growthMs = (factor * constants.nsPerCachedToken * running) / 1e6;
  }

  #beginMixedStep(): void {
    const { constants, stepTokenBudget } = this.#options;
    let decoding = 0;
    let cached = 0;
    for (const sequence of this.#running) {
      sequence.chunk = 0;
      if (sequence.prefilled < sequence.promptTokens) continue;
      decoding += 1;
      cached += contextOf(sequence);
    }
    // at least one token, so that prompts go on when decoding sequences fill the budget
    let budget = Math.max(1, stepTokenBudget - decoding);
    let prefillTokens = 0;
    let squares = 0;
    for (const sequence of this.#running) {
      if (budget === 0) break;
      const left = sequence.promptTokens - sequence.prefilled;
      if (left <= 0) continue;
      const chunk = budget < left ? budget : left;
      sequence.chunk = chunk;
      budget -= chunk;
      prefillTokens += chunk;
      squares += chunk * chunk + 2 * chunk * sequence.prefilled;
    }
    const decode = constants.baseMs + (constants.usPerSequence * decoding) / 1e3;
    const compute = (constants.usPerPrefillToken * (prefillTokens + decoding)) / 1e3;
    const rest = (constants.nsPerCachedToken * cached + constants.nsPerSquaredPrefillToken * squares) / 1e6;
    this.#runSteps = 1;
    this.#perStepMs = this.#factor(1) * (Math.max(decode, compute) + rest);
    this.#growthMs = 0;
  }

  #factor(steps: number): number {
    return this.#slowness * (this.#options.noise?.(steps) ?? 1);
  }

  #end(): void {
    const atMs = this.nextEventMs;
    const steps = this.#runSteps;
    const running = this.#running;
    let kept = 0;
    for (let index = 0; index < running.length; index++) {
      const sequence = running[index] as Sequence;
      if (sequence.prefilled < sequence.promptTokens) {
        this.totals.promptTokens += sequence.chunk;
        this.#context += sequence.chunk;
        sequence.prefilled += sequence.chunk;
        if (sequence.prefilled < sequence.promptTokens) {
          running[kept++] = sequence;
          continue;
        }
        this.#prefilling -= 1;
        this.#shareBlocks(sequence);
      }
      const isFirst = sequence.emitted === 0;
      sequence.emitted += steps;
      this.#context += steps;
      this.totals.outputTokens += steps;
      if (isFirst) this.#options.onFirstToken(sequence.id, atMs);
      if (sequence.emitted < sequence.outputTokens) {
        running[kept++] = sequence;
        continue;
      }
      this.#context -= contextOf(sequence);
      this.#releaseBlocks(sequence);
      this.#options.onFinished(sequence.id, atMs);
    }
    running.length = kept;
    this.#preempt();
    this.#evict();
    this.#begin(atMs);
  }

  #admit(): void {
    if (this.waitingCount === 0) return;
    const { maxSequences, constants } = this.#options;
    let committed = -this.#cache.sharedTokens;
    for (const sequence of this.#running) committed += committedOf(sequence);
    while (this.#running.length < maxSequences) {
      const next = this.#waiting[this.#firstWaiting];
      if (next === undefined) break;
      // one token at least is computed, since the first output token comes out of it
      const found = next.blocks === null ? 0 : this.#cache.match(next.blocks, mostBlocks(next.promptTokens));
      const alreadyHeld = found === 0 ? 0 : this.#cache.heldAmong(next.blocks as Int32Array, found) * BLOCK_TOKENS;
      const expected = next.promptTokens + (next.outputTokens - next.emitted) / 2 - alreadyHeld;
      // a sequence that is alone always runs, so that one that is too large can't block the queue for ever
      if (this.#running.length > 0 && committed + expected > constants.kvCapacityTokens) break;
      this.#firstWaiting += 1;
      if (found > 0) this.#cache.hold(next.blocks as Int32Array, 0, found);
      next.held = found;
      next.prefilled = found * BLOCK_TOKENS;
      this.totals.prefixTokens += next.prefilled;
      this.#context += next.prefilled;
      this.#prefilling += 1;
      this.#running.push(next);
      committed += committedOf(next) - alreadyHeld;
    }
    this.#evict();
    if (this.#firstWaiting > 1024 || this.#firstWaiting === this.#waiting.length) {
      this.#waiting.splice(0, this.#firstWaiting);
      this.#firstWaiting = 0;
    }
  }

  /** The youngest give way while the next step would not fit, and are computed again later. */
  #preempt(): void {
    const { kvCapacityTokens } = this.#options.constants;
    while (this.#running.length > 1 && this.usedTokens + this.#running.length > kvCapacityTokens) {
      const youngest = this.#running.pop() as Sequence;
      this.#context -= contextOf(youngest);
      if (youngest.prefilled < youngest.promptTokens) this.#prefilling -= 1;
      this.#releaseBlocks(youngest);
      youngest.promptTokens += youngest.emitted - youngest.recomputed;
      youngest.recomputed = youngest.emitted;
      youngest.prefilled = 0;
      if (this.#firstWaiting > 0) this.#waiting[--this.#firstWaiting] = youngest;
      else this.#waiting.unshift(youngest);
      this.totals.preemptions += 1;
    }
  }

  /** A prompt that is done stands in the cache for others. */
  #shareBlocks(sequence: Sequence): void {
    const { blocks, held } = sequence;
    if (blocks === null || held === blocks.length) return;
    this.#cache.hold(blocks, held, blocks.length);
    sequence.held = blocks.length;
  }

  #releaseBlocks(sequence: Sequence): void {
    if (sequence.held === 0) return;
    this.#cache.release(sequence.blocks as Int32Array, sequence.held);
    sequence.held = 0;
  }

  #evict(): void {
    if (this.#cache.size === 0) return;
    const room = this.#options.constants.kvCapacityTokens - this.usedTokens;
    this.#cache.shrinkIdle(Math.max(0, Math.floor(room / BLOCK_TOKENS)));
  }
}

/** Blocks of a prompt that may be found rather than computed. */
function mostBlocks(promptTokens: number): number {
  return Math.floor((promptTokens - 1) / BLOCK_TOKENS);
}

function contextOf({ prefilled, emitted, recomputed }: Sequence): number {
  return prefilled + emitted - recomputed;
}

function committedOf({ promptTokens, emitted, recomputed }: Sequence): number {
  return promptTokens + emitted - recomputed;
}
