/**
 * Probabilities of missing targets. Outcomes are log-normal around their predictions, as wide as the learned spread says;
 * the normal curve is taken by the logistic one next to it.
 */

import { type FleetTable, TARGET_CLASSES } from "../fleet-table.ts";
import { P, PREDICTION_CELLS, predictorOf } from "./predict.ts";

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

/** Chances of one table, for candidates that its predictor was asked about last. */
export interface MissChances {
  /** Probability that a request misses: that of its worst target, since it is one load that makes all of them late. */
  own(candidate: number, placement: number, responseMs: number, targets: Targets): number;
  /** Misses that a request is expected to bring among those who run on the node: their steps get slower. O(classes). */
  residents(candidate: number, row: number, placement: number): number;
}

const chances = new WeakMap<FleetTable, MissChances>();

/** The chances of a table; a thread has one table. */
export function missChancesOf(table: FleetTable): MissChances {
  let one = chances.get(table);
  if (one === undefined) {
    one = createMissChances(table);
    chances.set(table, one);
  }
  return one;
}

/** Probability that an outcome is above its target. */
function missChance(predictedMs: number, targetMs: number, spread: number): number {
  if (targetMs === Number.POSITIVE_INFINITY) return 0;
  if (!(targetMs > 0)) return 1;
  const deviations = (Math.log(targetMs / predictedMs) * PROMISE_Z) / Math.log(spread);
  return 1 / (1 + Math.exp(LOGISTIC_SLOPE * deviations));
}

/** Closes over the columns, as the predictor does. */
function createMissChances(table: FleetTable): MissChances {
  const { firstSpread, tokenSpread, kvCapacityTokens, classTargetUs, tightestUs } = table;
  const predictor = predictorOf(table);
  const { class0, class1, class2, class3, class4, class5, class6, class7 } = table.total;
  const counts = [class0, class1, class2, class3, class4, class5, class6, class7];
  return {
    own(candidate, placement, responseMs, targets) {
      const { cells } = predictor;
      const at = candidate * PREDICTION_CELLS;
      const first = firstSpread[placement] as number;
      const token = tokenSpread[placement] as number;
      const miss = Math.max(
        missChance(cells[at + P.firstMs] as number, targets.firstMs, first),
        missChance(cells[at + P.tokenMs] as number, targets.tokenMs, token),
        missChance(responseMs, targets.responseMs, first > token ? first : token),
      );
      // it waits until memory is free, or makes another one wait: half of the chance is what nobody knows better
      return (cells[at + P.kvTokens] as number) > (kvCapacityTokens[placement] as number) ? (1 + miss) / 2 : miss;
    },
    residents(candidate, row, placement) {
      if (tightestUs[row] === 0) return 0;
      const { cells } = predictor;
      const at = candidate * PREDICTION_CELLS;
      const spread = tokenSpread[placement] as number;
      const afterMs = cells[at + P.residentMs] as number;
      const beforeMs = cells[at + P.beforeMs] as number;
      const first = row * TARGET_CLASSES;
      let misses = 0;
      for (let targetClass = 1; targetClass < TARGET_CLASSES; targetClass++) {
        const count = (counts[targetClass] as Int32Array)[row] as number;
        if (count <= 0) continue;
        const targetMs = (classTargetUs[first + targetClass] as number) / 1000;
        misses += count * (missChance(afterMs, targetMs, spread) - missChance(beforeMs, targetMs, spread));
      }
      return misses;
    },
  };
}
