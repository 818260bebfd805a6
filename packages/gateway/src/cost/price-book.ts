/**
 * The provider cost table: the last good price of every key, kept by the feeds. Whatever a feed does wrong, the last
 * good price stays, with its age, and an alarm says so.
 */

import { type Config, type FeedConfig, parsePriceReference } from "@zml/protocol";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { Secret } from "../config/secret.ts";
import type { GatewayLog } from "../control/gateway-log.ts";
import { acceptQuotes } from "./accept-quotes.ts";
import { FeedError } from "./feed-context.ts";
import { type FeedAnswer, FeedRunner, type RunnerClock } from "./feed-runner.ts";
import { FEEDS, type Feed } from "./feeds/index.ts";
import { type PriceAlarm, priceAlarms, tellChanges } from "./price-alarms.ts";
import { type PriceHistory, RecentPrices } from "./price-history.ts";
import { datedAfter, type PricePoint, sourceOf } from "./quote.ts";

/** How often ages are looked at while no feed says anything, ms. */
const LOOK_EVERY_MS = 1_000;
/** Points that a store may bring back. */
const RESTORED_MAX = 100_000;

export interface PriceBookOptions {
  readonly log: GatewayLog;
  readonly clock: RunnerClock;
  /** Called right after prices changed, with their keys. */
  readonly onChange: (keys: ReadonlySet<string>) => void;
  /** Default: none but what is in memory. */
  readonly history?: PriceHistory;
  /** For tests. Default: the product's. */
  readonly feeds?: Readonly<Record<string, Feed>>;
}

/** A price and what is known about it. */
export interface PriceEntry {
  readonly feed: string;
  point: PricePoint;
  /** GPUs of one instance; null: restored, not fetched yet. */
  gpus: number | null;
  /** Monotonic time of the last fetch that confirmed it, ms. */
  confirmedAtMs: number;
  /** From a store, and not confirmed since. */
  isRestored: boolean;
}

/** A feed and how it does. */
export interface FeedState {
  readonly config: FeedConfig;
  readonly runner: FeedRunner;
  /** Monotonic, ms; NaN: never. */
  lastSuccessMs: number;
  lastAttemptMs: number;
  /** Of the last fetch; null: it was good. */
  error: string | null;
  notes: readonly string[];
  problems: ReadonlyMap<string, string>;
  held: ReadonlyMap<string, number>;
  /** Keys of the last good answer. */
  delivered: ReadonlySet<string>;
  /** By kind and key; what was logged. */
  alarms: ReadonlyMap<string, PriceAlarm>;
}

