/**
 * One request from first byte to last: admission → availability → cost → dispatch → failover. Read it top down;
 * docs/life-of-a-request.md draws it.
 */

import {
  type Attempt,
  type Booking,
  bookAgain,
  type Decision,
  decide,
  HINT_USES,
  isPlain,
  isPromptOnly,
  mayPark,
  noteCommit,
  noteFirstToken,
  noteRelayed,
  REASONS,
  type RouteRequest,
  settle,
  type TrialLeases,
  timingOf,
  waitKindOf,
  writeDecision,
  writeOutcome,
} from "@zml/engine";
import { ERRORS } from "@zml/protocol/errors";
import type { Routing } from "@zml/protocol/wire";
import { type AdmittedRequest, admitRequest } from "./admission/admit-request.ts";
import type { AttemptResult } from "./attempt-result.ts";
import type { DataPlane } from "./data-plane.ts";
import { AttemptRun } from "./dispatch/attempt-run.ts";
import { composeCall } from "./dispatch/node-call.ts";
import type { Upstream } from "./dispatch/upstream.ts";
import type { Exchange } from "./exchange.ts";
import { endEarly, giveUp, refuseIncapable, refuseWait, saturate } from "./failover/final-answer.ts";
import { decisionNote, noteAttempt, traceEnd } from "./telemetry/note-steps.ts";

