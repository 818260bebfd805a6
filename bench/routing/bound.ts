/**
 * BOUND (§4.7 of the routing benchmark): what no router can beat. Minute by minute a linear program gives every request
 * to a family, on time or late, and each family runs just the steps that this takes:
 *
 *   time ≥ a0 × steps + a1 × tokens + a2 × tokens × context + p2 × prompt²      decoding fills every step
 *   time ≥ p1 × (prompt + tokens)               + a2 × …    + p2 × prompt²      or prompts do
 *   tokens ≤ 256 × steps, tokens × context ≤ memory × steps
 *   time ≤ token target × steps, Σ time ≤ the minute                           for what is on time
 *
 * There are no queues, no bursts within the minute and no first-token targets, batches are whatever suits, and what is
 * late costs least. Money is busy time at the family's lowest price.
 */

import {
  type FleetPlan,
  MAX_SEQUENCES,
  type PlannedNode,
  type RequestClass,
  type Workload,
} from "@zml/simulator/virtual";
import { optimum, type RowBounds } from "./linear-program.ts";

export interface Bound {
  /** Largest share of the requests on time, 0..1. */
  readonly attainment: number;
  /** Largest value of output tokens on time per USD of busy time. */
  readonly goodputPerUsd: number;
}

const MINUTE_MS = 60_000;
/** Upper ends of buckets, tokens: three of prompts, two of outputs. */
const PROMPTS = [768, 2_304, Infinity];
const OUTPUTS = [160, Infinity];
const BUCKETS = PROMPTS.length * OUTPUTS.length;

/** Requests of one minute, class and bucket, as sums. */
interface Bulk {
  requests: number;
  prompt: number;
  squaredPrompt: number;
  output: number;
  /** Σ output × mean context while it decodes. */
  tokenContext: number;
}

/**
 * Bounds for the requests that arrive from `warmUpMs` on. Sessions' later turns, whose time is a result, are taken to come
 * with their first. O(minutes × programs of some hundred variables).
 *
 * @throws Error when no request is judged.
 */
export function boundOf(
  plan: FleetPlan,
  classes: readonly RequestClass[],
  workload: Workload,
  { warmUpMs = 0 }: { warmUpMs?: number } = {},
): Bound {
  const minutes = minutesOf(classes, workload, warmUpMs);
  const requests = sumOf(minutes, ({ requests: some }) => some);
  if (requests === 0) throw new Error("no request is judged: lower warm_up_s");
  const met = minutes.map((minute) => bestOf(plan, classes, minute, { perRequest: 1, perToken: 0, perUsd: 0 }));
  const attainment = met.reduce((sum, { requests: some }) => sum + some, 0) / requests;
  return { attainment, goodputPerUsd: largestRatio(plan, classes, minutes) };
}

/**
 * The largest Σ tokens ÷ Σ USD over all minutes, after Dinkelbach: at the ratio r the best of tokens − r × USD is 0. Ratios
 * only rise and come to rest after a few rounds.
 */
function largestRatio(
  plan: FleetPlan,
  classes: readonly RequestClass[],
  minutes: readonly (readonly Bulk[])[],
): number {
  let ratio = 0;
  for (let round = 0; round < 20; round++) {
    let tokens = 0;
    let usd = 0;
    for (const minute of minutes) {
      const best = bestOf(plan, classes, minute, { perRequest: 0, perToken: 1, perUsd: -ratio });
      tokens += best.tokens;
      usd += best.usd;
    }
    const next = tokens / usd;
    if (!(next > ratio * (1 + 1e-6))) return ratio;
    ratio = next;
  }
  return ratio;
}

interface Worth {
  readonly perRequest: number;
  readonly perToken: number;
  readonly perUsd: number;
}

/** What one unit of a variable brings. */
interface Gain {
  readonly requests: number;
  readonly tokens: number;
  readonly usd: number;
}

/** A program as it grows. Time is in minutes of a node, steps in what an empty node makes in one; shares are 0 to 1. */
interface Plan {
  readonly rows: Map<string, RowBounds>;
  readonly variables: Map<string, ReadonlyMap<string, number>>;
  readonly gains: Map<string, Gain>;
}

/** What the best plan of one minute comes to, by the worth of its parts. */
function bestOf(
  { nodes, families }: FleetPlan,
  classes: readonly RequestClass[],
  minute: readonly Bulk[],
  worth: Worth,
): Gain {
  const plan: Plan = { rows: new Map(), variables: new Map(), gains: new Map() };
  for (const [index, { requests }] of minute.entries()) {
    if (requests > 0) plan.rows.set(`all ${index}`, { equal: 1 });
  }
  for (const family of families.keys()) {
    const group = nodes.filter((node) => node.family === family);
    if (group.length === 0) continue;
    plan.rows.set(`time ${family}`, { max: group.length });
    // the last way is without a target: late
    for (let way = 0; way <= classes.length; way++) addWay(plan, minute, group, way, classes);
  }
  const worthOf = ({ requests, tokens, usd }: Gain) =>
    worth.perRequest * requests + worth.perToken * tokens + worth.perUsd * usd;
  const { variables } = optimum({
    worth: new Map([...plan.gains].map(([name, gain]) => [name, worthOf(gain)])),
    rows: plan.rows,
    variables: plan.variables,
  });
  const total = { requests: 0, tokens: 0, usd: 0 };
  for (const [name, value] of variables) {
    const gain = plan.gains.get(name);
    if (gain === undefined) continue;
    total.requests += value * gain.requests;
    total.tokens += value * gain.tokens;
    total.usd += value * gain.usd;
  }
  return total;
}

