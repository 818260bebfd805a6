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

const FIELDS = REQUEST_FIELDS.length;

export class RequestSamples {
  /** Grows by doubling, so that a quiet worker holds little. */
  #values = new Float64Array(64 * FIELDS);
  #length = 0;
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
    const at = this.#length;
    if (at >= REQUESTS_MAX * FIELDS) {
      this.#dropped += 1;
      return;
    }
    if (at === this.#values.length) {
      const grown = new Float64Array(2 * at);
      grown.set(this.#values);
      this.#values = grown;
    }
    const { tally, interruption } = exchange;
    const values = this.#values;
    values[at] = tally.policy;
    values[at + 1] = tally.model;
    values[at + 2] = tally.family;
    values[at + 3] = tally.reason;
    values[at + 4] = exchange.route.endpoint;
    values[at + 5] = ENDINGS.indexOf(endingOf(tally, interruption));
    values[at + 6] = tally.code === null ? -1 : ERROR_CODES.indexOf(tally.code);
    values[at + 7] = tally.status;
    values[at + 8] = tally.dispatches;
    values[at + 9] = tally.decideMs;
    values[at + 10] = tally.waitedMs;
    values[at + 11] = tally.firstTokenMs;
    values[at + 12] = tally.tokensMs;
    values[at + 13] = tally.promptTokens;
    values[at + 14] = tally.outputTokens;
    values[at + 15] = durationMs;
    this.#length = at + FIELDS;
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#length === 0 && this.#dropped === 0) return;
    this.#send(this.#values.slice(0, this.#length), this.#dropped);
    this.#length = 0;
    this.#dropped = 0;
  }
}
