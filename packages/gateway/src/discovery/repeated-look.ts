/** A source that is looked at again and again: a name, files. */

import type { SourceConfig } from "@zml/protocol";
import { untilAborted } from "../until-aborted.ts";
import { errorText, type Look, lookEnded, type RunningSource, type SourceContext } from "./source.ts";

/** First pause after a failure, ms; it doubles up to `refresh_ms`. */
const BACK_OFF_MS = 1_000;
/** Looks of several gateways spread over this share of the time between two. */
const JITTER = 0.1;

/** One look. Rejects with `SourceError`, or with anything else on a fault of ours. */
export type LookOnce = (config: SourceConfig, signal: AbortSignal) => Promise<Look>;

/** Looks at once, then every `refresh_ms`, sooner after a failure or on `lookNow`. One look at a time. */
export class RepeatedLook implements RunningSource {
  readonly #context: SourceContext;
  readonly #look: LookOnce;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #isWanted = false;
  #failures = 0;

  constructor(context: SourceContext, look: LookOnce) {
    this.#context = context;
    this.#look = look;
    this.lookNow();
  }

  /** Looks now, or again after the look that runs. */
  lookNow(): void {
    if (this.#stopping.signal.aborted) return;
    if (this.#running !== null) {
      this.#isWanted = true;
      return;
    }
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#isWanted = false;
    this.#running = this.#once().then((pauseMs) => {
      this.#running = null;
      if (this.#stopping.signal.aborted) return;
      if (this.#isWanted) {
        this.lookNow();
        return;
      }
      this.#timer = setTimeout(() => this.lookNow(), pauseMs);
      this.#timer.unref();
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }

  /** Never rejects. Returns the pause to the next look, ms. */
  async #once(): Promise<number> {
    const { config, clock, onLook } = this.#context;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), config.timeoutMs);
    const signal = AbortSignal.any([deadline.signal, this.#stopping.signal]);
    let look: Look;
    try {
      look = await untilAborted(this.#look(config, signal), signal, lookEnded);
    } catch (error) {
      const isLate = deadline.signal.aborted && !this.#stopping.signal.aborted;
      look = { found: null, error: isLate ? `no answer within timeout_ms (${config.timeoutMs})` : errorText(error) };
    } finally {
      clearTimeout(timer);
    }
    if (this.#stopping.signal.aborted) return 0;
    this.#failures = look.error === null ? 0 : this.#failures + 1;
    onLook(look);
    const pauseMs =
      this.#failures === 0
        ? config.refreshMs
        : Math.min(config.refreshMs, BACK_OFF_MS * 2 ** Math.min(this.#failures - 1, 20));
    return pauseMs * (1 - JITTER + 2 * JITTER * clock.random());
  }
}
