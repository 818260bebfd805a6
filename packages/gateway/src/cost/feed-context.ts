/** What a feed's fetch is given, what it gives back, and how it fails. */

import type { FeedConfig, Market } from "@zml/protocol";
import type { Secret } from "../config/secret.ts";
import { loadOptional } from "../optional-package.ts";
import type { Quote } from "./quote.ts";

/** Most prices that one feed may deliver: more is a list without a filter. */
export const QUOTES_MAX = 10_000;

/** What a fetch works with. */
export interface FeedContext {
  readonly config: FeedConfig;
  /** The key from the environment; `null`: none, or it stands in a file. */
  readonly apiKey: Secret | null;
  /** Aborts when the fetch's time is over or the feed stops. */
  readonly signal: AbortSignal;
  /** Wall clock, Unix ms. */
  readonly unixMs: number;
  /** Tells of something in the answer that was left out, for the report. Bounded by its receiver. */
  readonly note: (text: string) => void;
}

/** One provider's way to prices. Rejects with {@link FeedError}; anything else is a fault of the gateway. */
export type FetchPrices = (context: FeedContext) => Promise<Quote[]>;

/** A name for the state of what is asked, which changes when a fetch is worth while before its time. */
export type SourceVersion = (context: Pick<FeedContext, "config">) => Promise<string>;

/** Why a fetch gave no prices. The text is for the operator and holds nothing that the provider wrote freely. */
export class FeedError extends Error {
  /** Ask no sooner than this, ms; 0: nobody said. */
  readonly retryAfterMs: number;

  constructor(message: string, { retryAfterMs = 0, cause }: { retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, { cause });
    this.name = "FeedError";
    this.retryAfterMs = retryAfterMs;
  }
}

/** A price of a feed: the parts that every quote of it shares filled in. */
export function quoteOf(
  { config, unixMs }: FeedContext,
  price: {
    readonly region: string;
    readonly instanceType: string;
    readonly gpus: number;
    readonly market: Market;
    /** USD per hour of the whole instance. */
    readonly usdPerHour: number;
    /** Default: now. */
    readonly observedAtMs?: number;
  },
): Quote {
  return {
    feed: config.name,
    account: config.cloudAccount,
    region: price.region,
    instanceType: price.instanceType,
    gpus: price.gpus,
    market: price.market,
    usdPerGpuHour: price.usdPerHour / price.gpus,
    observedAtMs: price.observedAtMs ?? unixMs,
  };
}

/**
 * Asks region by region. One that fails is noted and leaves the others their prices; when none has any, its error is the
 * feed's.
 */
export async function perRegion(
  context: FeedContext,
  fetchRegion: (region: string) => Promise<readonly Quote[]>,
): Promise<Quote[]> {
  const quotes: Quote[] = [];
  let first: FeedError | null = null;
  for (const region of context.config.regions) {
    try {
      quotes.push(...(await fetchRegion(region)));
    } catch (error) {
      if (!(error instanceof FeedError) || context.signal.aborted) throw error;
      first ??= error;
      context.note(`${region}: ${error.message}`);
    }
  }
  if (quotes.length === 0 && first !== null) throw first;
  return quotes;
}

/** The middle of some numbers; the mean of the two middle ones when there is no single one. NaN: no numbers. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const half = sorted.length >> 1;
  const upper = sorted[half] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2;
}

/**
 * A package that only one feed needs.
 *
 * @throws FeedError that says what to install.
 */
export function optionalPackage<T>(name: string, load: () => Promise<T>): Promise<T> {
  return loadOptional(name, load, (text, cause) => new FeedError(text, { cause }));
}

/** The region of a price that is the same everywhere, or that its provider doesn't place. */
export const ANY_REGION = "any";

/** Whether a list of the configuration names it; an empty list wants all. */
export function isWanted(list: readonly string[], name: string): boolean {
  return list.length === 0 || list.includes(name);
}

/** The instance type of the configuration with this name. */
export function typeNamed({ config }: FeedContext, name: string): FeedConfig["instanceTypes"][number] | undefined {
  return config.instanceTypes.find((type) => type.name === name);
}
