import { performance } from "node:perf_hooks";
import type { Batch, BatchEvent } from "../batch.ts";

export type SequenceListener = {
  /** `atMs` is on the driver's clock: model ms. */
  onStarted?(atMs: number): void;
  onToken(index: number, atMs: number): void;
  onFinished(atMs: number): void;
};

/**
 * Runs a batch in real time with one timer. Model time runs `speedUp` times faster than the clock; steps that end
 * between two ticks of the timer are made up for in order.
 */
export class BatchDriver {
  readonly batch: Batch;
  readonly #speedUp: number;
  readonly #originMs = performance.now();
  readonly #listeners = new Map<number, SequenceListener>();
  #timer: NodeJS.Timeout | undefined;
  #nextId = 0;

  constructor(batch: Batch, speedUp: number) {
    this.batch = batch;
    this.#speedUp = speedUp;
  }

  /** Now, in model ms. */
  get nowMs(): number {
    return (performance.now() - this.#originMs) * this.#speedUp;
  }

  /** Real seconds of a span of model ms. */
  realSeconds(modelMs: number): number {
    return modelMs / this.#speedUp / 1e3;
  }

  submit(promptTokens: number, outputTokens: number, listener: SequenceListener): number {
    const id = this.#nextId;
    this.#nextId += 1;
    this.#advance();
    this.#listeners.set(id, listener);
    this.batch.enqueue({ id, promptTokens, outputTokens }, this.nowMs);
    this.#arm();
    return id;
  }

  cancel(id: number): void {
    if (!this.#listeners.delete(id)) return;
    this.batch.cancel(id);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#listeners.clear();
  }

  #advance(): void {
    this.batch.advance(this.nowMs, (event) => this.#report(event));
  }

  #report(event: BatchEvent): void {
    const listener = this.#listeners.get(event.id);
    if (listener === undefined) return;
    switch (event.kind) {
      case "started":
        listener.onStarted?.(event.atMs);
        return;
      case "token":
        listener.onToken(event.index, event.atMs);
        return;
      case "finished":
        this.#listeners.delete(event.id);
        listener.onFinished(event.atMs);
        return;
    }
  }

  #arm(): void {
    if (this.#timer !== undefined || this.batch.nextEventMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(0, (this.batch.nextEventMs - this.nowMs) / this.#speedUp);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#advance();
      this.#arm();
    }, waitMs);
  }
}
