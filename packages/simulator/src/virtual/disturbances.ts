/** What happens to a fleet while it runs: failures and prices, as events in order of time. */

import { seededRandom } from "../seeded-random.ts";
import type { FleetPlan } from "./fleet-plan.ts";

export type Disturbance = { readonly atMs: number } & (
  | { readonly kind: "drain"; readonly row: number }
  | { readonly kind: "down"; readonly row: number }
  | { readonly kind: "up"; readonly row: number }
  | { readonly kind: "slowness"; readonly row: number; readonly factor: number }
  /** Polls of the node bring nothing while this is on. */
  | { readonly kind: "blackout"; readonly row: number; readonly isOn: boolean }
  | { readonly kind: "price"; readonly row: number; readonly usdPerHour: number }
);

/** A failure as a scenario states it. */
export type FailureSpec =
  | {
      readonly kind: "down";
      readonly rows: readonly number[];
      readonly fromS: number;
      readonly toS: number;
      readonly noticeS: number;
    }
  | {
      readonly kind: "slow";
      readonly rows: readonly number[];
      readonly fromS: number;
      readonly toS: number;
      readonly factor: number;
    }
  | { readonly kind: "blackout"; readonly rows: readonly number[]; readonly fromS: number; readonly toS: number }
  /** Spot capacity after §2.5: up and down times of an exponential law, shocks that take every node of the zone. */
  | {
      readonly kind: "spot";
      readonly rows: readonly number[];
      readonly meanUpS: number;
      readonly meanDownS: number;
      readonly noticeS: number;
      readonly coldStartS: number;
      /** Chance that a node's preemption takes the whole list with it. */
      readonly shock: number;
    };

/** A price as a scenario states it. */
export type PriceSpec =
  /** From a time on the price is so many times what the fleet states. */
  | { readonly kind: "step"; readonly rows: readonly number[]; readonly atS: number; readonly factor: number }
  /** Moves around what the fleet states, once every `everyS`, all rows alike: x ← x·(1 − pull) + a normal of `sigma`. */
  | {
      readonly kind: "mean_reverting";
      readonly rows: readonly number[];
      readonly everyS: number;
      readonly sigma: number;
      readonly pull: number;
    }
  /** The whole node's price from given times on. */
  | {
      readonly kind: "replay";
      readonly rows: readonly number[];
      readonly points: readonly { readonly atS: number; readonly usdPerHour: number }[];
    };

/** All events until the end, in order. */
export function planDisturbances(
  plan: FleetPlan,
  specs: { readonly failures: readonly FailureSpec[]; readonly prices: readonly PriceSpec[] },
  { durationS, seed }: { durationS: number; seed: number },
): Disturbance[] {
  const events: Disturbance[] = [];
  for (const [index, spec] of specs.failures.entries()) addFailure(events, spec, durationS, seed + 31 * (index + 1));
  for (const [index, spec] of specs.prices.entries()) addPrice(events, plan, spec, durationS, seed + 61 * (index + 1));
  // equal times stay in the order of the scenario
  return events.sort((a, b) => a.atMs - b.atMs);
}

function addFailure(events: Disturbance[], spec: FailureSpec, durationS: number, seed: number): void {
  switch (spec.kind) {
    case "down":
      for (const row of spec.rows) addOutage(events, row, spec.fromS, spec.toS, spec.noticeS);
      return;
    case "slow":
      for (const row of spec.rows) {
        events.push({ kind: "slowness", row, atMs: spec.fromS * 1000, factor: spec.factor });
        events.push({ kind: "slowness", row, atMs: spec.toS * 1000, factor: 1 });
      }
      return;
    case "blackout":
      for (const row of spec.rows) {
        events.push({ kind: "blackout", row, atMs: spec.fromS * 1000, isOn: true });
        events.push({ kind: "blackout", row, atMs: spec.toS * 1000, isOn: false });
      }
      return;
    case "spot":
      addSpot(events, spec, durationS, seed);
  }
}

function addOutage(events: Disturbance[], row: number, fromS: number, toS: number, noticeS: number): void {
  if (noticeS > 0) events.push({ kind: "drain", row, atMs: Math.max(0, fromS - noticeS) * 1000 });
  events.push({ kind: "down", row, atMs: fromS * 1000 });
  events.push({ kind: "up", row, atMs: toS * 1000 });
}

function addSpot(
  events: Disturbance[],
  spec: Extract<FailureSpec, { kind: "spot" }>,
  durationS: number,
  seed: number,
): void {
  const random = seededRandom(seed);
  const exponential = (mean: number) => -Math.log(1 - random()) * mean;
  const downUntil = spec.rows.map(() => 0);
  const nextDown = spec.rows.map(() => exponential(spec.meanUpS));
  for (;;) {
    const first = nextDown.indexOf(Math.min(...nextDown));
    const fromS = nextDown[first] as number;
    if (!(fromS < durationS)) return;
    const isShock = random() < spec.shock;
    for (const [index, row] of spec.rows.entries()) {
      if (index !== first && !isShock) continue;
      if ((downUntil[index] as number) > fromS) continue;
      const toS = fromS + exponential(spec.meanDownS) + spec.coldStartS;
      addOutage(events, row, fromS, toS, spec.noticeS);
      downUntil[index] = toS;
      nextDown[index] = toS + exponential(spec.meanUpS);
    }
  }
}

function addPrice(events: Disturbance[], { nodes }: FleetPlan, spec: PriceSpec, durationS: number, seed: number): void {
  const set = (atS: number, factor: number) => {
    for (const row of spec.rows) {
      events.push({
        kind: "price",
        row,
        atMs: atS * 1000,
        usdPerHour: (nodes[row]?.usdPerHour ?? Number.NaN) * factor,
      });
    }
  };
  if (spec.kind === "replay") {
    for (const { atS, usdPerHour } of spec.points) {
      for (const row of spec.rows) events.push({ kind: "price", row, atMs: atS * 1000, usdPerHour });
    }
    return;
  }
  if (spec.kind === "step") {
    set(spec.atS, spec.factor);
    return;
  }
  const random = seededRandom(seed);
  let off = 0;
  for (let atS = spec.everyS; atS < durationS; atS += spec.everyS) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    off = off * (1 - spec.pull) + spec.sigma * normal;
    set(atS, Math.exp(off));
  }
}
