import { Agent } from "node:http";
import type { ReceivedRouting } from "@zml/protocol/wire";
import { seededRandom } from "../seeded-random.ts";
import type { CallEnd } from "./call.ts";
import { call } from "./call.ts";
import type { PlannedCall } from "./workload.ts";
import { promptText } from "./workload.ts";

/** A call that is open. */
export type OpenCall = {
  readonly isStream: boolean;
  /** On the clock of `performance.now()`. */
  readonly sentAtMs: number;
  /** Where its answer comes from; null before the response's head. */
  node: string | null;
};

export type TrafficOptions = {
  readonly calls: Iterator<PlannedCall, never>;
  readonly model: string;
  readonly dataUrl: string;
  readonly seed: number;
  onSent(): void;
  /** At the head of each response. */
  onHead(call: OpenCall): void;
  onEnd(planned: PlannedCall, end: CallEnd, durationMs: number): void;
};

const WORDS_SEED_OFFSET = 7;

/** Sends the calls of a plan at their times, whether or not earlier ones have ended (open loop). */
export class Traffic {
  /** While true no call streams: see `outage.ts`. */
  isPlainOnly = false;
  readonly #options: TrafficOptions;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #abort = new AbortController();
  readonly #open = new Set<OpenCall>();
  readonly #random;
  #timer: NodeJS.Timeout | undefined;
  #onIdle: (() => void) | null = null;

  constructor(options: TrafficOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed + WORDS_SEED_OFFSET);
  }

  get openCalls(): ReadonlySet<OpenCall> {
    return this.#open;
  }

  start(): void {
    const startMs = performance.now();
    const next = (): void => {
      const planned = this.#options.calls.next().value;
      this.#timer = setTimeout(
        () => {
          this.#send(planned, startMs + planned.atMs);
          next();
        },
        Math.max(0, startMs + planned.atMs - performance.now()),
      );
    };
    next();
  }

  /**
   * Sends no more; resolves when the open calls have ended, or after `graceMs`.
   * @returns how many were still open then; they are broken off and never end for `onEnd`.
   */
  async finish(graceMs: number): Promise<number> {
    clearTimeout(this.#timer);
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, graceMs);
        this.#onIdle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const left = this.#open.size;
    this.stop();
    return left;
  }

  /** Ends everything at once. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
    this.#agent.destroy();
  }

  #send(planned: PlannedCall, dueMs: number): void {
    const { model, dataUrl, onSent, onHead, onEnd } = this.#options;
    const isStream = planned.isStream && !this.isPlainOnly;
    const open: OpenCall = { isStream, sentAtMs: performance.now(), node: null };
    this.#open.add(open);
    onSent();
    const chat = {
      model,
      isStream,
      policy: planned.policy,
      prompt: promptText(planned.promptTokens, this.#random),
      maxTokens: planned.outputTokens,
    };
    const ended = call(chat, {
      agent: this.#agent,
      dataUrl,
      signal: this.#abort.signal,
      onHead: (routing: ReceivedRouting | null) => {
        open.node = routing?.node ?? null;
        onHead(open);
      },
    });
    void ended.then((end) => {
      this.#open.delete(open);
      if (this.#abort.signal.aborted) return;
      onEnd(planned, end, performance.now() - dueMs);
      if (this.#open.size === 0) this.#onIdle?.();
    });
  }
}
