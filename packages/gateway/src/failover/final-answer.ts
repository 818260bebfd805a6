/** What the caller is told when nothing more is tried: the one place that turns a reason into HTTP. */

import { type Decision, EXCLUSIONS, type NoNodeReason, QUEUES_MAX, REASONS, type RouteRequest } from "@zml/engine";
import { ERRORS, type SaturatedFamily } from "@zml/protocol/errors";
import type { AttemptResult } from "../attempt-result.ts";
import type { DataPlane } from "../data-plane.ts";
import type { Exchange, Interruption } from "../exchange.ts";
import type { WaitRefusal } from "../wait-refusal.ts";

/** Nothing more is tried: the node's last error as it is, or what went wrong on the way to it. */
export function giveUp(
  plane: DataPlane,
  exchange: Exchange,
  request: RouteRequest,
  last: AttemptResult,
  reason: NoNodeReason,
): void {
  exchange.routing = { ...exchange.routing, reason };
  if (last.answer !== null && isForCallers(last.answer.head.status)) {
    exchange.tally.ending = "given_up";
    exchange.deliver(last.answer.head, last.answer.body, { shouldRetry: false });
    return;
  }
  const attempts = request.dispatches;
  if (last.end.kind === "answer") {
    const cause = whyNotForCallers(last.end.status);
    exchange.fail("upstream_failed", ERRORS.upstream_failed.message({ attempts, cause }), { shouldRetry: false });
    return;
  }
  const fault = last.end.kind === "fault" ? last.end.fault : "reset";
  const { timeouts } = last;
  switch (fault) {
    case "first_byte_timeout":
      failByTimeout(exchange, attempts, "timeouts.first_byte_ms", timeouts.firstByteMs);
      break;
    case "first_token_timeout":
      failByTimeout(exchange, attempts, "timeouts.first_token_ms", timeouts.firstTokenMs);
      break;
    case "connect_timeout":
      failByTimeout(exchange, attempts, "timeouts.connect_ms", timeouts.connectMs);
      break;
    case "head_too_large": {
      const cause = `an answer whose head is over ${plane.settings.limits.headerBytes} bytes (limits.header_bytes)`;
      exchange.fail("upstream_failed", ERRORS.upstream_failed.message({ attempts, cause }), { shouldRetry: false });
      break;
    }
    default:
      exchange.fail("upstream_failed", ERRORS.upstream_failed.message({ attempts, cause: fault }), {
        shouldRetry: false,
      });
  }
}

/**
 * A failure that says 200 would be taken for an answer, a redirect be followed. That a node refuses our key is no word on
 * the caller's, and its text likes to repeat the key.
 */
function isForCallers(status: number): boolean {
  return status >= 400 && !REFUSED_KEYS.has(status);
}

function whyNotForCallers(status: number): string {
  if (REFUSED_KEYS.has(status)) return `status ${status}: the node refuses the key that it was sent`;
  return status < 400 ? `no usable answer (status ${status})` : `status ${status} with more text than is held`;
}

const REFUSED_KEYS: ReadonlySet<number> = new Set([401, 403, 407]);

function failByTimeout(exchange: Exchange, attempts: number, limit: string, limitMs: number): void {
  const message = ERRORS.upstream_timeout.message({ attempts, limit, limitMs });
  exchange.fail("upstream_timeout", message, { shouldRetry: false });
}

/** No node can take the request now. */
export function saturate(plane: DataPlane, exchange: Exchange, request: RouteRequest, decision: Decision): void {
  const reason = REASONS[decision.reason];
  const code = reason === "queue_saturated" ? "queue_saturated" : "no_node_available";
  exchange.routing = { policy: request.policy.name, decision: plane.decisionId(plane.lastSequence), reason: code };
  exchange.fail(code, ERRORS[code].message({ model: request.model.name, policy: request.policy.name }), {
    retryAfterMs: decision.retryAfterMs,
    extra: { families: familiesOf(plane, request, decision) },
  });
}

/** No node could ever take the request, since each lacks something that it needs: waiting would not help. */
export function refuseIncapable(plane: DataPlane, exchange: Exchange, request: RouteRequest, decision: Decision): void {
  const { model, contextAtLeast, policy } = request;
  exchange.routing = {
    policy: policy.name,
    decision: plane.decisionId(plane.lastSequence),
    reason: "no_capable_node",
  };
  const extra = { families: familiesOf(plane, request, decision) };
  const prompt = exchange.route.path === "/v1/responses" ? "input" : "messages";
  switch (EXCLUSIONS[decision.lacking]) {
    case "context_too_small": {
      const sizes = { atLeast: contextAtLeast, largest: largestContextOf(plane, request) };
      const message = ERRORS.context_length_exceeded.message({ model: model.name, ...sizes });
      exchange.fail("context_length_exceeded", message, { param: prompt, extra });
      break;
    }
    case "images_unsupported": {
      const message = ERRORS.images_unsupported.message({ model: model.name });
      exchange.fail("images_unsupported", message, { param: prompt, extra });
      break;
    }
    default: {
      const message = ERRORS.endpoint_unsupported.message({ model: model.name, path: exchange.route.path });
      exchange.fail("endpoint_unsupported", message, { param: "model", extra });
    }
  }
}

