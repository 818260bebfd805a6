/** Back-test: recorded traffic through the production engine in virtual time. */

export type { NodeAttempts, RecordedAttempt } from "./attempts.ts";
export { type Fit, fitTimings, slownessKey } from "./fit-timing.ts";
export { lessonsOf } from "./lessons.ts";
export { replay } from "./replay.ts";
export type { FittedTiming, NodeState, OutsideCall, ReplayEvent, ReplayNode, ReplayPlan } from "./replay-plan.ts";
export { type Comparison, compare, FIGURES, type FigureName, type Figures, Summary } from "./summary.ts";
export { END, FLAG, type Results, resultsOf, type Traffic, trafficOf } from "./traffic.ts";
export { type Verdict, verdictOf } from "./verdict.ts";
