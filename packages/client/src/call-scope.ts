/** The life of one call: its deadline, the caller's signal, and the one abort that ends its fetch and its reads. */
import { onAbort } from "./abort-listeners.ts";
import { APITimeoutError, ConfigurationError } from "./errors.ts";
import type { Timing } from "./timing.ts";

export class CallScope {
  readonly #controller = new AbortController();
  readonly #timing: Timing;
  readonly #callerSignal: AbortSignal | undefined;
  readonly #stopListening: (() => void) | undefined;
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #deadlineMs: number;
  #stopTimer: (() => void) | undefined;
  #over: Promise<never> | undefined;

  /** @throws the signal's reason when it is aborted already; ConfigurationError when it is none */
  constructor(timing: Timing, timeoutMs: number, callerSignal: AbortSignal | undefined, url: string) {
    // the controller in place of its signal is easily given
    if (typeof (callerSignal ?? this.#controller.signal).throwIfAborted !== "function") {
      throw new ConfigurationError("signal is no AbortSignal: give the member signal of an AbortController");
    }
    callerSignal?.throwIfAborted();
    this.#timing = timing;
    this.#url = url;
    this.#timeoutMs = timeoutMs;
    this.#deadlineMs = timing.nowMs() + timeoutMs;
    this.#callerSignal = callerSignal;
    this.#stopListening = callerSignal && onAbort(callerSignal, (reason) => this.abort(reason));
    this.#stopTimer = timing.startTimer(timeoutMs, () => {
      this.abort(
        new APITimeoutError(
          `no complete answer from ${url} within ${timeoutMs} ms (timeoutMs, retries included): raise timeoutMs, ` +
            "ask for less, or stream the answer",
        ),
      );
    });
  }

  /** Goes to fetch. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** What is left until the deadline, ms. */
  get leftMs(): number {
    return this.#deadlineMs - this.#timing.nowMs();
  }

  /** Throws why the call is over, if it is. */
  check(): void {
    this.#controller.signal.throwIfAborted();
  }

  /** Throws the reason of the caller's signal, if that is what ended the call. */
  checkCaller(): void {
    this.#callerSignal?.throwIfAborted();
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason);
    this.end();
  }

  /** Settles as `promise` does, or rejects as soon as the call is over: a fetch that knows no signal can't hang a call. */
  race<T>(promise: Promise<T>): Promise<T> {
    this.#over ??= rejection(this.#controller.signal);
    return Promise.race([promise, this.#over]);
  }

  /**
   * From here on a stream is read: the deadline becomes a limit of silence.
   * @returns the watch of its reads
   */
  watchSilence(): SilenceWatch {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    const watch = new SilenceWatch(this.#timing, this.#timeoutMs, () => {
      this.abort(
        new APITimeoutError(
          `the stream from ${this.#url} was silent for ${this.#timeoutMs} ms (timeoutMs): raise timeoutMs, or ask again`,
        ),
      );
    });
    this.#stopTimer = () => watch.stop();
    return watch;
  }

  /** Starts a timer of its own, which keeps no process alive. @returns what stops it */
  after(delayMs: number, onEnd: () => void): () => void {
    return this.#timing.startTimer(delayMs, onEnd, true);
  }

  /** The call has ended: its timer and its listener go. */
  end(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#stopListening?.();
  }
}

/** A limit for each wait of a stream, with one timer that is set anew only when it rings: reads are many, silence is rare. */
export class SilenceWatch {
  readonly #timing: Timing;
  readonly #limitMs: number;
  readonly #onSilence: () => void;
  /** NaN: nobody waits; a reader who takes his time is no silence of the server. */
  #waitsSinceMs = Number.NaN;
  #stopTimer: (() => void) | undefined;

  constructor(timing: Timing, limitMs: number, onSilence: () => void) {
    this.#timing = timing;
    this.#limitMs = limitMs;
    this.#onSilence = onSilence;
  }

  /** A read begins. */
  begin(): void {
    this.#waitsSinceMs = this.#timing.nowMs();
    if (this.#stopTimer === undefined) this.#arm(this.#limitMs);
  }

  /** It has brought something. */
  done(): void {
    this.#waitsSinceMs = Number.NaN;
  }

  stop(): void {
    this.#waitsSinceMs = Number.NaN;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #arm(delayMs: number): void {
    // while a read waits, its connection keeps the process alive; a stream that was left lying must not
    const isIdle = true;
    const onEnd = (): void => {
      this.#stopTimer = undefined;
      if (Number.isNaN(this.#waitsSinceMs)) return;
      const leftMs = this.#waitsSinceMs + this.#limitMs - this.#timing.nowMs();
      if (leftMs > 0) this.#arm(leftMs);
      else this.#onSilence();
    };
    this.#stopTimer = this.#timing.startTimer(delayMs, onEnd, isIdle);
  }
}

function rejection(signal: AbortSignal): Promise<never> {
  const promise = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  // whoever waits hears of it; nobody has to
  promise.catch(() => {});
  return promise;
}
