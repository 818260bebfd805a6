/** A streamed answer: `for await` over its events, with the routing from the start. */

import type { ReceivedRouting } from "@zml/protocol/wire";
import { mediaTypeOf, requestIdOf, routingOf } from "./answer-head.ts";
import type { CallScope, SilenceWatch } from "./call-scope.ts";
import { StreamInterruptedError, ZMLError } from "./errors.ts";
import { formatError, sizeOf } from "./format-error.ts";
import { isObject } from "./json-object.ts";
import type { Opened } from "./send.ts";
import { EventTooLargeError, type SseEvent, SseParser } from "./sse.ts";
import { errorOfEvent } from "./status-error.ts";
import { StreamProgress } from "./stream-progress.ts";

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };
/** How long the end of a body may take after `[DONE]`, so that its connection can be used again, ms. */
const END_GRACE_MS = 1000;

/** Ends the calls whose streams nobody holds any more, as the platform's fetch does with a body that was dropped. */
const dropped = new FinalizationRegistry<CallScope>((scope) => scope.abort(new ZMLError("the stream was dropped")));

/**
 * The events of a streamed answer, to be read once. Leaving the loop (`break`, `return`, an error) closes it, and so do
 * `close()` and the call's signal; the node then stops. One that is dropped is closed when its memory is taken back.
 *
 * Reading it rejects with StreamInterruptedError when it ends before its end, with the APIStatusError of an error event,
 * with ResponseFormatError, with APITimeoutError after a silence of `timeoutMs`, or with the reason of the signal; after
 * the events that came before, and once: it is over then.
 */
export class InferStream<Chunk> implements AsyncIterableIterator<Chunk> {
  /** Where the request went and why; see `AnswerFacts`. */
  readonly routing: ReceivedRouting | null;
  /** `x-request-id`. */
  readonly requestId: string | undefined;

  readonly #opened: Opened;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #watch: SilenceWatch;
  readonly #parser = new SseParser();
  readonly #progress: StreamProgress;
  /** Events that came and were not taken yet, from `#at` on. */
  #events: SseEvent[] = [];
  #at = 0;
  /** Events from this index on had no blank line after them when the body ended. */
  #unfinishedFrom = Number.POSITIVE_INFINITY;
  #hasBodyEnded = false;
  #isOver = false;
  /** Calls of `next` that wait for a read run one after the other; the last of them, and how many there are. */
  #lastRead: Promise<IteratorResult<Chunk, undefined>> | null = null;
  #waiting = 0;

