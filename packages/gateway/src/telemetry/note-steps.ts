/** What a trace notes of decisions and attempts: called for requests that are traced, and for those that begin to fail. */

import { type Attempt, decidedAtMs, REASONS, type settle } from "@zml/engine";
import type { Routing } from "@zml/protocol/wire";
import type { AttemptResult } from "../attempt-result.ts";
import type { DataPlane } from "../data-plane.ts";
import type { Exchange } from "../exchange.ts";
import { drawSpanId } from "../trace-ids.ts";
import type { AttemptNote, DecisionNote, RequestTrace } from "./request-trace.ts";

/** Of a node that was chosen, what is told of it. */
export interface ChosenNode {
  readonly row: number;
  readonly sequence: number;
  readonly routing: Routing;
}

/** The decision that was made last; valid until the next one. */
export function decisionNote(
  plane: DataPlane,
  sequence: number,
  { startMs, endMs }: { startMs: number; endMs: number },
): DecisionNote {
  const { decision, candidatesAtMs } = plane;
  const { node } = plane.upstreamOf(decision.row) ?? {};
  return {
    startMs,
    candidatesMs: candidatesAtMs >= startMs ? candidatesAtMs : Number.NaN,
    endMs,
    id: plane.decisionId(sequence),
    reason: REASONS[decision.reason] ?? "",
    node: node?.id ?? "",
    family: node === undefined ? "" : (plane.directory.families[decision.family] ?? ""),
    candidates: decision.candidates.count,
    depth: decision.depth,
    estimateMs: decision.estimateMs,
    costUsd: decision.costUsd,
    dataAgeMs: decision.dataAgeMs,
  };
}

/** An attempt begins: its span's id is what the node is told. */
export function noteAttempt(plane: DataPlane, trace: RequestTrace, chosen: ChosenNode, sentAtMs: number): void {
  const { routing } = chosen;
  const { node } = plane.upstreamOf(chosen.row) ?? {};
  trace.attempt({
    spanId: drawSpanId(),
    decision: routing.decision ?? "",
    node: routing.node ?? "",
    family: routing.family ?? "",
    engine: node?.engine ?? null,
    url: node?.url ?? "",
    number: routing.attempt ?? 0,
    startMs: sentAtMs,
    firstByteMs: Number.NaN,
    firstTokenMs: Number.NaN,
    endMs: Number.NaN,
    settledMs: Number.NaN,
    status: -1,
    fault: null,
    outcome: "running",
    move: "",
    promptTokens: Number.NaN,
    outputTokens: Number.NaN,
  });
}

/** An attempt ended. A request that was not sampled is noted from its first failure on. */
export function traceEnd(
  plane: DataPlane,
  exchange: Exchange,
  {
    chosen,
    attempt,
    result,
    outcome,
    move,
  }: {
    chosen: ChosenNode;
    attempt: Attempt;
    result: AttemptResult;
    outcome: string;
    move: ReturnType<typeof settle>["move"];
  },
): void {
  if (exchange.trace === null) {
    const isFailing = move.kind === "redispatch" || move.kind === "give_up" || outcome === "interrupted";
    exchange.trace = isFailing ? plane.observer.beginLate(exchange) : null;
    if (exchange.trace === null) return;
    const startMs = decidedAtMs(plane.ring, chosen.sequence);
    exchange.trace.decided(lateDecision(chosen, startMs, startMs + exchange.tally.decideMs));
    noteAttempt(plane, exchange.trace, chosen, attempt.sentAtMs);
  }
  const note = exchange.trace.attempts.at(-1);
  if (note !== undefined) finishAttempt(note, attempt.sentAtMs, result, plane.clock.nowMs());
  if (note === undefined) return;
  note.outcome = outcome;
  note.move = move.kind;
}

function finishAttempt(note: AttemptNote, sentAtMs: number, result: AttemptResult, nowMs: number): void {
  const { end } = result;
  note.firstByteMs = sentAtMs + result.firstByteMs;
  note.firstTokenMs = sentAtMs + result.firstTokenMs;
  note.endMs = sentAtMs + result.durationMs;
  note.settledMs = nowMs;
  note.status = end.kind === "answer" ? end.status : -1;
  note.fault = end.kind === "fault" || end.kind === "interrupted" ? end.fault : null;
  note.promptTokens = result.promptTokens;
  note.outputTokens = result.outputTokens;
}

/** What is still known of a decision when its attempt has failed. */
function lateDecision({ routing }: ChosenNode, startMs: number, endMs: number): DecisionNote {
  return {
    startMs,
    candidatesMs: Number.NaN,
    endMs,
    id: routing.decision ?? "",
    reason: routing.reason ?? "",
    node: routing.node ?? "",
    family: routing.family ?? "",
    candidates: Number.NaN,
    depth: routing.queueDepth ?? Number.NaN,
    estimateMs: Number.NaN,
    costUsd: Number.NaN,
    dataAgeMs: Number.NaN,
  };
}
