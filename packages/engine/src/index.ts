/** The engine: it decides. Pure; clock and chance are arguments. */

export {
  type Admission,
  ALL_RIGHTS,
  allowedModels,
  type CallRights,
  type Refusal,
  type RoutingCall,
  resolvePolicy,
} from "./admission/admit.ts";
export * from "./admission/allowance.ts";
export * from "./admission/parking.ts";
export * from "./admission/saturation-queue.ts";
export { sweepWindows } from "./admission/sliding-window.ts";
export * from "./assert.ts";
export * from "./availability/ejection-limit.ts";
export * from "./availability/health-gate.ts";
export * from "./availability/health-score.ts";
export * from "./availability/progress-watch.ts";
export { beginSlowStart } from "./availability/slow-start.ts";
export * from "./availability/speeds.ts";
export * from "./availability/throughput.ts";
export * from "./bounds.ts";
export * from "./capabilities.ts";
export * from "./claims.ts";
export * from "./cost/estimate.ts";
export * from "./cost/predict.ts";
export * from "./cost/spend.ts";
export * from "./deadline.ts";
export * from "./decide.ts";
export * from "./decision.ts";
export * from "./directory.ts";
export * from "./dispatch/booking.ts";
export * from "./dispatch/load-integrals.ts";
export { returnTrials, type TrialPlace } from "./dispatch/trial.ts";
export * from "./evidence-ring.ts";
export { clearCooldown, coolDownNow, unblockPlacement } from "./failover/cooldown.ts";
export * from "./failover/next-move.ts";
export * from "./failover/outcome.ts";
export * from "./failover/retry-budget.ts";
export * from "./fleet-table.ts";
export * from "./learning/attempt-samples.ts";
export * from "./learning/capacity-meter.ts";
export * from "./learning/engine-errors.ts";
export { FIT_SIZE, type FitState, type TimingState } from "./learning/family-timing.ts";
export * from "./learning/node-load.ts";
export * from "./learning/refresh-speeds.ts";
export * from "./learning/timing-learner.ts";
export * from "./limits-table.ts";
export * from "./load.ts";
export * from "./prefix-table.ts";
export * from "./reasons.ts";
export * from "./route-request.ts";
export * from "./settle.ts";
