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

/** A W3C trace context: a trace id that also serves as request id, a span's id, and the whole `traceparent` field. */
export interface TraceContext {
  traceId: string;
  parentId: string;
  traceparent: string;
}

/** Draws a trace context, sampled. All-zero ids, which the standard forbids, are as likely as a hash collision. */
export function drawTraceContext(): TraceContext {
  const traceId = draw(TRACE_DIGITS);
  const parentId = draw(PARENT_DIGITS);
  return { traceId, parentId, traceparent: `00-${traceId}-${parentId}-01` };
}

/** Draws the id of a span. */
export function drawSpanId(): string {
  return draw(PARENT_DIGITS);
}

function draw(count: number): string {
  if (next + count > digits.length) {
    digits = randomBytes(DRAW_BYTES).toString("hex");
    next = 0;
  }
  next += count;
  return digits.slice(next - count, next);
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
