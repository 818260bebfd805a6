/** How a stream is cut: clean TCP end in mid-chunk, reset, silence on an open socket, or a clean end without a marker. */
export type CutKind = "fin" | "rst" | "silent" | "end-without-marker";

export type StatusFault = { code: number; body: string; headers: Readonly<Record<string, string>> };
export type StreamFault =
  | { kind: "cut"; afterEvents: number; how: CutKind }
  | { kind: "stall"; afterEvents: number; ms: number }
  | { kind: "error-first" }
  | { kind: "abort-finish"; afterEvents: number }
  | { kind: "bad-chunk"; afterEvents: number };

/** The part of a node that faults need. */
export type FaultTarget = { closeListener(): void; openListener(): Promise<void> };

/** Counts down the answers that a fault still spoils. */
type Limited<T> = { readonly fault: T; remaining: number };

/**
 * Faults on command. Every method takes effect for what arrives from now on; `count` bounds the number of answers that
 * are spoilt (default: until `clear`). Faults of answers touch POST requests only, polls stay as they are.
 */
export class Faults {
  readonly #target: FaultTarget;
  #status: Limited<StatusFault> | undefined;
  #stream: Limited<StreamFault> | undefined;
  #refusing = false;
  /** `hang`: new requests are read and never answered. `blackhole`: open answers fall silent as well. */
  silence: "none" | "hang" | "blackhole" = "none";
  /** Health and models answer, inference never does. */
  isGreenButDead = false;
  firstByteDelayMs = 0;
  healthDelayMs = 0;
  isGzip = false;
  #overload: Limited<{ retryAfterS: number }> | undefined;
  #misconfigured: 401 | 404 | undefined;

  constructor(target: FaultTarget) {
    this.#target = target;
  }

  /** Accepts, reads and never answers (polls included). */
  hang(): void {
    this.silence = "hang";
  }

  /** Nothing is answered and open streams fall silent, with no FIN: as if packets vanished after connecting. */
  blackhole(): void {
    this.silence = "blackhole";
  }

  /** New connections are refused; open ones live on. */
  refuse(): void {
    this.#refusing = true;
    this.#target.closeListener();
  }

  /** Answers with this status, body and headers instead of working. */
  status(code: number, body = "", headers: Readonly<Record<string, string>> = {}, count = Infinity): void {
    this.#status = { fault: { code, body, headers }, remaining: count };
  }

  /** 200, then an error event as the first one of a stream. */
  errorFirstEvent(count = Infinity): void {
    this.#stream = { fault: { kind: "error-first" }, remaining: count };
  }

  /** Cuts a stream after `afterEvents` events; 0 cuts after the response's head. */
  cutAfterEvents(afterEvents: number, how: CutKind, count = Infinity): void {
    this.#stream = { fault: { kind: "cut", afterEvents, how }, remaining: count };
  }

  /** Falls silent after `afterEvents` events and goes on after `ms` (Infinity: never). */
  stallAfterEvents(afterEvents: number, ms = Infinity, count = Infinity): void {
    this.#stream = { fault: { kind: "stall", afterEvents, ms }, remaining: count };
  }

  /** Ends with `finish_reason` "abort" and the usual end marker, as vLLM does when it is shut down. */
  abortFinish(afterEvents = 1, count = Infinity): void {
    this.#stream = { fault: { kind: "abort-finish", afterEvents }, remaining: count };
  }

  /** Writes a chunk with a broken size line after `afterEvents` events and closes. */
  badChunk(afterEvents = 1, count = Infinity): void {
    this.#stream = { fault: { kind: "bad-chunk", afterEvents }, remaining: count };
  }

  /** The whole answer starts `ms` later. */
  slowFirstByte(ms: number): void {
    this.firstByteDelayMs = ms;
  }

  /** `/health`, `/metrics` and SGLang's `/v1/loads` answer `ms` later. */
  slowHealth(ms: number): void {
    this.healthDelayMs = ms;
  }

  greenButDead(): void {
    this.isGreenButDead = true;
  }

  /** Answers with the engine's own "I am full"; `retryAfterS` adds a `Retry-After` header. */
  overloaded(retryAfterS = Number.NaN, count = Infinity): void {
    this.#overload = { fault: { retryAfterS }, remaining: count };
  }

  /** Answers 401 (wrong key) or 404 (wrong model) in the engine's shape. */
  misconfigured(code: 401 | 404): void {
    this.#misconfigured = code;
  }

  /** Answers are compressed with gzip, whatever the caller accepts. */
  gzip(): void {
    this.isGzip = true;
  }

  /** Ends all faults. Resolves when the node listens again, if it refused. */
  async clear(): Promise<void> {
    this.silence = "none";
    this.#status = undefined;
    this.#stream = undefined;
    this.#overload = undefined;
    this.#misconfigured = undefined;
    this.isGreenButDead = false;
    this.firstByteDelayMs = 0;
    this.healthDelayMs = 0;
    this.isGzip = false;
    if (this.#refusing) {
      this.#refusing = false;
      await this.#target.openListener();
    }
  }

  takeStatus(): StatusFault | undefined {
    return take(this.#status);
  }

  takeStream(): StreamFault | undefined {
    return take(this.#stream);
  }

  takeOverload(): { retryAfterS: number } | undefined {
    return take(this.#overload);
  }

  get misconfiguredStatus(): 401 | 404 | undefined {
    return this.#misconfigured;
  }
}

function take<T>(limited: Limited<T> | undefined): T | undefined {
  if (limited === undefined || limited.remaining <= 0) return undefined;
  limited.remaining -= 1;
  return limited.fault;
}
