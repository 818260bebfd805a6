/** One feed at work: its timer, deadline and back-off, and what its last answers said. */

import { isDeepStrictEqual } from "node:util";
import type { FeedConfig } from "@zml/protocol";
import type { Secret } from "../config/secret.ts";
import { untilAborted } from "../until-aborted.ts";
import { FeedError } from "./feed-context.ts";
import type { Feed } from "./feeds/index.ts";
import type { Quote } from "./quote.ts";

/** First pause after a failure, ms; it doubles up to the maximum, so that a list of once a day is not lost for a day. */
const BACK_OFF_MS = 10_000;
const BACK_OFF_MAX_MS = 900_000;
/** Share of a pause by which it varies, so that feeds that started together don't ask together for ever. */
const JITTER = 0.1;
/** How often a watched source is looked at, ms. Two looks that agree: whoever wrote it is done. */
const WATCH_MS = 400;
/** Remarks on one answer that are kept, and their length: names out of a list stand in them. */
const NOTES_MAX = 20;
const NOTE_CHARACTERS_MAX = 300;

/** What the time and chance of a runner come from. */
export interface RunnerClock {
  /** Monotonic, ms. */
  nowMs(): number;
  /** Wall clock, Unix ms. */
  unixMs(): number;
  /** From 0 to 1. */
  random(): number;
}

/** An answer of a feed. */
export interface FeedAnswer {
  readonly quotes: readonly Quote[];
  /** What was left out, in words. */
  readonly notes: readonly string[];
  /** Unix ms. */
  readonly fetchedAtMs: number;
}

/** What a runner tells its owner. */
export interface RunnerEvents {
  onAnswer(answer: FeedAnswer): void;
  onFailure(error: Error): void;
}

export interface RunnerOptions {
  readonly config: FeedConfig;
  readonly apiKey: Secret | null;
  readonly feed: Feed;
  readonly clock: RunnerClock;
  readonly events: RunnerEvents;
}

/** Fetches until it is stopped; never two fetches at a time. */
export class FeedRunner {
  readonly #options: RunnerOptions;
  #isStopped = false;
  #timer: NodeJS.Timeout | null = null;
  #watchTimer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  /** Ends the fetch that runs. */
  #ending: AbortController | null = null;
  #failures = 0;
  #nextAtMs = Number.NaN;
  /** Versions of a watched source: at the last fetch, and at the last look. */
  #fetchedVersion = "";
  #seenVersion = "";

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  get config(): FeedConfig {
    return this.#options.config;
  }

  /** Failed fetches since the last good one. */
  get failures(): number {
    return this.#failures;
  }

  /** Monotonic time of the next fetch, ms; NaN while one runs. */
  get nextAtMs(): number {
    return this.#nextAtMs;
  }

  /** Whether a configuration asks for the very same. */
  isFor(config: FeedConfig, apiKey: Secret | null): boolean {
    const { config: own, apiKey: ownKey } = this.#options;
    const isSameKey = apiKey === null || ownKey === null ? apiKey === ownKey : apiKey.equals(ownKey);
    return isSameKey && isDeepStrictEqual(config, own);
  }

  start(): void {
    this.#fetch();
    if (this.#options.feed.sourceVersion !== undefined) {
      this.#watchTimer = setTimeout(() => void this.#look(), WATCH_MS);
      this.#watchTimer.unref();
    }
  }

  /** Ends it; what runs is aborted and not waited for by anything else. Resolves when nothing of it runs. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#ending?.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#watchTimer !== null) clearTimeout(this.#watchTimer);
    await this.#running;
  }

  #fetch(): void {
    if (this.#running !== null || this.#isStopped) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#nextAtMs = Number.NaN;
    this.#running = this.#fetchOnce().then((pauseMs) => {
      this.#running = null;
      if (this.#isStopped) return;
      this.#nextAtMs = this.#options.clock.nowMs() + pauseMs;
      this.#timer = setTimeout(() => this.#fetch(), pauseMs);
      this.#timer.unref();
    });
  }

  /** Never rejects. Returns the pause to the next fetch, ms. */
  async #fetchOnce(): Promise<number> {
    const { config, apiKey, feed, clock, events } = this.#options;
    const ending = new AbortController();
    this.#ending = ending;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      ending.abort();
    }, config.timeoutMs);
    const { signal } = ending;
    const notes: string[] = [];
    const note = (text: string): void => {
      if (notes.length < NOTES_MAX) notes.push(text.slice(0, NOTE_CHARACTERS_MAX));
    };
    try {
      const version = await untilAborted(feed.sourceVersion?.({ config }) ?? Promise.resolve(""), signal, fetchEnded);
      this.#fetchedVersion = version;
      const fetched = feed.fetchPrices({ config, apiKey, signal, unixMs: clock.unixMs(), note });
      const quotes = await untilAborted(fetched, signal, fetchEnded);
      if (this.#isStopped) return 0;
      if (quotes.length === 0) throw new FeedError(emptyText(notes));
      this.#failures = 0;
      events.onAnswer({ quotes, notes, fetchedAtMs: clock.unixMs() });
      return jittered(config.intervalMs, clock.random());
    } catch (error) {
      if (this.#isStopped) return 0;
      this.#failures += 1;
      const failure = isLate
        ? new FeedError(`no whole answer within timeout_ms (${config.timeoutMs})`)
        : asError(error);
      events.onFailure(failure);
      const first = Math.min(BACK_OFF_MS, config.intervalMs);
      const backOffMs = Math.min(first * 2 ** Math.min(this.#failures - 1, 20), BACK_OFF_MAX_MS);
      const statedMs = failure instanceof FeedError ? failure.retryAfterMs : 0;
      return Math.max(jittered(backOffMs, clock.random()), statedMs);
    } finally {
      clearTimeout(timer);
      this.#ending = null;
    }
  }

  /** Fetches before the time when the source changed and stands still. A source that can't be seen is left to the timer. */
  async #look(): Promise<void> {
    const { config, feed } = this.#options;
    const version = await feed.sourceVersion?.({ config }).catch(() => undefined);
    if (this.#isStopped) return;
    if (version !== undefined) {
      if (version !== this.#fetchedVersion && version === this.#seenVersion) this.#fetch();
      this.#seenVersion = version;
    }
    this.#watchTimer = setTimeout(() => void this.#look(), WATCH_MS);
    this.#watchTimer.unref();
  }
}

function fetchEnded(): FeedError {
  return new FeedError("the fetch was ended");
}

function emptyText(notes: readonly string[]): string {
  const [first] = notes;
  return first === undefined
    ? "the answer has no price of these regions and instance types"
    : `the answer has no price that can be used: ${first}`;
}

function jittered(ms: number, random: number): number {
  return ms * (1 - JITTER + 2 * JITTER * random);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
