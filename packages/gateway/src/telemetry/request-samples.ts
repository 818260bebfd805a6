/** What requests showed at their ends, collected for the control thread, which counts. */

import { ENDINGS } from "@zml/engine";
import { ERROR_CODES } from "@zml/protocol/errors";
import type { Exchange } from "../exchange.ts";
import { REQUEST_FIELDS } from "../thread-messages.ts";
import { endingOf } from "./ending.ts";

/** They leave at this pace, ms: scrapes come every few seconds, and a message per request would cost more than it tells. */
const FLUSH_MS = 250;

/** Requests kept between two flushes: what a worker can't reach in that time, some 20 times over. */
const REQUESTS_MAX = 16_384;

export class RequestSamples {
  #values: number[] = [];
  #timer: NodeJS.Timeout | null = null;
  #dropped = 0;
  readonly #send: (requests: Float64Array, dropped: number) => void;

  /** @param send gets the numbers of `REQUEST_FIELDS` per request, and how many requests found no place. */
  constructor(send: (requests: Float64Array, dropped: number) => void) {
    this.#send = send;
  }

  /** Called once per request, at its end. */
  add(exchange: Exchange, durationMs: number): void {
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_MS).unref();
    if (this.#values.length >= REQUESTS_MAX * REQUEST_FIELDS.length) {
      this.#dropped += 1;
      return;
    }
    const { tally, interruption } = exchange;
    this.#values.push(
      tally.policy,
      tally.model,
      tally.family,
      tally.reason,
      exchange.route.endpoint,
      ENDINGS.indexOf(endingOf({ ending: tally.ending, code: tally.code, interruption })),
      tally.code === null ? -1 : ERROR_CODES.indexOf(tally.code),
      tally.status,
      tally.dispatches,
      tally.decideMs,
      tally.waitedMs,
      tally.firstTokenMs,
      tally.tokensMs,
      tally.promptTokens,
      tally.outputTokens,
      durationMs,
    );
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#values.length === 0 && this.#dropped === 0) return;
    this.#send(Float64Array.from(this.#values), this.#dropped);
    this.#values = [];
    this.#dropped = 0;
  }
}