/** Steps, time and requests of one family that are held to one target. */
function addWay(
  { rows, variables, gains }: Plan,
  minute: readonly Bulk[],
  group: readonly PlannedNode[],
  way: number,
  classes: readonly RequestClass[],
): void {
  const [node] = group;
  if (node === undefined) return;
  const { constants, family } = node;
  const key = `${family} ${way}`;
  const isLate = way === classes.length;
  const targetMs = classes[way]?.tokenMs ?? Number.NaN;
  for (const row of ["decode", "compute", "batch", "memory", "target"]) rows.set(`${row} ${key}`, { max: 0 });
  const stepsPerMinute = MINUTE_MS / constants.baseMs;
  const steps = new Map([
    [`decode ${key}`, 1],
    [`batch ${key}`, -1],
    [`memory ${key}`, -1],
  ]);
  const time = new Map([
    [`decode ${key}`, -1],
    [`compute ${key}`, -1],
  ]);
  // what is late may be computed in any minute
  if (!isLate) time.set(`time ${family}`, 1);
  if (!isLate && !Number.isNaN(targetMs)) {
    steps.set(`target ${key}`, -targetMs / constants.baseMs);
    time.set(`target ${key}`, 1);
  }
  variables.set(`steps ${key}`, steps);
  variables.set(`time ${key}`, time);
  const usdPerHour = Math.min(...group.map((other) => other.usdPerHour));
  gains.set(`time ${key}`, { requests: 0, tokens: 0, usd: usdPerHour / 60 });
  for (const [index, bulk] of minute.entries()) {
    const isMeant = isLate || Math.floor(index / BUCKETS) === way;
    if (bulk.requests === 0 || !isMeant) continue;
    const { prompt, squaredPrompt, output, tokenContext } = bulk;
    const cacheMs =
      (constants.nsPerCachedToken * tokenContext + constants.nsPerSquaredPrefillToken * squaredPrompt) / 1e6;
    const share = new Map([
      [`all ${index}`, 1],
      [`decode ${key}`, ((constants.usPerSequence * output) / 1e3 + cacheMs) / MINUTE_MS],
      [`compute ${key}`, ((constants.usPerPrefillToken * (prompt + output)) / 1e3 + cacheMs) / MINUTE_MS],
      [`batch ${key}`, output / MAX_SEQUENCES / stepsPerMinute],
      [`memory ${key}`, tokenContext / constants.kvCapacityTokens / stepsPerMinute],
    ]);
    variables.set(`${index} ${key}`, share);
    if (!isLate) gains.set(`${index} ${key}`, { requests: bulk.requests, tokens: output, usd: 0 });
  }
}

/** Bulks of each minute, by class and bucket. */
function minutesOf(classes: readonly RequestClass[], workload: Workload, warmUpMs: number): Bulk[][] {
  const minutes: Bulk[][] = [];
  const startMs = new Float64Array(workload.count);
  for (let request = 0; request < workload.count; request++) {
    const after = workload.after[request] as number;
    startMs[request] = after < 0 ? (workload.atMs[request] as number) : (startMs[after] as number);
    const sinceMs = (startMs[request] as number) - warmUpMs;
    if (sinceMs < 0) continue;
    const minute = Math.floor(sinceMs / MINUTE_MS);
    minutes[minute] ??= Array.from({ length: classes.length * BUCKETS }, () => ({
      requests: 0,
      prompt: 0,
      squaredPrompt: 0,
      output: 0,
      tokenContext: 0,
    }));
    const prompt = workload.promptTokens[request] as number;
    const output = workload.outputTokens[request] as number;
    const bucket =
      PROMPTS.findIndex((most) => prompt <= most) * OUTPUTS.length + OUTPUTS.findIndex((most) => output <= most);
    const bulk = minutes[minute]?.[(workload.classes[request] as number) * BUCKETS + bucket] as Bulk;
    bulk.requests += 1;
    bulk.prompt += prompt;
    bulk.squaredPrompt += prompt * prompt;
    bulk.output += output;
    bulk.tokenContext += output * (prompt + output / 2);
  }
  // minutes in which nothing came are holes
  return minutes.filter((minute) => minute !== undefined);
}

function sumOf(minutes: readonly (readonly Bulk[])[], of: (bulk: Bulk) => number): number {
  return minutes.flat().reduce((sum, bulk) => sum + of(bulk), 0);
}