  /** @internal made by `infer` */
  constructor(opened: Opened, body: ReadableStream<Uint8Array>, choices: number) {
    this.routing = routingOf(opened.response.headers);
    this.requestId = requestIdOf(opened.response.headers);
    this.#opened = opened;
    const reader = body.getReader();
    this.#reader = reader;
    this.#progress = new StreamProgress(choices);
    this.#watch = opened.scope.watchSilence();
    // a body that knows no signal would leave a read hanging; not by `this`, as fetch holds the signal
    opened.scope.signal.addEventListener("abort", () => reader.cancel().catch(() => {}), { once: true });
    dropped.register(this, opened.scope, this);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Chunk, undefined>> {
    if (this.#lastRead !== null) return this.#enqueue();
    try {
      const ready = this.#take();
      if (ready !== undefined) return Promise.resolve(ready);
    } catch (error) {
      return Promise.reject(this.#fail(error));
    }
    return this.#enqueue();
  }

  /** Closes the stream: nothing more is read, and the node stops. */
  return(): Promise<IteratorResult<Chunk, undefined>> {
    this.close();
    return Promise.resolve(DONE);
  }

  /** Closes the stream: nothing more is read, and the node stops. Does nothing when it is over. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#events = [];
    dropped.unregister(this);
    this.#opened.scope.abort(new ZMLError("the stream was closed"));
  }

  #enqueue(): Promise<IteratorResult<Chunk, undefined>> {
    const before = this.#lastRead;
    this.#waiting += 1;
    this.#lastRead =
      before === null
        ? this.#read()
        : before.then(
            () => this.#read(),
            () => this.#read(),
          );
    return this.#lastRead;
  }

  async #read(): Promise<IteratorResult<Chunk, undefined>> {
    try {
      for (;;) {
        const ready = this.#take();
        if (ready !== undefined) return ready;
        await this.#receive();
      }
    } catch (error) {
      if (this.#isOver) return DONE;
      throw this.#fail(error);
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#lastRead = null;
    }
  }

  /** The next result, if it needs no read. Throws what ends the stream. */
  #take(): IteratorResult<Chunk, undefined> | undefined {
    if (this.#isOver) return DONE;
    this.#opened.scope.check();
    const event = this.#events[this.#at];
    if (event !== undefined) {
      const isUnfinished = this.#at >= this.#unfinishedFrom;
      this.#at += 1;
      if (isDone(event.data)) {
        this.#complete();
        return DONE;
      }
      return { done: false, value: this.#chunkOf(event, isUnfinished) };
    }
    if (this.#events.length > 0) this.#events = [];
    this.#at = 0;
    if (!this.#hasBodyEnded) return undefined;
    if (!this.#progress.isWhole) {
      throw this.#interrupted("ended without [DONE] and without a finish reason for every choice");
    }
    this.#complete();
    return DONE;
  }

  async #receive(): Promise<void> {
    this.#watch.begin();
    let piece: { done: boolean; value?: Uint8Array | undefined };
    try {
      piece = await this.#reader.read();
    } catch (cause) {
      this.#opened.scope.check();
      throw this.#interrupted("broke off", cause);
    } finally {
      this.#watch.done();
    }
    this.#opened.scope.check();
    try {
      if (piece.value !== undefined) return this.#parser.push(piece.value, this.#events);
    } catch (cause) {
      if (!(cause instanceof EventTooLargeError)) throw cause;
      throw formatError(this.#opened, `an event of more than ${cause.limit} characters`, "events with JSON", cause);
    }
    this.#hasBodyEnded = true;
    this.#unfinishedFrom = this.#events.length;
    this.#parser.end(this.#events);
  }

  #chunkOf(event: SseEvent, isUnfinished: boolean): Chunk {
    let json: unknown;
    try {
      json = JSON.parse(event.data);
    } catch (cause) {
      if (event.name === "error") throw this.#errorOf(event.data);
      if (isUnfinished) throw this.#interrupted("ended in the middle of an event");
      throw formatError(
        this.#opened,
        `an event of ${event.data.length} characters that is no JSON`,
        "events with JSON",
        {
          ...(cause instanceof Error && { name: cause.name }),
        },
      );
    }
    if (!isObject(json)) {
      throw formatError(this.#opened, "an event whose JSON is no object", "events with choices");
    }
    if (event.name === "error" || (json["error"] !== undefined && json["error"] !== null)) throw this.#errorOf(json);
    if (!this.#progress.add(json["choices"])) {
      throw formatError(this.#opened, "an event whose JSON has another shape", "events with choices");
    }
    return json as Chunk;
  }

  #errorOf(json: unknown): Error {
    const { url, port } = this.#opened;
    const { routing, requestId } = this;
    return errorOfEvent(json, { url, port, events: this.#progress.events, routing, requestId });
  }

  #interrupted(how: string, cause?: unknown): StreamInterruptedError {
    const { events, text } = this.#progress;
    const { routing, requestId } = this;
    const message =
      `the stream of ${this.#opened.url} ${how} after ${events} events: the answer is not whole: ask again` +
      (requestId === undefined ? "" : `; request id ${requestId}`);
    return new StreamInterruptedError(message, { events, text, routing, requestId, cause });
  }

  /** Closes on an error, so that the node does not go on for nobody. */
  #fail(error: unknown): unknown {
    this.close();
    return error;
  }

  /** The answer is whole. The body's end follows at once; taking it lets the connection be used again. */
  #complete(): void {
    this.#isOver = true;
    this.#events = [];
    dropped.unregister(this);
    const { scope } = this.#opened;
    scope.end();
    if (this.#hasBodyEnded) return;
    const stopTimer = scope.after(END_GRACE_MS, () => scope.abort(new ZMLError("the stream did not end after [DONE]")));
    const readOn = (): Promise<void> => this.#reader.read().then(({ done }) => (done ? stopTimer() : readOn()));
    readOn().catch(stopTimer);
  }
}

/** The end mark; some servers put blanks around it. */
function isDone(data: string): boolean {
  return data.length < 16 && data.trim() === "[DONE]";
}

/** @throws ResponseFormatError when the answer is no stream of events */
export function openStream<Chunk>(opened: Opened, choices: number): InferStream<Chunk> {
  const { response, scope } = opened;
  const type = mediaTypeOf(response.headers) ?? "text/event-stream";
  if (type === "text/event-stream" && response.body !== null) return new InferStream(opened, response.body, choices);
  scope.abort(new ZMLError("the answer is not read"));
  // such as React Native's
  const isHidden = type === "text/event-stream" && response.status === 200;
  const what = isHidden ? "a body that this fetch does not give piece by piece" : `${type} of ${sizeOf(response)}`;
  throw formatError(opened, what, "a stream of events (text/event-stream)");
}
