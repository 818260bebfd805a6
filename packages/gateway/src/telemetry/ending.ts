/** How a request ended, told from what its exchange saw. */

import type { Ending } from "@zml/engine";
import type { ErrorCode } from "@zml/protocol/errors";
import type { Interruption } from "../exchange.ts";

/** Errors of ours that are no refusal. */
const ENDING_OF_CODE: Partial<Record<ErrorCode, Ending>> = {
  context_length_exceeded: "incapable",
  images_unsupported: "incapable",
  endpoint_unsupported: "incapable",
  queue_saturated: "saturated",
  no_node_available: "saturated",
  queue_full: "parked_in_vain",
  queue_timeout: "parked_in_vain",
  upstream_failed: "given_up",
  upstream_timeout: "given_up",
  request_timeout: "over_time",
  shutting_down: "drained",
  stream_interrupted: "interrupted",
  internal_error: "internal_error",
};

const ENDING_OF_INTERRUPTION: Record<Interruption, Ending> = {
  caller_gone: "cancelled",
  total_timeout: "over_time",
  shutting_down: "drained",
};

/** @param seen what was noted of the request. @param interruption comes first: what follows from it is no second cause. */
export function endingOf(
  seen: { readonly ending: Ending | null; readonly code: ErrorCode | null },
  interruption: Interruption | null,
): Ending {
  if (seen.ending !== null) return seen.ending;
  if (interruption !== null) return ENDING_OF_INTERRUPTION[interruption];
  if (seen.code !== null) return ENDING_OF_CODE[seen.code] ?? "refused";
  return "delivered";
}
