/**
 * One attempt: sends a request to a node, holds the answer back until its commit point, then relays it byte for byte.
 *
 *   connecting → awaiting_head → holding → relaying → ended
 *
 * Until `relaying` everything can still go elsewhere; from then on the answer belongs to the caller. The attempt ends
 * exactly once, on every path, with one `AttemptResult`.
 */

import { type AttemptEnd, classifyStatus, type TransportFault } from "@zml/engine";
import type { AnswerHead, AttemptResult } from "../attempt-result.ts";
import type { Clock } from "../clock.ts";
import type { Deadline, Deadlines } from "../deadlines.ts";
import type { NodeExchangeHandler, NodeRequest } from "../http1/node-connection.ts";
import type { ResponseHeaders } from "../http1/response-parser.ts";
import type { Connection } from "./connection-pool.ts";
import { hideKey } from "./hide-key.ts";
import { isErrorEvent } from "./sse-events.ts";
import { FINISHED_MAX, StreamInspector, skimJsonAnswer } from "./stream-inspector.ts";
import { type Fault, faultOf } from "./transport-fault.ts";
import type { RunningAttempt, Upstream } from "./upstream.ts";

/** An answer is committed once so many of its bytes are held, whatever they say. */
const HELD_BYTES_MAX = 64 * 1024;

/** Pieces up to this size are relayed as text, which is one write with its framing; a larger one is not worth the copy. */
const TEXT_BYTES_MAX = 16 * 1024;

/** A node that keeps its connection open after the end mark of a stream gets this long to close it, ms. */
const END_GRACE_MS = 1000;

/** What is sent. */
export interface AttemptCall extends NodeRequest {
  isFreshConnection: boolean;
}

/** Limits in time of one attempt, ms. */
export interface AttemptLimits {
  firstByteMs: number;
  firstTokenMs: number;
  idleMs: number;
  holdMs: number;
}

/** Where a committed answer goes. */
export interface AnswerSink {
  /** The commit point: the head and what was held. Called at most once, and only before `write`. */
  commit(head: AnswerHead, held: Buffer): boolean;
  /** A text holds a byte in each character. Returns false when the caller takes no more for now. */
  write(bytes: string | Buffer): boolean;
  /** Calls back once when more can be written. */
  onDrain(callback: () => void): void;
}

type Phase = "connecting" | "awaiting_head" | "holding" | "relaying" | "ended";

export class AttemptRun implements NodeExchangeHandler, RunningAttempt {
  readonly #upstream: Upstream;
  readonly #limits: AttemptLimits;
  readonly #answers: number;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #sink: AnswerSink;
  readonly #onFirstToken: () => void;
  readonly #onEnd: (result: AttemptResult) => void;
  readonly #sentAtMs: number;

  /** Place among the attempts of the node. */
  slot = -1;
  #phase: Phase = "connecting";
  #connection: Connection | null = null;
  #leaveQueue: (() => void) | null = null;
  #deadline: Deadline | null = null;
  #head: AnswerHead | null = null;
  #isStream = false;
  /** Null: no stream, or one that can't be read along. */
  #inspector: StreamInspector | null = null;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** What the present read brought and is still to be relayed: a read is one write. */
  #piece = "";
  #isAwaitingDrain = false;
  /** Set where what was relayed ends before what was read. */
  #canTakeErrorEvent: boolean | null = null;
  #lastReadAtMs = Number.NaN;
  #firstByteMs = Number.NaN;
  #firstTokenMs = Number.NaN;

  constructor(options: {
    upstream: Upstream;
    limits: AttemptLimits;
    /** How many choices the caller wants. */
    answers: number;
    clock: Clock;
    deadlines: Deadlines;
    sink: AnswerSink;
    /** The first token came: prefill is over. */
    onFirstToken: () => void;
    onEnd: (result: AttemptResult) => void;
  }) {
    this.#upstream = options.upstream;
    this.#limits = options.limits;
    this.#answers = options.answers;
    this.#clock = options.clock;
    this.#deadlines = options.deadlines;
    this.#sink = options.sink;
    this.#onFirstToken = options.onFirstToken;
    this.#onEnd = options.onEnd;
    this.#sentAtMs = options.clock.nowMs();
  }

