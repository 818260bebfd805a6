/** Attempts of a window: those that timing is fitted on, those that failed, and the capacities that they were sent on. */

import { ENDPOINTS } from "@zml/engine";
import type { RecordedAttempt } from "@zml/simulator/backtest";
import type { WindowFleet } from "./read-fleet.ts";
import { RecordedSpeeds } from "./recorded-speeds.ts";
import type { RecordedWindow } from "./recorded-window.ts";

/** Attempts that timing is fitted on, at most about. */
const FIT_ATTEMPTS_MAX = 60_000;
/** Stretches of the window that they are from, if it has more. */
const FIT_STRETCHES = 6;
/** A node whose attempts fail this long before its polls do was down already, ms. */
const DOWN_BEFORE_MS = 20_000;

/** An attempt, as its record tells it; times in ms since the window began, NaN: unknown. */
export interface SeenAttempt {
  readonly node: number;
  readonly model: number;
  /** Index into ENDPOINTS. */
  readonly endpoint: number;
  readonly outcome: string;
  /** HTTP status; -1: no answer came. */
  readonly status: number;
  readonly sentMs: number;
  readonly firstMs: number;
  readonly durationMs: number;
  readonly predictedFirstMs: number;
  readonly predictedTokenMs: number;
  /** Of the prompt, as the node told it, without what its cache held. */
  readonly promptTokens: number;
  readonly estimatedTokens: number;
  readonly outputTokens: number;
  readonly tokensPerSecond: number;
}

export class RecordedAttempts {
  readonly #groups = new Map<string, { node: number; model: number; attempts: RecordedAttempt[] }>();
  readonly #speeds = new RecordedSpeeds();
  readonly #failures: { node: number; atMs: number }[] = [];
  readonly #fitShare: number;
  /** Where in the window its records are, ms. */
  readonly #seen: { readonly fromMs: number; readonly lengthMs: number };

  /** @param seen where in the window its records are, ms. @param most records that there can be */
  constructor(seen: { readonly fromMs: number; readonly lengthMs: number }, most: number) {
    this.#seen = seen;
    this.#fitShare = Math.min(1, FIT_ATTEMPTS_MAX / most);
  }

  note(seen: SeenAttempt): void {
    const { node, model, endpoint, outcome, sentMs, firstMs, durationMs, promptTokens, outputTokens } = seen;
    const key = `${node} ${model}`;
    const share = (sentMs - this.#seen.fromMs) / this.#seen.lengthMs;
    // what came after the window is company, and decided nothing in it
    if (seen.tokensPerSecond > 0 && share <= 1) this.#speeds.add(key, sentMs, share, seen.tokensPerSecond);
    if (outcome === "failure" && seen.status < 0) {
      this.#failures.push({ node, atMs: sentMs + (Number.isNaN(durationMs) ? 0 : durationMs) });
      return;
    }
    const isGenerated = endpoint < ENDPOINTS.indexOf("embeddings");
    if (outcome !== "success" || !isGenerated || !(outputTokens >= 1) || !this.#isFitted(sentMs)) return;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { node, model, attempts: [] };
      this.#groups.set(key, group);
    }
    group.attempts.push({
      sentAtMs: sentMs,
      firstTokenMs: firstMs,
      durationMs,
      promptTokens: Math.max(1, Number.isNaN(promptTokens) ? seen.estimatedTokens : promptTokens),
      outputTokens,
      predictedFirstMs: seen.predictedFirstMs,
      predictedTokenMs: seen.predictedTokenMs,
    });
  }

  /** Whole stretches, so that the company of an attempt is there as well. */
  #isFitted(atMs: number): boolean {
    if (this.#fitShare === 1) return true;
    const stretch = ((atMs - this.#seen.fromMs) / this.#seen.lengthMs) * FIT_STRETCHES;
    return stretch - Math.floor(stretch) < this.#fitShare;
  }

  speeds(): RecordedWindow["speeds"] {
    return this.#speeds.all();
  }

  /** By node and model, each group by time. */
  byTime(): RecordedWindow["attempts"] {
    for (const { attempts } of this.#groups.values()) attempts.sort((a, b) => a.sentAtMs - b.sentAtMs);
    return this.#groups;
  }

  /** Polls find a node down seconds after its requests do. */
  antedateFailures({ events }: WindowFleet): void {
    events.forEach((event, index) => {
      if (event.kind !== "state" || event.state !== "down") return;
      const about = this.#failures.filter(
        ({ node, atMs }) => node === event.node && Math.abs(atMs - event.atMs) < DOWN_BEFORE_MS,
      );
      const before = about.filter(({ atMs }) => atMs <= event.atMs);
      const earliest = before.reduce((least, { atMs }) => Math.min(least, atMs), event.atMs);
      // a node whose requests did not fail had only its polls failing
      const state = about.length === 0 ? "silent" : "down";
      events[index] = { ...event, state, atMs: Math.max(0, earliest) };
    });
    events.sort((a, b) => a.atMs - b.atMs);
  }
}