export class PriceBook {
  readonly #options: PriceBookOptions;
  readonly #entries = new Map<string, PriceEntry>();
  readonly #feeds = new Map<string, FeedState>();
  readonly #recent = new RecentPrices();
  /** Price key → ids of the nodes that name it. */
  #users: ReadonlyMap<string, readonly string[]> = new Map();
  /** Feed → those of its keys that a node names. */
  #usedOf: ReadonlyMap<string, readonly string[]> = new Map();
  #stopping: Promise<unknown>[] = [];
  #lookTimer: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(options: PriceBookOptions) {
    this.#options = options;
  }

  /** Every price, by key. */
  get entries(): ReadonlyMap<string, PriceEntry> {
    return this.#entries;
  }

  get feeds(): ReadonlyMap<string, FeedState> {
    return this.#feeds;
  }

  /** USD per GPU-hour; NaN: unknown. */
  usdPerGpuHour(key: string): number {
    return this.#entries.get(key)?.point.usdPerGpuHour ?? Number.NaN;
  }

  /** Time since a fetch confirmed the price, ms; NaN: unknown. */
  ageMs(key: string): number {
    const entry = this.#entries.get(key);
    return entry === undefined ? Number.NaN : this.#options.clock.nowMs() - entry.confirmedAtMs;
  }

  usersOf(key: string): readonly string[] {
    return this.#users.get(key) ?? [];
  }

  /** Every key that a node names. */
  get usedKeys(): Iterable<string> {
    return this.#users.keys();
  }

  /** The last changes of a price since a node names it, oldest first. */
  changesOf(key: string): readonly PricePoint[] {
    return this.#recent.of(key);
  }

  /**
   * Runs the feeds of a configuration. A feed that did not change keeps its prices and timers; one that changed asks at
   * once and keeps its prices while they are from the same place; one that went takes its prices along.
   */
  configure(config: Config, secrets: ConfigSecrets): void {
    if (this.#isStopped) return;
    this.#users = usersByKey(config);
    this.#usedOf = Map.groupBy(this.#users.keys(), (key) => parsePriceReference(key)?.feed ?? "");
    const wanted = new Map(config.prices.feeds.map((feed) => [feed.name, feed]));
    for (const name of [...this.#feeds.keys()]) {
      if (!wanted.has(name)) this.#remove(name);
    }
    let isAnyNew = false;
    for (const [name, feed] of wanted) {
      const apiKey = secrets.feeds.get(name) ?? null;
      const before = this.#feeds.get(name);
      if (before?.runner.isFor(feed, apiKey) === true) continue;
      isAnyNew = true;
      if (before !== undefined) this.#replace(before, feed);
      this.#start(feed, apiKey, before);
    }
    if (isAnyNew) void this.#restore();
    this.#recordFirsts();
    this.#look();
    if (this.#feeds.size > 0) {
      this.#lookTimer ??= setInterval(() => this.#look(), LOOK_EVERY_MS);
      this.#lookTimer.unref();
    }
  }

  /** Ends every feed. Resolves when nothing of them runs. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#lookTimer !== null) clearInterval(this.#lookTimer);
    for (const { runner } of this.#feeds.values()) this.#stopping.push(runner.stop());
    await Promise.all(this.#stopping);
  }

  #start(config: FeedConfig, apiKey: Secret | null, before: FeedState | undefined): void {
    const runner = new FeedRunner({
      config,
      apiKey,
      feed: (this.#options.feeds ?? FEEDS)[config.provider] as Feed,
      clock: this.#options.clock,
      events: {
        onAnswer: (answer) => this.#take(state, answer),
        onFailure: (error) => this.#fail(state, error),
      },
    });
    const state: FeedState = {
      config,
      runner,
      lastSuccessMs: Number.NaN,
      lastAttemptMs: Number.NaN,
      error: null,
      notes: [],
      problems: new Map(),
      held: new Map(),
      delivered: new Set(),
      alarms: before?.alarms ?? new Map(),
    };
    this.#feeds.set(config.name, state);
    runner.start();
  }

  #remove(name: string): void {
    const state = this.#feeds.get(name);
    if (state === undefined) return;
    this.#end(state.runner);
    this.#feeds.delete(name);
    this.#forget(name);
  }

  #replace(before: FeedState, next: FeedConfig): void {
    this.#end(before.runner);
    if (sourceOf(before.config) !== sourceOf(next)) this.#forget(next.name);
  }

  #end(runner: FeedRunner): void {
    const end = runner.stop().finally(() => {
      this.#stopping = this.#stopping.filter((other) => other !== end);
    });
    this.#stopping.push(end);
  }

  #forget(feed: string): void {
    const gone = new Set<string>();
    for (const [key, entry] of this.#entries) {
      if (entry.feed !== feed) continue;
      this.#entries.delete(key);
      this.#recent.delete(key);
      gone.add(key);
    }
    if (gone.size > 0) this.#options.onChange(gone);
  }

  /** Prices from before this start, for keys that have none yet. */
  async #restore(): Promise<void> {
    const { history, log, clock, onChange } = this.#options;
    if (history === undefined) return;
    let points: readonly PricePoint[];
    try {
      points = await history.loadLatest();
    } catch (error) {
      log.warn(
        { error: nameOf(error) },
        "the prices of the last run could not be read: they are unknown until fetched",
      );
      return;
    }
    if (this.#isStopped) return;
    const restored = new Set<string>();
    for (const point of points.slice(0, RESTORED_MAX)) {
      const { key, usdPerGpuHour, observedAtMs, fetchedAtMs } = point;
      const feed = parsePriceReference(key)?.feed;
      const state = feed === undefined ? undefined : this.#feeds.get(feed);
      if (feed === undefined || state === undefined || this.#entries.has(key)) continue;
      if (point.source !== "" && point.source !== sourceOf(state.config)) continue;
      const isPrice = Number.isFinite(usdPerGpuHour) && usdPerGpuHour >= 0;
      if (!isPrice || !Number.isFinite(observedAtMs) || !Number.isFinite(fetchedAtMs)) continue;
      // the wall clock may have been set back since
      const ageMs = Math.max(0, clock.unixMs() - fetchedAtMs);
      this.#entries.set(key, { feed, point, gpus: null, confirmedAtMs: clock.nowMs() - ageMs, isRestored: true });
      if (this.#users.has(key)) this.#recent.add(point);
      restored.add(key);
    }
    if (restored.size === 0) return;
    log.info({ prices: restored.size }, "prices of the last run count until the first fetch");
    onChange(restored);
    this.#look();
  }

  #take(state: FeedState, { quotes, notes, fetchedAtMs }: FeedAnswer): void {
    const { provider, maxChange, name } = state.config;
    const nowMs = this.#options.clock.nowMs();
    const canBeFree = provider === "file" || provider === "url";
    const accepted = acceptQuotes(
      quotes,
      { maxChange, canBeFree, fetchedAtMs, source: sourceOf(state.config) },
      (key) => this.#entries.get(key)?.point.usdPerGpuHour,
      state.held,
    );
    const changed: PricePoint[] = [];
    for (const [key, { gpus, ...stated }] of accepted.good) {
      const before = this.#entries.get(key);
      const isSame = before !== undefined && before.point.usdPerGpuHour === stated.usdPerGpuHour;
      const point = before === undefined ? stated : datedAfter(before.point, stated);
      // lists hold thousands of prices that no node has
      if (!isSame && this.#users.has(key)) changed.push(point);
      this.#entries.set(key, { feed: name, point, gpus, confirmedAtMs: nowMs, isRestored: false });
    }
    const delivered = new Set([...accepted.good.keys(), ...accepted.problems.keys()]);
    // what is neither delivered nor named by a node would stay for ever
    for (const [key, entry] of this.#entries) {
      if (entry.feed !== name || delivered.has(key) || this.#users.has(key)) continue;
      this.#entries.delete(key);
      this.#recent.delete(key);
    }
    state.held = accepted.held;
    state.problems = accepted.problems;
    state.delivered = delivered;
    state.notes = notes;
    state.lastAttemptMs = nowMs;
    if (accepted.good.size === 0) {
      const [[key, text] = ["", ""]] = accepted.problems;
      state.error = `no price of the answer can be used: ${key}: ${text}`;
    } else {
      state.error = null;
      state.lastSuccessMs = nowMs;
    }
    // first the decisions, then the record of them
    if (changed.length > 0) this.#options.onChange(new Set(changed.map(({ key }) => key)));
    this.#record(changed);
    this.#look();
  }

  /** Prices that were there before a node named them. */
  #recordFirsts(): void {
    const firsts: PricePoint[] = [];
    for (const key of this.#users.keys()) {
      const entry = this.#entries.get(key);
      if (entry !== undefined && this.#recent.of(key).length === 0) firsts.push(entry.point);
    }
    this.#record(firsts);
  }

  #record(changed: readonly PricePoint[]): void {
    if (changed.length === 0) return;
    for (const point of changed) this.#recent.add(point);
    try {
      this.#options.history?.append(changed);
    } catch (error) {
      this.#options.log.error({ error: nameOf(error) }, "price changes could not be recorded");
    }
  }

  #fail(state: FeedState, error: Error): void {
    state.lastAttemptMs = this.#options.clock.nowMs();
    // only our own texts are known to be free of secrets
    state.error = error instanceof FeedError ? error.message : `a fault inside the gateway (${error.name})`;
    if (!(error instanceof FeedError)) {
      const at = error.stack
        ?.split("\n")
        .find((line) => line.includes("    at "))
        ?.trim();
      this.#options.log.error(
        { feed: state.config.name, error: error.name, at },
        "a price feed failed inside the gateway",
      );
    }
    this.#look();
  }

  /** Compares what is wrong with what was wrong, and says what is new: once per change. */
  #look(): void {
    for (const state of this.#feeds.values()) {
      const feed = state.config.name;
      const alarms = priceAlarms(state, this.#usedOf.get(feed) ?? [], (key) => this.ageMs(key));
      tellChanges(this.#options.log, { feed, before: state.alarms, now: alarms, usersOf: (key) => this.usersOf(key) });
      state.alarms = alarms;
    }
  }
}

function usersByKey({ nodes }: Config): Map<string, string[]> {
  const users = new Map<string, string[]>();
  for (const { priceKey, id } of nodes) {
    if (priceKey === null) continue;
    const ids = users.get(priceKey);
    if (ids === undefined) users.set(priceKey, [id]);
    else ids.push(id);
  }
  return users;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "unknown";
}