/** Serves one request of a routed endpoint. Never rejects: a failure of ours is this request's alone. */
export async function serveRequest(plane: DataPlane, exchange: Exchange, beforeBody: () => void): Promise<void> {
  let admitted: AdmittedRequest | null = null;
  try {
    exchange.limitTotal(plane.settings.timeouts.totalMs);
    admitted = await admitRequest(plane, exchange, beforeBody);
    if (admitted !== null) await routeRequest(plane, exchange, admitted);
    else if (exchange.interruption !== null) endEarly(plane, exchange, exchange.interruption, false);
  } catch (error) {
    plane.log("error", "a request failed inside the gateway", {
      request_id: exchange.requestId,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    const { requestId } = exchange;
    if (exchange.response.headersSent) exchange.response.destroy();
    else exchange.fail("internal_error", ERRORS.internal_error.message({ requestId }));
  } finally {
    admitted?.body.release();
    admitted?.meter.close();
    exchange.close();
    const endedAtMs = plane.clock.nowMs();
    plane.requests.add(exchange, endedAtMs - exchange.startedAtMs);
    plane.observer.end(exchange, endedAtMs);
  }
}

/** A node that was chosen, with its place booked. */
export interface Chosen {
  booking: Booking;
  row: number;
  /** Whose row it is: read while the place is held, since a row goes to another node only when none is. */
  identity: number;
  placement: number;
  /** Index of the node's family. */
  family: number;
  trial: TrialLeases;
  /** Record of the decision in the evidence ring. */
  sequence: number;
  routing: Routing;
}

/** Decides and dispatches until an answer is the caller's, or nothing more is tried. */
async function routeRequest(plane: DataPlane, exchange: Exchange, admitted: AdmittedRequest): Promise<void> {
  const { request, body, meter } = admitted;
  const wait = { waitedMs: 0 };
  let last: AttemptResult | null = null;
  let previous = -1;
  for (;;) {
    if (exchange.interruption !== null) return endEarly(plane, exchange, exchange.interruption, false);

    // availability → cost → dispatch: one step that ends with a booking
    let chosen = choose(plane, exchange, request, previous);
    if (chosen === null && mayPark(request, plane.decision, wait.waitedMs)) {
      chosen = await parkUntilChosen(plane, exchange, request, previous, wait, body.bytes);
      if (chosen === null) {
        if (exchange.interruption !== null) endEarly(plane, exchange, exchange.interruption, false);
        return;
      }
    }
    if (chosen === null) {
      // nothing was awaited since the decision, so that it is still this request's
      if (plane.decision.kind === "exhausted" && last !== null) {
        return giveUp(plane, exchange, request, last, "nodes_exhausted");
      }
      if (plane.decision.kind === "incapable") return refuseIncapable(plane, exchange, request, plane.decision);
      return saturate(plane, exchange, request, plane.decision);
    }
    previous = chosen.sequence;

    let isFreshConnection = false;
    for (;;) {
      exchange.routing = chosen.routing;
      const attempt: Attempt = {
        booking: chosen.booking,
        placement: chosen.placement,
        endpoint: request.endpoint,
        trial: chosen.trial,
        sentAtMs: plane.clock.nowMs(),
        isFreshConnection,
        isJudged: false,
      };
      meter.attempt(chosen.row, chosen.placement);
      if (exchange.trace !== null) noteAttempt(plane, exchange.trace, chosen, attempt.sentAtMs);
      try {
        last = await dispatch(plane, exchange, body, request, attempt);
      } catch (error) {
        // a fault of ours says nothing about the node, and may not keep its place
        settle(plane.settler, request, attempt, { kind: "cancelled" }, plane.clock.nowMs());
        throw error;
      }

      // failover: what the end of the attempt means for the node and for the request
      exchange.onInterrupt(null);
      const { outcome, move } = settle(plane.settler, request, attempt, last.end, plane.clock.nowMs());
      meter.attemptEnded(chosen, last, outcome);
      noteOutcome(plane, admitted, chosen, last, outcome);
      countAttempt(exchange, attempt, last);
      if (exchange.trace !== null || move.kind !== "deliver" || outcome === "interrupted") {
        traceEnd(plane, exchange, { chosen, attempt, result: last, outcome, move });
      }
      if (move.kind === "retry_connection") {
        const booking = bookAgain(plane.decider, request, chosen, chosen.trial, plane.clock.nowMs());
        // the node no longer takes it: another decision
        if (booking === null) break;
        chosen.booking = booking;
        isFreshConnection = true;
        continue;
      }
      switch (move.kind) {
        case "deliver":
          return deliver(exchange, last);
        case "give_up":
          return giveUp(plane, exchange, request, last, move.reason);
        case "abandon":
          return endEarly(plane, exchange, exchange.interruption ?? "caller_gone", last.canTakeErrorEvent);
        case "redispatch":
          break;
      }
      break;
    }
  }
}

/**
 * Steps 2–4, recorded. Null: no node; `plane.decision` says why.
 *
 * @param options `isLook`: one of the many looks of a request that waits. It is recorded only when it finds a node: else
 *   each release would write a record for everybody who waits, and push every other one out of the ring.
 */
function choose(
  plane: DataPlane,
  exchange: Exchange,
  request: RouteRequest,
  previous: number,
  { isLook = false }: { isLook?: boolean } = {},
): Chosen | null {
  const { decision } = plane;
  const nowMs = plane.clock.nowMs();
  const { tally, trace } = exchange;
  const decider = trace === null ? plane.decider : plane.tracedDecider;
  const booking = decide(decider, request, nowMs, plane.draw(), decision);
  const decidedAtMs = plane.clock.nowMs();
  tally.decideMs += decidedAtMs - nowMs;
  if (booking === null && isLook) return null;
  if (booking !== null) request.dispatches += 1;
  const sequence = writeDecision(plane.ring, plane.table, request, decision, { nowMs, previous });
  plane.lastSequence = sequence;
  trace?.decided(decisionNote(plane, sequence, { startMs: nowMs, endMs: decidedAtMs }));
  if (booking === null) return null;
  const upstream = plane.upstreamOf(decision.row);
  tally.family = decision.family;
  tally.reason = decision.reason;
  tally.dispatches = request.dispatches;
  return {
    booking,
    row: decision.row,
    identity: plane.table.identity[decision.row] ?? -1,
    placement: decision.placement,
    family: decision.family,
    trial: { ...decision.trial },
    sequence,
    routing: routingOf(plane, request, decision, { sequence, upstream }),
  };
}

function routingOf(
  plane: DataPlane,
  request: RouteRequest,
  decision: Decision,
  { sequence, upstream }: { sequence: number; upstream: Upstream | undefined },
): Routing {
  const hint = HINT_USES[decision.hint];
  const routing: Routing = {
    node: upstream?.node.id ?? "",
    policy: request.policy.name,
    family: plane.directory.families[decision.family] ?? "",
    decision: plane.decisionId(sequence),
    queueDepth: Math.round(decision.depth),
    attempt: request.dispatches,
    reason: REASONS[decision.reason] ?? "cheapest",
  };
  return hint === undefined || hint === "none" ? routing : { ...routing, hint };
}

/** Waits for room. Null: none came; the caller has been answered, or the request was interrupted. */
async function parkUntilChosen(
  plane: DataPlane,
  exchange: Exchange,
  request: RouteRequest,
  previous: number,
  wait: { waitedMs: number },
  bytes: number,
): Promise<Chosen | null> {
  const { policy, model } = request;
  let chosen: Chosen | null = null;
  const startedAtMs = plane.clock.nowMs();
  const parked = plane.parked.wait({
    model,
    policy,
    bytes,
    kind: waitKindOf(request),
    isPlain: isPlain(request),
    ticket: request.ticket,
    waitMs: policy.maxQueueMs - wait.waitedMs,
    onTicket: (ticket) => {
      request.ticket = ticket;
    },
    tryTake: () => {
      chosen = choose(plane, exchange, request, previous, { isLook: true });
      return chosen !== null;
    },
  });
  const interrupted = Promise.withResolvers<"interrupted">();
  exchange.onInterrupt(() => {
    parked.leave();
    interrupted.resolve("interrupted");
  });
  const refusal = await Promise.race([parked.ended, interrupted.promise]);
  exchange.onInterrupt(null);
  wait.waitedMs += plane.clock.nowMs() - startedAtMs;
  exchange.tally.waitedMs = wait.waitedMs;
  exchange.trace?.waited({ startMs: startedAtMs, endMs: plane.clock.nowMs() });
  if (refusal !== null && refusal !== "interrupted") {
    // the scratch decision is another request's by now; room that came in this very moment is taken
    chosen = choose(plane, exchange, request, previous);
    if (chosen !== null) return chosen;
    refuseWait(plane, exchange, request, { refusal, waitedMs: wait.waitedMs, decision: plane.decision });
  }
  return chosen;
}

/** Step 4 on the wire: sends to the node and relays its answer from the commit point on. */
function dispatch(
  plane: DataPlane,
  exchange: Exchange,
  body: AdmittedRequest["body"],
  request: RouteRequest,
  attempt: Attempt,
): Promise<AttemptResult> {
  const upstream = plane.upstreamOf(attempt.booking.row);
  if (upstream === undefined) return Promise.resolve(nodeLeft(plane));
  const { promise, resolve } = Promise.withResolvers<AttemptResult>();
  const { timeouts } = upstream.node;
  const run = new AttemptRun({
    upstream,
    limits: {
      firstByteMs: timeouts.firstByteMs,
      firstTokenMs: timeouts.firstTokenMs,
      idleMs: timeouts.idleMs,
      holdMs: plane.settings.failover.holdMs,
    },
    answers: request.answers,
    clock: plane.clock,
    deadlines: plane.deadlines,
    sink: {
      commit: (head, held) => {
        noteCommit(plane.settler, attempt, plane.clock.nowMs());
        // nothing is sent again from here on, however long the answer takes
        body.release();
        return exchange.commit(head, held);
      },
      write: (bytes) => {
        noteRelayed(plane.table, attempt.booking.row);
        return exchange.write(bytes);
      },
      onDrain: (callback) => exchange.onDrain(callback),
    },
    onFirstToken: () => noteFirstToken(plane.table, plane.worker, attempt.booking, plane.clock.nowMs()),
    onEnd: resolve,
  });
  const { isFreshConnection } = attempt;
  run.start(composeCall(exchange, body, upstream, { model: request.model.index, isFreshConnection }));
  exchange.onInterrupt(() => run.cancel());
  return promise;
}

/** The node left the configuration between decision and dispatch. */
function nodeLeft(plane: DataPlane): AttemptResult {
  return {
    timeouts: plane.settings.timeouts,
    end: { kind: "fault", fault: "node_down", isUnsent: false },
    answer: null,
    isCommitted: false,
    canTakeErrorEvent: false,
    hasToldError: false,
    firstByteMs: Number.NaN,
    firstTokenMs: Number.NaN,
    durationMs: 0,
    promptTokens: Number.NaN,
    outputTokens: Number.NaN,
    cachedTokens: Number.NaN,
  };
}

/** The answer is the caller's: whole, or relayed and now at its end. */
function deliver(exchange: Exchange, result: AttemptResult): void {
  if (result.end.kind === "interrupted" && !result.hasToldError) {
    const message = ERRORS.stream_interrupted.message({ cause: result.end.fault ?? "the node ended it early" });
    exchange.breakAnswer("stream_interrupted", message, result.canTakeErrorEvent);
  } else if (result.isCommitted) {
    exchange.endAnswer();
  } else if (result.answer !== null) {
    exchange.deliver(result.answer.head, result.answer.body);
  }
}

/** What the caller's last attempt adds to the request's tally. */
function countAttempt({ tally, startedAtMs }: Exchange, { sentAtMs }: Attempt, result: AttemptResult): void {
  tally.firstTokenMs = sentAtMs - startedAtMs + result.firstTokenMs;
  tally.tokensMs = result.durationMs - result.firstTokenMs;
  tally.promptTokens = result.promptTokens;
  tally.outputTokens = result.outputTokens;
}

function noteOutcome(
  plane: DataPlane,
  { request, meter }: AdmittedRequest,
  chosen: Chosen,
  result: AttemptResult,
  outcome: ReturnType<typeof settle>["outcome"],
): void {
  const { end, firstByteMs, firstTokenMs, durationMs, promptTokens, outputTokens, cachedTokens } = result;
  writeOutcome(plane.ring, chosen.sequence, {
    outcome,
    status: end.kind === "answer" ? end.status : -1,
    fault: end.kind === "fault" || end.kind === "interrupted" ? end.fault : null,
    firstByteMs,
    firstTokenMs,
    durationMs,
    promptTokens,
    outputTokens,
    costUsd: meter.usd,
    cachedTokens,
  });
  plane.samples.add({
    row: chosen.row,
    identity: chosen.identity,
    placement: chosen.placement,
    model: request.model.index,
    outcome,
    promptTokens,
    outputTokens,
    cachedTokens,
    firstTokenMs,
    durationMs,
    policy: request.policy.index,
    family: chosen.family,
    usd: meter.usd,
    workedTokens: meter.workedTokens,
    timing: timingOf(chosen.booking, isPromptOnly(request.endpoint)),
  });
}
