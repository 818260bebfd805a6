/**
 * One request as a trace tells it: what happened when, noted by the serving thread while it runs. Spans are made of it
 * elsewhere (`span-writer.ts`). No prompt, no key and no body is ever in it.
 */

/** Decisions and attempts of a request that are noted; `failover.max_attempts` is 3 unless an operator says otherwise. */
const NOTES_MAX = 64;

/** One run of availability, cost and booking. Times in ms of the engine clock, NaN: not known. */
export interface DecisionNote {
  readonly startMs: number;
  /** Availability had its candidates, and cost began. */
  readonly candidatesMs: number;
  readonly endMs: number;
  /** Id of the decision. */
  readonly id: string;
  readonly reason: string;
  /** "": no node was chosen. */
  readonly node: string;
  readonly family: string;
  readonly candidates: number;
  readonly depth: number;
  readonly estimateMs: number;
  readonly costUsd: number;
  readonly dataAgeMs: number;
}

/** One dispatch to a node, and what failover made of its end. */
export interface AttemptNote {
  readonly spanId: string;
  readonly decision: string;
  readonly node: string;
  readonly family: string;
  readonly engine: string | null;
  /** Without credentials: a node's URL has none. */
  readonly url: string;
  readonly number: number;
  readonly startMs: number;
  firstByteMs: number;
  firstTokenMs: number;
  endMs: number;
  /** Failover had said what comes next. */
  settledMs: number;
  /** HTTP status of the node's answer; -1: none. */
  status: number;
  fault: string | null;
  outcome: string;
  move: string;
  promptTokens: number;
  outputTokens: number;
}

/** Parked for room. */
export interface WaitNote {
  readonly startMs: number;
  readonly endMs: number;
}

/** What the serving thread notes. */
export class RequestTrace {
  readonly traceId: string;
  /** Of the request's own span. */
  readonly spanId: string;
  /** The caller's span; null: the trace begins here. */
  readonly parentId: string | null;
  /** False: it was not chosen, and is told because it failed. */
  readonly isSampled: boolean;
  readonly waits: WaitNote[] = [];
  readonly decisions: DecisionNote[] = [];
  readonly attempts: AttemptNote[] = [];

  constructor(ids: { traceId: string; spanId: string; parentId: string | null; isSampled: boolean }) {
    this.traceId = ids.traceId;
    this.spanId = ids.spanId;
    this.parentId = ids.parentId;
    this.isSampled = ids.isSampled;
  }

  /** What a node is told: the trace, and the attempt's span as its parent. */
  get traceparent(): string {
    return `00-${this.traceId}-${this.attempts.at(-1)?.spanId ?? this.spanId}-${this.isSampled ? "01" : "00"}`;
  }

  waited(note: WaitNote): void {
    if (this.waits.length < NOTES_MAX) this.waits.push(note);
  }

  decided(note: DecisionNote): void {
    if (this.decisions.length < NOTES_MAX) this.decisions.push(note);
  }

  attempt(note: AttemptNote): void {
    // the last one is what nodes hear of, and what comes back is noted on
    if (this.attempts.length >= NOTES_MAX) this.attempts.pop();
    this.attempts.push(note);
  }

  /** Spans that will be made of it. */
  get spanCount(): number {
    return 2 + this.waits.length + 2 * this.decisions.length + 2 * this.attempts.length;
  }
}
