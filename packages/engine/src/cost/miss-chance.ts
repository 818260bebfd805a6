/**
 * Probabilities of missing targets. Outcomes are log-normal around their predictions, as wide as the learned spread says;
 * the normal curve is taken by the logistic one next to it.
 */

import { type FleetTable, TARGET_CLASSES } from "../fleet-table.ts";
import type { Prediction } from "./predict.ts";

/** Normal quantile of the spread's probability (`PROMISE`, 0.95). */
const PROMISE_Z = 1.645;
/** The logistic curve that is nearest to the normal one, over all of it. */
const LOGISTIC_SLOPE = 1.702;

/** Targets of a request, ms; Infinity: none. */
export interface Targets {
  firstMs: number;
  tokenMs: number;
  responseMs: number;
}

/** Probability that an outcome is above its target. */
function missChance(predictedMs: number, targetMs: number, spread: number): number {
  if (targetMs === Number.POSITIVE_INFINITY) return 0;
  if (!(targetMs > 0)) return 1;
  const deviations = (Math.log(targetMs / predictedMs) * PROMISE_Z) / Math.log(spread);
  return 1 / (1 + Math.exp(LOGISTIC_SLOPE * deviations));
}

/** Probability that a request misses: that of its worst target, since it is one load that makes all of them late. */
export function ownMissChance(
  table: FleetTable,
  placement: number,
  { firstMs, tokenMs, kvTokens }: Prediction,
  responseMs: number,
  targets: Targets,
): number {
  const firstSpread = table.firstSpread[placement] as number;
  const tokenSpread = table.tokenSpread[placement] as number;
  const miss = Math.max(
    missChance(firstMs, targets.firstMs, firstSpread),
    missChance(tokenMs, targets.tokenMs, tokenSpread),
    missChance(responseMs, targets.responseMs, Math.max(firstSpread, tokenSpread)),
  );
  // it waits until memory is free, or makes another one wait: half of the chance is what nobody knows better
  return kvTokens > (table.kvCapacityTokens[placement] as number) ? (1 + miss) / 2 : miss;
}

/** Misses that a request is expected to bring among those who run on the node: their steps get slower. O(classes). */
export function residentMisses(table: FleetTable, row: number, placement: number, prediction: Prediction): number {
  const { total, classTargetUs } = table;
  const spread = table.tokenSpread[placement] as number;
  const first = row * TARGET_CLASSES;
  let misses = 0;
  for (let targetClass = 1; targetClass < TARGET_CLASSES; targetClass++) {
    const count = (total[CLASSES[targetClass] as "class1"][row] as number) || 0;
    if (count <= 0) continue;
    const targetMs = (classTargetUs[first + targetClass] as number) / 1000;
    const after = missChance(prediction.residentMs, targetMs, spread);
    misses += count * (after - missChance(prediction.beforeMs, targetMs, spread));
  }
  return misses;
}

const CLASSES = ["class0", "class1", "class2", "class3", "class4", "class5", "class6", "class7"] as const;
