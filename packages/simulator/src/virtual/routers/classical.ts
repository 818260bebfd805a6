/** Rules that know no times: cycles, counts, hashes (§4.6 of the routing benchmark). */

import { leastOf, type Router, type RouterView, usableAt } from "./router.ts";

/** RR: the next node of a fixed cycle. */
export function roundRobin(): Router {
  let last = -1;
  return {
    pick(view) {
      for (let step = 1; step <= view.rows; step++) {
        const row = (last + step) % view.rows;
        if (view.isUsable[row] === 0) continue;
        last = row;
        return row;
      }
      return -1;
    },
  };
}

/** RND: any node. */
export function uniform(): Router {
  return { pick: (view) => usableAt(view, Math.floor(view.random() * view.usableCount)) };
}

/** WRR: a cycle in which each node comes as often as its prefill speed says, evenly spread (as nginx does it). */
export function weightedRoundRobin(): Router {
  let credit = new Float64Array(0);
  return {
    pick(view) {
      if (credit.length !== view.rows) credit = new Float64Array(view.rows);
      let best = -1;
      let sum = 0;
      for (let row = 0; row < view.rows; row++) {
        if (view.isUsable[row] === 0) continue;
        const weight = 1 / (view.believed[row]?.usPerPrefillToken ?? 1);
        sum += weight;
        credit[row] = (credit[row] as number) + weight;
        if (best < 0 || (credit[row] as number) > (credit[best] as number)) best = row;
      }
      credit[best] = (credit[best] as number) - sum;
      return best;
    },
  };
}

/** LR (JSQ): fewest in flight. */
export function leastRequest(): Router {
  return { pick: (view) => leastOf(view, (row) => view.inFlight[row] as number) };
}

/** WLR: fewest in flight, weighted by the time of an empty step: (in flight + 1) × a0. */
export function weightedLeastRequest(): Router {
  return { pick: (view) => leastOf(view, (row) => weightedLoad(view, row)) };
}

/** Score of WLR. */
export function weightedLoad(view: RouterView, row: number): number {
  return ((view.inFlight[row] as number) + 1) * (view.believed[row]?.baseMs ?? 1);
}

/** P2C and WP2C: two different nodes at random, the one with the lower score. */
export function twoChoices(score: (view: RouterView, row: number) => number): Router {
  return {
    pick(view) {
      const first = Math.floor(view.random() * view.usableCount);
      const a = usableAt(view, first);
      if (view.usableCount === 1) return a;
      const other = Math.floor(view.random() * (view.usableCount - 1));
      const b = usableAt(view, other < first ? other : other + 1);
      const difference = score(view, a) - score(view, b);
      return difference < 0 || (difference === 0 && view.random() < 0.5) ? a : b;
    },
  };
}

/** Places of each node on the ring: with 64 the largest share of eight nodes is a quarter above the mean. */
const RING_PLACES = 64;
const LOAD_BOUND = 1.25;

/** SA: the session's place on a ring of hashes; a node above 1.25 times the mean load is passed over. No session: LR. */
export function sessionAffinity(): Router {
  let ring: { hash: number; row: number }[] = [];
  return {
    pick(view, { session }) {
      if (session < 0) return leastOf(view, (row) => view.inFlight[row] as number);
      if (ring.length !== view.rows * RING_PLACES) ring = ringOf(view.rows);
      let total = 0;
      for (let row = 0; row < view.rows; row++) if (view.isUsable[row] === 1) total += view.inFlight[row] as number;
      const bound = Math.ceil((LOAD_BOUND * (total + 1)) / view.usableCount);
      const hash = hashOf(session, 0x5e55);
      let start = ring.findIndex((place) => place.hash >= hash);
      if (start < 0) start = 0;
      for (let step = 0; step < ring.length; step++) {
        const { row } = ring[(start + step) % ring.length] as { row: number };
        if (view.isUsable[row] === 1 && (view.inFlight[row] as number) + 1 <= bound) return row;
      }
      return leastOf(view, (row) => view.inFlight[row] as number);
    },
  };
}

function ringOf(rows: number): { hash: number; row: number }[] {
  const places = [];
  for (let row = 0; row < rows; row++) {
    for (let place = 0; place < RING_PLACES; place++) places.push({ hash: hashOf(row, place + 1), row });
  }
  return places.sort((a, b) => a.hash - b.hash || a.row - b.row);
}

/** A mix of two whole numbers, 0 to 2³² − 1. */
export function hashOf(a: number, b: number): number {
  let hash = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  hash = Math.imul(hash ^ (hash >>> 15), 0x846ca68b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
