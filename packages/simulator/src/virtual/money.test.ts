import assert from "node:assert/strict";
import { it } from "node:test";
import { busyUsd, provisionedUsd } from "./money.ts";

const HOUR = 3_600_000;
const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-9, `${actual}, not ${expected}`);

it("busy cost is price × busy time, with prices that change in the middle of a stretch, and from the warm-up on", () => {
  const prices = [
    [0, 2],
    [HOUR / 2, 4],
  ] as const;
  // a quarter at 2, a quarter at 4
  near(busyUsd([[HOUR / 4, (3 * HOUR) / 4]], [prices], 0, HOUR), 0.5 + 1);
  near(busyUsd([[HOUR / 4, (3 * HOUR) / 4]], [prices], HOUR / 2, HOUR), 1);
  near(busyUsd([[HOUR / 2]], [[[0, 2]]], 0, HOUR), 1);
  near(busyUsd([[], []], [prices, prices], 0, HOUR), 0);
});

it("provisioned cost adds start and release, joins what they bridge, and keeps one node of each family", () => {
  const S = 1_000;
  // busy 1,000–1,100 s and 1,500–1,600 s: powered 820–1,900 s (the gap of 400 s is bridged by 300 + 180)
  const busy = [[1_000 * S, 1_100 * S, 1_500 * S, 1_600 * S], []];
  const prices = [[[0, 3.6]], [[0, 7.2]]] as const;
  // one family: 1,080 s at 3.6/h, and for the other 2,520 s of the hour the cheaper node stays
  near(provisionedUsd(busy, prices, [0, 0], 0, HOUR), 3.6);
  // two families: the second one's node is kept all the time
  near(provisionedUsd(busy, prices, [0, 1], 0, HOUR), 3.6 + 7.2);
  near(
    provisionedUsd(
      [
        [0, HOUR],
        [1_000 * S, 1_100 * S],
      ],
      prices,
      [0, 0],
      0,
      HOUR,
    ),
    3.6 + (7.2 * 580) / 3_600,
  );
});
