/** Step 1 on the wire: who calls, what the body asks for, which policy it means. Refusals reach no node. */

import {
  admit,
  expectedTokens,
  isPromptOnly,
  isRefusedAllowance,
  noteRequest,
  type RouteRequest,
  type RoutingCall,
  takeAllowance,
} from "@zml/engine";
import { ERRORS } from "@zml/protocol/errors";
import { ACCELERATOR_HEADER, POLICY_HEADER } from "@zml/protocol/wire";
import type { DataPlane } from "../data-plane.ts";
import type { ErrorOptions, Exchange } from "../exchange.ts";
import type { CallerRights } from "./authenticate.ts";
import type { BodyRefusal } from "./body-scan.ts";
import { limitLines, limitRefusal, refusalLines } from "./limit-answer.ts";
import { promptMarksOf } from "./prompt-marks.ts";
import { promptTokensAtLeast, promptTokensOf } from "./prompt-size.ts";
import { type BodyKept, type BodyRefused, drainBody, readBody } from "./read-body.ts";
import { refusalOf } from "./refuse-caller.ts";
import { RequestMeter } from "./request-meter.ts";

/** A request that may be routed, with its body; the body is released by whoever got it. */
export interface AdmittedRequest {
  request: RouteRequest;
  body: BodyKept;
  meter: RequestMeter;
}

/** Admits a request, or answers it and returns null. `beforeBody` runs once the body is wanted (100-continue). */
export async function admitRequest(
  plane: DataPlane,
  exchange: Exchange,
  beforeBody: () => void,
): Promise<AdmittedRequest | null> {
  const { headers } = exchange.request;
  const caller = plane.keys.identify(exchange.request.rawHeaders);
  exchange.routing = { reason: "refused" };
  if (caller.kind !== "known") {
    const { code, message } = refusalOf(caller);
    exchange.fail(code, message, leaveBody(plane, exchange));
    return null;
  }
  const { rights } = caller;
  exchange.account = rights.account;
  exchange.keyName = rights.key;
  const { limits } = plane.settings;
  const policyHeader = textOf(headers[POLICY_HEADER]);
  const acceleratorHeader = textOf(headers[ACCELERATOR_HEADER]);
  if (Number(headers["content-length"] ?? 0) <= limits.bodyBytes) beforeBody();
  const body = await readBody(exchange.request, {
    limitBytes: limits.bodyBytes,
    budget: plane.bodyBudget,
    deadlineMs: plane.settings.data.bodyMs,
    deadlines: plane.deadlines,
    onStart: (cancel) => exchange.onInterrupt(cancel),
    scan: { checkHints: policyHeader === null || acceleratorHeader === null },
  });
  exchange.onInterrupt(null);
  if (!body.ok) {
    // interrupted: whoever drives the request answers, if anybody is left to read it
    if (exchange.interruption === null) refuseBody(plane, exchange, body);
    return null;
  }
  const { scan } = body;
  const call: RoutingCall = {
    account: rights.account,
    rights,
    model: scan.model,
    policy: policyHeader ?? scan.policy,
    accelerator: acceleratorHeader ?? scan.accelerator,
    endpoint: exchange.route.endpoint,
    isStream: scan.stream,
    promptTokens: promptTokensOf(scan, body.bytes),
    maxTokens: scan.maxTokens,
    answers: scan.n,
    promptTokensAtLeast: promptTokensAtLeast(scan),
    hasImages: scan.images > 0,
    marks: plane.decider.prefixes === null ? null : promptMarksOf(body.chunks, scan.promptParts),
  };
  const admission = admit(plane.directory, call, plane.clock.nowMs());
  if (admission.kind === "admitted") {
    admission.request.key = rights.keyIndex;
    exchange.routing = { policy: admission.request.policy.name };
    exchange.admitted = admission.request;
    exchange.tally.policy = admission.request.policy.index;
    exchange.tally.model = admission.request.model.index;
    const meter = meterOf(plane, exchange, admission.request, rights);
    if (meter === null) {
      body.release();
      return null;
    }
    noteRequest(plane.budget, admission.request.admittedAtMs);
    return { request: admission.request, body, meter };
  }
  body.release();
  const { name, known } = admission;
  switch (admission.code) {
    case "model_not_found":
      exchange.fail("model_not_found", ERRORS.model_not_found.message({ model: name, known }), { param: "model" });
      break;
    case "policy_not_found":
      exchange.fail("policy_not_found", ERRORS.policy_not_found.message({ policy: name, known }), { param: "policy" });
      break;
    case "model_not_allowed": {
      const message = ERRORS.model_not_allowed.message({ key: rights.key ?? "", model: name, allowed: known });
      exchange.fail("model_not_allowed", message, { param: "model" });
      break;
    }
    case "policy_not_allowed": {
      const message = ERRORS.policy_not_allowed.message({ key: rights.key ?? "", policy: name, allowed: known });
      exchange.fail("policy_not_allowed", message, { param: "policy" });
      break;
    }
    case "family_not_found": {
      const message = ERRORS.family_not_found.message({ family: name, known });
      exchange.fail("family_not_found", message, { param: "accelerator" });
      break;
    }
    case "no_node_available": {
      exchange.routing = { reason: "no_node_available" };
      const message = ERRORS.no_node_available.message({ model: name });
      exchange.fail("no_node_available", message, { retryAfterMs: NOT_POLLED_RETRY_MS, extra: { families: [] } });
      break;
    }
  }
  return null;
}