/** The largest known context of the model on the nodes of the chain, tokens. */
function largestContextOf(plane: DataPlane, { model, policy }: RouteRequest): number {
  let largest = 0;
  for (let index = 0; index < model.rows.length; index++) {
    if ((policy.positionOfFamily[model.families[index] as number] ?? -1) < 0) continue;
    const contextTokens = plane.table.contextTokens[model.placements[index] as number] as number;
    if (contextTokens > largest) largest = contextTokens;
  }
  return largest;
}

/** A wait for room that ended without any. */
export function refuseWait(
  plane: DataPlane,
  exchange: Exchange,
  request: RouteRequest,
  wait: { refusal: WaitRefusal; waitedMs: number; decision: Decision },
): void {
  // its last capable node left meanwhile
  if (wait.decision.kind === "incapable") return refuseIncapable(plane, exchange, request, wait.decision);
  const extra = { families: familiesOf(plane, request, wait.decision) };
  const options = { retryAfterMs: wait.decision.retryAfterMs, extra };
  exchange.routing = {
    policy: request.policy.name,
    decision: plane.decisionId(plane.lastSequence),
    reason: "queue_saturated",
  };
  switch (wait.refusal) {
    case "requests_full":
    case "bytes_full":
    case "queues_full":
      exchange.fail("queue_full", ERRORS.queue_full.message({ limit: FULL_LIMITS[wait.refusal] }), options);
      break;
    case "queue_timeout":
      exchange.fail("queue_timeout", ERRORS.queue_timeout.message({ waitedMs: Math.round(wait.waitedMs) }), options);
      break;
    case "stopped":
      exchange.fail("shutting_down", ERRORS.shutting_down.message(), {
        retryAfterMs: SHUTDOWN_RETRY_MS,
        mustClose: true,
      });
      break;
  }
}

/** The bound that a full queue has hit, as the caller is told. */
const FULL_LIMITS = {
  requests_full: "limits.queue_requests",
  bytes_full: "limits.queue_bytes",
  queues_full: `${QUEUES_MAX} queues, one for each model and policy with waiting requests`,
} as const;

/** Told to callers whom a shutdown turns away: whoever replaces this process answers at once. */
const SHUTDOWN_RETRY_MS = 1000;

/** The request was ended early, by its caller, by `total_ms` or by the end of the process. */
export function endEarly(
  plane: DataPlane,
  exchange: Exchange,
  interruption: Interruption,
  canTakeErrorEvent: boolean,
): void {
  switch (interruption) {
    case "caller_gone":
      return;
    case "total_timeout": {
      const message = ERRORS.request_timeout.message({ limitMs: plane.settings.timeouts.totalMs ?? 0 });
      if (exchange.response.headersSent) exchange.breakAnswer("request_timeout", message, canTakeErrorEvent);
      else exchange.fail("request_timeout", message);
      return;
    }
    case "shutting_down": {
      const message = ERRORS.shutting_down.message();
      if (exchange.response.headersSent) exchange.breakAnswer("shutting_down", message, canTakeErrorEvent);
      else exchange.fail("shutting_down", message, { retryAfterMs: SHUTDOWN_RETRY_MS, mustClose: true });
    }
  }
}

/** Per family of the chain why its nodes were left out; the most frequent reason stands for the family. */
function familiesOf(plane: DataPlane, request: RouteRequest, decision: Decision): SaturatedFamily[] {
  const { evidence } = decision;
  return Array.from(request.policy.chainFamilies, (family, position) => {
    let most = -1;
    let nodes = 0;
    for (let exclusion = 0; exclusion < EXCLUSIONS.length; exclusion++) {
      const count = evidence.excluded[position * EXCLUSIONS.length + exclusion] as number;
      if (count > nodes) {
        most = exclusion;
        nodes = count;
      }
    }
    return {
      family: plane.directory.families[family] ?? String(family),
      reason: EXCLUSIONS[most] ?? "no_nodes",
      nodes,
    };
  });
}