  /** Sends. `onEnd` is called later, never from within. */
  start(call: AttemptCall): void {
    this.#upstream.running.add(this);
    const isHeadFirst = this.#limits.firstByteMs <= this.#limits.firstTokenMs;
    this.#arm(
      isHeadFirst ? "first_byte_timeout" : "first_token_timeout",
      Math.min(this.#limits.firstByteMs, this.#limits.firstTokenMs),
    );
    this.#leaveQueue = this.#upstream.connect({ isFresh: call.isFreshConnection }, (connection) => {
      this.#connection = connection;
      connection.send(call, this);
    });
    if (this.#leaveQueue === null) setImmediate(() => this.#fail({ fault: "connect_failed", isUnsent: false }));
  }

  /** The caller left, or the request's time is over: ends the attempt now, wherever it is. */
  cancel(end: AttemptEnd = { kind: "cancelled" }): void {
    this.#finish(end, null);
  }

  nodeDown(): void {
    if (this.#phase === "relaying" || this.#phase === "ended") return;
    this.#fail({ fault: "node_down", isUnsent: false });
  }

  onStart(): void {
    if (this.#phase === "connecting") this.#phase = "awaiting_head";
  }

  onHead(status: number, headers: ResponseHeaders): void {
    if (this.#phase === "ended") return;
    this.#head = { status, headers };
    this.#phase = "holding";
    this.#firstByteMs = this.#sinceSentMs();
    this.#isStream = status === 200 && isEventStream(headers);
    if (this.#isStream && !isEncoded(headers)) this.#inspector = new StreamInspector();
    this.#arm("first_token_timeout", this.#limits.firstTokenMs - this.#firstByteMs);
  }

  onBody(chunk: Buffer): void {
    if (this.#phase === "holding") this.#hold(chunk);
    else if (this.#phase !== "relaying") return;
    else if (chunk.length <= TEXT_BYTES_MAX) this.#piece += chunk.toString("latin1");
    else {
      this.#flush();
      this.#relay(Buffer.from(chunk));
    }
  }

  onReadEnd(): void {
    this.#flush();
  }

  #flush(): void {
    const piece = this.#piece;
    if (piece === "") return;
    this.#piece = "";
    this.#relay(piece);
  }

  onEnd(): void {
    if (this.#phase === "ended") return;
    this.#inspector?.end();
    if (this.#phase === "relaying") this.#endRelay();
    else this.#judgeHeld(true);
  }

  onError(error: Error): void {
    this.#flush();
    if (this.#phase === "ended") return;
    this.#fail(faultOf(error, this.#connection?.wasStale() === true));
  }

  #hold(chunk: Buffer): void {
    const isFirst = this.#heldBytes === 0;
    this.#held.push(Buffer.from(chunk));
    this.#heldBytes += chunk.length;
    this.#inspector?.push(chunk);
    const isDecided = this.#inspector !== null && this.#inspector.firstDataEvent !== null;
    if (isDecided || this.#heldBytes >= HELD_BYTES_MAX) {
      this.#judgeHeld(false);
    } else if (isFirst && this.#isStream) {
      const tokenMs = this.#limits.firstTokenMs - this.#sinceSentMs();
      if (this.#limits.holdMs < tokenMs) this.#armCall(this.#limits.holdMs, () => this.#judgeHeld(false));
    }
  }

  /** The commit point, or the end of the answer: it is the caller's, or it ends the attempt. */
  #judgeHeld(isComplete: boolean): void {
    const head = this.#head as AnswerHead;
    const body = this.#held.length === 1 ? (this.#held[0] as Buffer) : Buffer.concat(this.#held);
    const verdict = this.#verdictOf(head, body, isComplete);
    const outcome = verdict ?? classifyStatus(head.status);
    const isCallers = outcome === "success" || outcome === "caller_error";
    if (isCallers && !isComplete) {
      this.#commit(head, body);
      return;
    }
    const end: AttemptEnd = {
      kind: "answer",
      status: head.status,
      verdict,
      retryAfterMs: retryAfterMsOf(head.headers),
    };
    if (isComplete && isCallers && this.#inspector !== null) this.#noteFirstToken();
    // half an error is no answer to pass on
    const told = head.status < 400 ? body : hideKey(body, this.#upstream.node.apiKey);
    this.#finish(end, isComplete ? { head, body: told } : null);
  }

  /** What the answer says about the node, null: its status says it all. */
  #verdictOf(head: AnswerHead, body: Buffer, isComplete: boolean): Extract<AttemptEnd, { kind: "answer" }>["verdict"] {
    const firstEvent = this.#inspector?.firstDataEvent ?? null;
    const contentType = head.headers["content-type"];
    const answer = {
      status: head.status,
      contentType: typeof contentType === "string" ? contentType : null,
      body,
      firstEvent,
    };
    if (this.#inspector !== null) {
      const isError = firstEvent !== null && isErrorEvent(firstEvent.data, firstEvent.event);
      if (this.#inspector.sawAbort) return "failure";
      if (isError) return this.#upstream.habits.classify(answer) ?? "failure";
      // a stream that ends without one event, or with the end mark as its only one, said nothing at all
      if (firstEvent?.data === "[DONE]") return "failure";
      return isComplete && (firstEvent === null || !isEndedWell(this.#inspector, this.#answers))
        ? "failure"
        : "success";
    }
    if (head.status >= 400) return this.#upstream.habits.classify(answer);
    // no engine answers with a page: a proxy or a sign-in in front of it did
    if (answer.contentType !== null && HTML.test(answer.contentType)) return "failure";
    if (!isComplete || isEncoded(head.headers)) return null;
    if (body.length === 0) return "failure";
    const inspected = skimJsonAnswer(body);
    this.#usage.promptTokens = inspected.promptTokens;
    this.#usage.outputTokens = inspected.completionTokens;
    this.#usage.cachedTokens = inspected.cachedTokens;
    if (inspected.isAborted) return "failure";
    // an error in spite of its status counts no tokens; whatever does is not looked at again
    const isCounted = !Number.isNaN(inspected.promptTokens) || !Number.isNaN(inspected.completionTokens);
    return isCounted ? null : this.#upstream.habits.classify(answer);
  }

  readonly #usage = { promptTokens: Number.NaN, outputTokens: Number.NaN, cachedTokens: Number.NaN };

  #commit(head: AnswerHead, held: Buffer): void {
    this.#phase = "relaying";
    this.#held = [];
    this.#noteFirstToken();
    this.#lastReadAtMs = this.#clock.nowMs();
    this.#armIdle(this.#limits.idleMs);
    if (!this.#sink.commit(head, held)) this.#awaitDrain();
    if (this.#inspector?.sawDone === true) this.#awaitClose();
  }

  #relay(chunk: string | Buffer): void {
    if (this.#phase !== "relaying") return;
    this.#lastReadAtMs = this.#clock.nowMs();
    const inspector = this.#inspector;
    if (inspector !== null && !inspector.sawDone) {
      const wasBetweenEvents = inspector.isBetweenEvents;
      inspector.push(chunk);
      if (inspector.sawAbort) {
        // the node gave up, and says so in the shape of a good end: the caller gets an error in its place
        this.#canTakeErrorEvent = wasBetweenEvents;
        this.#finish({ kind: "interrupted", fault: null }, null);
        return;
      }
      if (inspector.sawDone) this.#awaitClose();
    }
    if (!this.#sink.write(chunk)) this.#awaitDrain();
  }

  /** The caller takes no more: the node waits, and the node's silence is ours. */
  #awaitDrain(): void {
    if (this.#isAwaitingDrain || this.#phase !== "relaying") return;
    this.#isAwaitingDrain = true;
    this.#connection?.pause();
    this.#sink.onDrain(() => {
      this.#isAwaitingDrain = false;
      this.#lastReadAtMs = this.#clock.nowMs();
      if (this.#phase === "relaying") this.#connection?.resume();
    });
  }

  /** The stream said that it is complete; a node that does not close is not waited for. */
  #awaitClose(): void {
    this.#armCall(END_GRACE_MS, () => this.#endRelay());
  }

  #endRelay(): void {
    const inspector = this.#inspector;
    const head = this.#head as AnswerHead;
    if (inspector !== null && !isEncoded(head.headers) && !isEndedWell(inspector, this.#answers)) {
      this.#finish({ kind: "interrupted", fault: null }, null);
      return;
    }
    this.#finish({ kind: "answer", status: head.status, verdict: null, retryAfterMs: Number.NaN }, null);
  }

  #fail({ fault, isUnsent }: Fault): void {
    if (this.#phase === "relaying") {
      // the answer was complete; how its connection ended does not matter
      if (this.#inspector?.sawDone === true) this.#endRelay();
      else this.#finish({ kind: "interrupted", fault }, null);
      return;
    }
    this.#finish({ kind: "fault", fault, isUnsent }, null);
  }

  #noteFirstToken(): void {
    if (!Number.isNaN(this.#firstTokenMs)) return;
    this.#firstTokenMs = this.#sinceSentMs();
    this.#onFirstToken();
  }

  #finish(end: AttemptEnd, answer: AttemptResult["answer"]): void {
    if (this.#phase === "ended") return;
    const isCommitted = this.#phase === "relaying";
    this.#phase = "ended";
    if (this.#deadline !== null) this.#deadlines.stop(this.#deadline);
    this.#upstream.running.delete(this);
    if (this.#connection === null) this.#leaveQueue?.();
    else this.#connection.release();
    this.#held = [];
    const usage = this.#inspector?.usage;
    const outputTokens = usage?.completionTokens ?? this.#usage.outputTokens;
    const counted = this.#inspector?.tokensSeen ?? Number.NaN;
    this.#onEnd({
      end,
      timeouts: this.#upstream.node.timeouts,
      answer,
      isCommitted,
      canTakeErrorEvent: this.#canTakeErrorEvent ?? this.#inspector?.isBetweenEvents ?? false,
      hasToldError: this.#inspector?.sawErrorEvent === true && this.#inspector.isBetweenEvents,
      firstByteMs: this.#firstByteMs,
      firstTokenMs: this.#firstTokenMs,
      durationMs: this.#sinceSentMs(),
      promptTokens: usage?.promptTokens ?? this.#usage.promptTokens,
      outputTokens: Number.isNaN(outputTokens) ? counted : outputTokens,
      cachedTokens: usage?.cachedTokens ?? this.#usage.cachedTokens,
    });
  }

  #sinceSentMs(): number {
    return this.#clock.nowMs() - this.#sentAtMs;
  }

  #arm(fault: TransportFault, ms: number): void {
    this.#armCall(ms, () => this.#fail({ fault, isUnsent: false }));
  }

  #armCall(ms: number, call: () => void): void {
    if (this.#deadline !== null) this.#deadlines.stop(this.#deadline);
    this.#deadline = this.#deadlines.start(ms, call);
  }

  /** One timer for many reads: when it fires it looks how long ago the last one was. */
  #armIdle(ms: number): void {
    this.#armCall(ms, () => {
      const silentMs = this.#isAwaitingDrain ? 0 : this.#clock.nowMs() - this.#lastReadAtMs;
      if (silentMs >= this.#limits.idleMs) this.#fail({ fault: "idle_timeout", isUnsent: false });
      else this.#armIdle(this.#limits.idleMs - silentMs);
    });
  }
}

/** Without an end mark each of the choices must have its reason. */
function isEndedWell(inspector: StreamInspector, answers: number): boolean {
  if (inspector.sawAbort || inspector.sawErrorEvent) return false;
  if (inspector.sawDone || inspector.gaveUp) return true;
  return (
    inspector.finishReason !== null && (answers <= 1 || inspector.finishedChoices >= Math.min(answers, FINISHED_MAX))
  );
}

// names of media types have no case
const EVENT_STREAM = /^text\/event-stream/i;
const HTML = /^text\/html/i;

function isEventStream(headers: ResponseHeaders): boolean {
  const type = headers["content-type"];
  return typeof type === "string" && EVENT_STREAM.test(type);
}

function isEncoded(headers: ResponseHeaders): boolean {
  const encoding = headers["content-encoding"];
  return encoding !== undefined && encoding !== "identity";
}

/** `Retry-After` of an answer, ms; NaN: none, or a date, which no engine sends. */
function retryAfterMsOf(headers: ResponseHeaders): number {
  const value = headers["retry-after"];
  return value === undefined ? Number.NaN : Number(value) * 1000;
}
