import assert from "node:assert/strict";
import { test } from "node:test";
import { isRowIdle, removeWorkerShare } from "../fleet-table.ts";
import { buildFleet } from "../testing/fleet.ts";
import { completeBooking, releaseBooking, takePlace } from "./booking.ts";

const PLAIN = { tokenTargetMs: Number.NaN, isStream: true };
const NOTHING = { nowMs: 0, depth: 0, warmTokens: 0, firstMs: Number.NaN, tokenMs: Number.NaN, outputTokens: 1 };

const ABSURD = [1e14, 123_456_789_012_345, 4_503_599_627_370_497, Number.MAX_VALUE, Number.POSITIVE_INFINITY];

test("no size that a caller states leaves anything in the counts once its booking ends", () => {
  for (const tokens of ABSURD) {
    const { table } = buildFleet({ nodes: [{ family: "A", maxInFlight: 9 }], workers: 2 });
    const book = (kvTokens: number) => {
      takePlace(table, 0, 0);
      return completeBooking(table, 0, 0, { promptTokens: 1, freshTokens: 1, kvTokens, ...PLAIN }, NOTHING);
    };
    for (const booking of [book(77), book(20 + 256 * tokens), book(133)].reverse())
      releaseBooking(table, 0, booking, 0);
    assert.equal(table.own[0]?.kvTokens[0], 0);
    removeWorkerShare(table, 1);
    assert.equal(isRowIdle(table, 0), true);
  }
});

for (const maxInFlight of [1, 128, 4096, 1_000_000]) {
  test(`a node full of the largest bookings (${maxInFlight} of them) counts them without an overflow`, () => {
    const { table } = buildFleet({ nodes: [{ family: "A", maxInFlight }] });
    takePlace(table, 0, 0);
    const vector = { promptTokens: 1e300, freshTokens: 1e300, kvTokens: 1e300, ...PLAIN };
    const booking = completeBooking(table, 0, 0, vector, NOTHING);
    for (const tokens of [booking.promptTokens, booking.freshTokens, booking.kvTokens]) {
      assert.ok(tokens >= 1 && tokens * maxInFlight < 2 ** 31, `${tokens} tokens`);
    }
  });
}

test("what is not known adds nothing to the counts", () => {
  const { table } = buildFleet({ nodes: [{ family: "A" }] });
  takePlace(table, 0, 0);
  const vector = { promptTokens: Number.NaN, freshTokens: Number.NaN, kvTokens: -3, ...PLAIN };
  const booking = completeBooking(table, 0, 0, vector, NOTHING);
  assert.deepEqual([booking.promptTokens, booking.freshTokens, booking.kvTokens], [0, 0, 0]);
});
