/**
 * Outcome classes, one table: what an attempt's end means for the node and for the request. Engines say the same thing
 * differently, so an adapter may already have a verdict; without one the status decides.
 */

import type { Outcome, TransportFault } from "../reasons.ts";

/** What an adapter reads out of an answer. */
export type AdapterVerdict = Extract<
  Outcome,
  "success" | "failure" | "overloaded" | "misconfigured" | "endpoint_unsupported" | "too_large" | "caller_error"
>;

/** How an attempt ended before its commit point, or after it. */
export type AttemptEnd =
  | { kind: "answer"; status: number; verdict: AdapterVerdict | null; retryAfterMs: number }
  /** No usable HTTP answer. `isUnsent`: the connection provably carried nothing to the node. */
  | { kind: "fault"; fault: TransportFault; isUnsent: boolean }
  /** Broken after the commit point. */
  | { kind: "interrupted"; fault: TransportFault | null }
  | { kind: "cancelled" };

/**
 * Class of an HTTP answer by its status alone. Methods and paths are ours and not the caller's, so that a 405 says that
 * the node lacks the endpoint.
 */
export function classifyStatus(status: number): AdapterVerdict {
  if (status < 300) return "success";
  // redirects are not followed: the node's URL is wrong, or something in front of it wants a sign-in
  if (status < 400) return "failure";
  switch (status) {
    case 401:
    case 403:
      return "misconfigured";
    case 404:
      return "misconfigured";
    case 413:
      return "too_large";
    case 424:
      return "failure";
    case 429:
      return "overloaded";
    case 405:
    case 501:
      return "endpoint_unsupported";
    default:
      return status >= 500 ? "failure" : "caller_error";
  }
}

/** Class of an attempt's end. */
export function classifyEnd(end: AttemptEnd): Outcome {
  switch (end.kind) {
    case "answer":
      return end.verdict ?? classifyStatus(end.status);
    case "fault":
      // a failed connect carried nothing too, but it is the node's fault and no reason to try it again
      return end.isUnsent && !isFailedConnect(end) ? "unsent" : "failure";
    case "interrupted":
      return "interrupted";
    case "cancelled":
      return "cancelled";
  }
}

/** True for connects that failed: nothing was dispatched, so they don't count as attempts. */
export function isFailedConnect(end: AttemptEnd): boolean {
  return end.kind === "fault" && CONNECT_FAULTS.has(end.fault);
}

const CONNECT_FAULTS: ReadonlySet<TransportFault> = new Set(["connect_refused", "connect_timeout", "connect_failed"]);

/** What an outcome adds to a node's error rate. 1: the node's fault, 0: it did well, NaN: says nothing about the node. */
export function errorShareOf(outcome: Outcome): number {
  switch (outcome) {
    case "success":
      return 0;
    case "failure":
    case "interrupted":
      return 1;
    default:
      return Number.NaN;
  }
}
