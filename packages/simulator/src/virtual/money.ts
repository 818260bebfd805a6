/** The meters of §4.3: what an elastic platform bills, and what a renter with a scaler pays. Capacity cost needs a sweep. */

/** Price of a node over time: pairs of ms and USD per hour, the first at 0, in order. */
export type PriceLine = readonly (readonly [number, number])[];

const HOUR_MS = 3_600_000;

/** The reference scaler: a node that idles so long is given back, and takes so long to come again. */
const RELEASE_AFTER_MS = 300_000;
const START_MS = 180_000;

/** Σ price × time in which the node had a request. `busy`: start, end, start, …; what begins before `fromMs` is cut. */
export function busyUsd(
  busy: readonly (readonly number[])[],
  prices: readonly PriceLine[],
  fromMs: number,
  toMs: number,
): number {
  return busy.reduce(
    (sum, stretches, row) => sum + usdOf(pairsOf(stretches, toMs), prices[row] ?? [], fromMs, toMs),
    0,
  );
}

/**
 * Σ price × time powered, with a scaler that releases a node after 300 s without a request and needs 180 s to start one,
 * and keeps at least one node of each family: its cheapest at the moment. It accounts only: no request waits for a start.
 *
 * @param families family of each node.
 */
export function provisionedUsd(
  busy: readonly (readonly number[])[],
  prices: readonly PriceLine[],
  families: readonly number[],
  fromMs: number,
  toMs: number,
): number {
  let usd = 0;
  for (const family of new Set(families)) {
    const rows = families.flatMap((other, row) => (other === family ? [row] : []));
    const powered = rows.map((row) =>
      merged(pairsOf(busy[row] ?? [], toMs).map(([start, end]) => [start - START_MS, end + RELEASE_AFTER_MS])),
    );
    rows.forEach((row, index) => {
      usd += usdOf(powered[index] ?? [], prices[row] ?? [], fromMs, toMs);
    });
    // the family's last node stays, whether or not it has work
    const any = merged(powered.flat().toSorted((a, b) => a[0] - b[0]));
    const none: [number, number][] = [];
    let sinceMs = fromMs;
    for (const [start, end] of any) {
      if (start > sinceMs) none.push([sinceMs, Math.min(start, toMs)]);
      sinceMs = Math.max(sinceMs, end);
    }
    if (sinceMs < toMs) none.push([sinceMs, toMs]);
    usd += Math.min(...rows.map((row) => usdOf(none, prices[row] ?? [], fromMs, toMs)));
  }
  return usd;
}

function pairsOf(stretches: readonly number[], toMs: number): [number, number][] {
  const pairs: [number, number][] = [];
  for (let index = 0; index < stretches.length; index += 2) {
    pairs.push([stretches[index] as number, stretches[index + 1] ?? toMs]);
  }
  return pairs;
}

/** Stretches in order of their start, those that touch joined. */
function merged(pairs: readonly (readonly [number, number])[]): [number, number][] {
  const joined: [number, number][] = [];
  for (const [start, end] of pairs) {
    const last = joined.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

function usdOf(pairs: readonly (readonly [number, number])[], prices: PriceLine, fromMs: number, toMs: number): number {
  let usd = 0;
  let line = 0;
  for (const [start, end] of pairs) {
    let sinceMs = Math.max(start, fromMs);
    const untilMs = Math.min(end, toMs);
    while (sinceMs < untilMs) {
      while (line + 1 < prices.length && (prices[line + 1] as readonly [number, number])[0] <= sinceMs) line += 1;
      const changeMs = prices[line + 1]?.[0] ?? Number.POSITIVE_INFINITY;
      const stopMs = Math.min(untilMs, changeMs);
      usd += ((stopMs - sinceMs) / HOUR_MS) * (prices[line]?.[1] ?? Number.NaN);
      sinceMs = stopMs;
    }
  }
  return usd;
}
