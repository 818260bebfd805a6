/** The offline half of MEL: which family takes which lengths, for the mean rate of a workload (after Mélange). */

import type { FleetPlan } from "./fleet-plan.ts";
import { shapeOf, workMs } from "./node-work.ts";
import type { RequestClass } from "./request-classes.ts";
import type { BucketPlan } from "./routers/scripted.ts";
import type { Workload } from "./workload.ts";

const BOUNDS = [64, 128, 256, 384, 512, 768, 1_024, 1_280, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 16_384, Infinity];

/** Share of a family's time that the plan fills: the rest is for what a mean rate does not show. */
const FILL = 0.85;

/**
 * Buckets of prompt lengths, the one with most work first; each goes to the family that serves it for the least money
 * among those with time left, else to the one with most time left.
 *
 * @param isByClass false: as Mélange does, which knows one target: that of the tightest class. True: each class has
 *   buckets and a target of its own, the tightest first.
 */
export function planBuckets(
  plan: FleetPlan,
  classes: readonly RequestClass[],
  workload: Workload,
  isByClass: boolean,
): BucketPlan {
  const groups = plan.families.map((_, family) => plan.nodes.filter((node) => node.family === family));
  const freeMs = groups.map((nodes) => nodes.length * FILL * 1000);
  const families = new Int32Array(classes.length * BOUNDS.length);
  const order = classes.flatMap(({ share }, klass) => (share > 0 ? [klass] : []));
  order.sort((a, b) => tightness(classes[a]) - tightness(classes[b]));
  for (const members of isByClass ? order.map((klass) => [klass]) : [order]) {
    const tokenMs = classes[members[0] ?? 0]?.tokenMs ?? Number.NaN;
    const buckets = BOUNDS.map((_, bucket) => ({ bucket, ...bucketOf(workload, members, bucket) }));
    buckets.sort((a, b) => b.rps * b.promptTokens - a.rps * a.promptTokens || a.bucket - b.bucket);
    for (const { bucket, rps, ...shape } of buckets) {
      const needsMs = groups.map((nodes) => {
        const constants = nodes[0]?.constants;
        return constants === undefined ? Number.POSITIVE_INFINITY : rps * workMs(constants, shape, tokenMs);
      });
      const usd = needsMs.map((ms, family) => ms * (groups[family]?.[0]?.usdPerHour ?? 0));
      let best = -1;
      for (const [family, free] of freeMs.entries()) {
        const fits = (needsMs[family] as number) <= free;
        if (fits && (best < 0 || (usd[family] as number) < (usd[best] as number))) best = family;
      }
      if (best < 0) best = freeMs.indexOf(Math.max(...freeMs));
      for (const klass of members) families[klass * BOUNDS.length + bucket] = best;
      if (Number.isFinite(needsMs[best])) freeMs[best] = (freeMs[best] as number) - (needsMs[best] as number);
    }
  }
  return { bounds: BOUNDS, families };
}

function tightness(target: RequestClass | undefined): number {
  const ms = target?.tokenMs ?? Number.NaN;
  return Number.isNaN(ms) ? (target?.responseMs ?? Number.POSITIVE_INFINITY) : ms;
}

function bucketOf(workload: Workload, members: readonly number[], bucket: number) {
  const from = bucket === 0 ? 0 : (BOUNDS[bucket - 1] as number);
  const to = BOUNDS[bucket] as number;
  const shape = shapeOf(workload, (request) => {
    const tokens = workload.promptTokens[request] as number;
    return members.includes(workload.classes[request] as number) && tokens > from && tokens <= to;
  });
  return { ...shape, rps: (shape.requests / workload.durationMs) * 1000 };
}
