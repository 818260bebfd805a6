/** What answers took of their nodes, as they were charged for it over a window. */

import { isPromptOnly } from "@zml/engine";
import type { RecordedSpeed } from "./recorded-window.ts";

/** Parts of a window that are charged by one capacity each, at most. */
const PARTS = 60;
/** Attempts of a part, at least: fewer tell which of the nodes they happened to be on. */
const ATTEMPTS_MIN = 100;

/** An attempt, as its record tells it; times in ms since the window began, NaN: unknown. */
export interface ChargedAttempt {
  readonly node: number;
  readonly model: number;
  /** Index into ENDPOINTS. */
  readonly endpoint: number;
  readonly outcome: string;
  readonly sentMs: number;
  readonly estimatedTokens: number;
  readonly outputTokens: number;
  readonly priceUsdPerHour: number;
  readonly usd: number;
}

interface Part {
  hours: number;
  tokens: number;
  attempts: number;
}

/**
 * Hours of a node that a token was charged with, by node and model: dollars over price over tokens, so that a replay that
 * makes the same choices comes to the dollars that were recorded.
 */
export class RecordedCharges {
  readonly #partMs: number;
  /** By node and model; by time since the window began, in lengths of a part. */
  readonly #parts = new Map<string, Map<number, Part>>();

  /** @param lengthMs of the window. */
  constructor(lengthMs: number) {
    this.#partMs = Math.max(1, lengthMs) / PARTS;
  }

  note({ node, model, endpoint, outcome, sentMs, usd, priceUsdPerHour, ...told }: ChargedAttempt): void {
    const tokens = isPromptOnly(endpoint) ? told.estimatedTokens : told.outputTokens;
    if (outcome !== "success" || !(tokens > 0) || !(usd > 0) || !(priceUsdPerHour > 0)) return;
    const key = `${node} ${model}`;
    const parts = this.#parts.get(key) ?? new Map<number, Part>();
    this.#parts.set(key, parts);
    addTo(parts, Math.floor(sentMs / this.#partMs), { hours: usd / priceUsdPerHour, tokens, attempts: 1 });
  }

  /**
   * Capacities that a model's answers were charged by on some nodes together, over time; none: nothing was charged there.
   * Nodes that nothing tells apart are asked for together: which of them has the load is chance, and the meter of one that
   * has little of it tells what it did and not what it can. Of the time before the window only where the window has nothing.
   */
  of(nodes: readonly number[], model: number): RecordedSpeed[] {
    const together = new Map<number, Part>();
    for (const node of nodes) {
      for (const [at, part] of this.#parts.get(`${node} ${model}`) ?? []) addTo(together, at, part);
    }
    const parts = [...together].sort(([a], [b]) => a - b);
    const later = parts.filter(([at]) => at >= 0);
    const joined: [number, Part][] = [];
    for (const [at, part] of later.length > 0 ? later : parts.reverse()) {
      const last = joined.at(-1)?.[1];
      if (last !== undefined && last.attempts < ATTEMPTS_MIN) add(last, part);
      else joined.push([at, { ...part }]);
    }
    if (later.length === 0) joined.splice(1);
    const [, rest] = joined.length > 1 ? (joined.at(-1) as [number, Part]) : [0, null];
    if (rest !== null && rest.attempts < ATTEMPTS_MIN) {
      joined.pop();
      add(joined.at(-1)?.[1] as Part, rest);
    }
    return joined.map(([at, { hours, tokens }]) => ({
      atMs: at * this.#partMs,
      tokensPerSecond: tokens / hours / 3600,
    }));
  }
}

function addTo(parts: Map<number, Part>, at: number, more: Part): void {
  const part = parts.get(at);
  if (part === undefined) parts.set(at, { ...more });
  else add(part, more);
}

function add(part: Part, more: Part): void {
  part.hours += more.hours;
  part.tokens += more.tokens;
  part.attempts += more.attempts;
}
