/** Ids for requests that bring none: random hex digits, drawn in bulk, since one draw per request costs a microsecond. */

import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { REQUEST_ID_HEADER } from "@zml/protocol/wire";

/** Bytes of one draw. */
const DRAW_BYTES = 12 * 1024;
/** Hex digits of a W3C trace id and of a parent id. */
const TRACE_DIGITS = 32;
const PARENT_DIGITS = 16;

let digits = "";
let next = 0;

/** A W3C trace context: a trace id that also serves as request id, and the whole `traceparent` field. */
export interface TraceContext {
  traceId: string;
  traceparent: string;
}

/** Draws a trace context, sampled. All-zero ids, which the standard forbids, are as likely as a hash collision. */
export function drawTraceContext(): TraceContext {
  if (next + TRACE_DIGITS + PARENT_DIGITS > digits.length) {
    digits = randomBytes(DRAW_BYTES).toString("hex");
    next = 0;
  }
  const traceId = digits.slice(next, next + TRACE_DIGITS);
  const parentId = digits.slice(next + TRACE_DIGITS, next + TRACE_DIGITS + PARENT_DIGITS);
  next += TRACE_DIGITS + PARENT_DIGITS;
  return { traceId, traceparent: `00-${traceId}-${parentId}-01` };
}

const REQUEST_ID = /^[!-~]{1,128}$/;

/** The id that a request brought, where it can be used, else `made`. */
export function requestIdOf(
  { headers }: { headers: IncomingHttpHeaders },
  made: string = drawTraceContext().traceId,
): string {
  const given = headers[REQUEST_ID_HEADER];
  return typeof given === "string" && REQUEST_ID.test(given) ? given : made;
}
