/**
 * When polls take a node out and bring it back: failed ones in a row without traffic that passes take it out, good ones
 * in a row bring it back. Cooldowns after failed requests are another matter, and neither overrules the other.
 */

/** How a node's polls went. */
export interface HealthGate {
  readonly isOut: boolean;
  /** Failed polls in a row that counted. */
  readonly failedInRow: number;
  readonly goodInRow: number;
  /** Start of the first poll of the present run of failures, ms; NaN: there is none. */
  readonly failingSinceMs: number;
}

/** A node that was never polled is in: it gets the traffic that shows what it is. */
export const FRESH_GATE: HealthGate = Object.freeze({
  isOut: false,
  failedInRow: 0,
  goodInRow: 0,
  failingSinceMs: Number.NaN,
});

/** @param healthyAfter good polls in a row that bring a node back. */
export function afterGoodPoll(gate: HealthGate, healthyAfter: number): HealthGate {
  const goodInRow = gate.goodInRow + 1;
  return { isOut: gate.isOut && goodInRow < healthyAfter, failedInRow: 0, goodInRow, failingSinceMs: Number.NaN };
}

/** A poll that failed. */
export interface FailedPoll {
  /** When it was sent, ms. */
  readonly startMs: number;
  /** Nobody listens there. */
  readonly isRefused: boolean;
  /** Last success of a request on the node, ms on the same clock; NaN: none. */
  readonly lastTrafficAtMs: number;
}

/**
 * A late or bad poll of a node whose answers come through is that of a busy node, and does not count: `failedInRow` is
 * 0 then. A refused one is not excused: what still comes through was accepted before.
 *
 * @param unhealthyAfter failed polls in a row that take a node out.
 */
export function afterFailedPoll(gate: HealthGate, poll: FailedPoll, unhealthyAfter: number): HealthGate {
  const failingSinceMs = gate.failedInRow === 0 ? poll.startMs : gate.failingSinceMs;
  if (!poll.isRefused && poll.lastTrafficAtMs >= failingSinceMs) {
    return { isOut: gate.isOut, failedInRow: 0, goodInRow: 0, failingSinceMs: Number.NaN };
  }
  const failedInRow = gate.failedInRow + 1;
  return { isOut: gate.isOut || failedInRow >= unhealthyAfter, failedInRow, goodInRow: 0, failingSinceMs };
}