/** Takes the request off the limits of its key and account. Null: one is reached, and the caller has been told. */
function meterOf(
  plane: DataPlane,
  exchange: Exchange,
  request: RouteRequest,
  rights: CallerRights,
): RequestMeter | null {
  const { limits, table, worker } = plane;
  const nowMs = request.admittedAtMs;
  const output = isPromptOnly(request.endpoint) ? 0 : expectedTokens(table, request);
  const taken = takeAllowance(limits, worker, rights.rows, { tokens: request.promptTokens + output, nowMs });
  if (!isRefusedAllowance(taken)) {
    exchange.limitLines = limitLines(taken, exchange.route.shape, nowMs);
    return new RequestMeter(plane, request, taken);
  }
  exchange.limitLines = refusalLines(limits, rights.rows, exchange.route.shape, nowMs);
  const { code, message, options } = limitRefusal(taken, rights, Date.now());
  exchange.routing = { policy: request.policy.name, reason: "refused" };
  exchange.fail(code, message, options);
  return null;
}

/** Told to callers who are early: nodes that were never polled are asked again within seconds. */
const NOT_POLLED_RETRY_MS = 1000;

function refuseBody(plane: DataPlane, exchange: Exchange, refused: BodyRefused): void {
  if (refused.code === "caller_gone") return;
  const options = refused.isRequestComplete ? {} : { mustClose: true, closeAfter: refused.drained };
  const { limits } = plane.settings;
  switch (refused.code) {
    case "body_too_large":
      exchange.fail(refused.code, ERRORS.body_too_large.message({ limitBytes: limits.bodyBytes }), options);
      break;
    case "body_budget_exhausted": {
      const message = ERRORS.body_budget_exhausted.message({ limitBytes: limits.bodyBytesTotal });
      exchange.fail(refused.code, message, { ...options, retryAfterMs: NOT_POLLED_RETRY_MS });
      break;
    }
    case "body_timeout":
      exchange.fail(refused.code, ERRORS.body_timeout.message({ limitMs: plane.settings.data.bodyMs }), options);
      break;
    case "unsupported_encoding": {
      const message = ERRORS.unsupported_encoding.message({ encoding: refused.encoding, supported: ENCODINGS });
      exchange.fail(refused.code, message, options);
      break;
    }
    case "invalid_encoding":
      exchange.fail(refused.code, ERRORS.invalid_encoding.message({ encoding: refused.encoding }), options);
      break;
    default:
      refuseScan(exchange, refused.code, refused.scan, options);
  }
}

const ENCODINGS = ["gzip", "deflate", "br", "zstd"];

function refuseScan(
  exchange: Exchange,
  code: BodyRefusal["code"],
  scan: BodyRefusal | null,
  options: ErrorOptions,
): void {
  const field = scan?.field ?? "model";
  switch (code) {
    case "invalid_json":
      exchange.fail(
        code,
        ERRORS.invalid_json.message(
          scan === null ? {} : { at: scan.offset, ...(scan.expected === null ? {} : { expected: scan.expected }) },
        ),
        options,
      );
      break;
    case "duplicate_field":
      exchange.fail(code, ERRORS.duplicate_field.message({ field }), { ...options, param: field });
      break;
    case "invalid_field": {
      const message = ERRORS.invalid_field.message({ field, expected: scan?.expected ?? "another type" });
      exchange.fail(code, message, { ...options, param: field });
      break;
    }
    case "missing_model":
    case "invalid_model":
      exchange.fail(code, ERRORS[code].message(), { ...options, param: "model" });
      break;
    default:
      exchange.fail(code, ERRORS[code].message(), options);
  }
}

/** The answer comes before the body has been read: the connection goes once the caller stops sending. */
function leaveBody(plane: DataPlane, { request }: Exchange): ErrorOptions {
  const { data, limits } = plane.settings;
  const bounds = { limitBytes: limits.bodyBytes, deadlineMs: data.bodyMs };
  return { mustClose: true, closeAfter: drainBody(request, bounds) };
}

function textOf(value: string | string[] | undefined): string | null {
  return typeof value === "string" ? value : null;
}
