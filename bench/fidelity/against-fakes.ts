/**
 * The simulator beside the same step model on real sockets: fake vLLM servers in a process of their own, streams over
 * HTTP, real timers. Same fleet, same requests, same policies; what differs is everything that the simulator leaves out.
 */

import { spawnFakeFleet } from "@zml/simulator";
import {
  createWorkload,
  isWithinTargets,
  type NodeGroup,
  type PolicyName,
  planFleet,
  policyOptions,
  presetSources,
  type Records,
  type RequestClass,
  requestClasses,
  simulate,
  type Workload,
} from "@zml/simulator/virtual";
import { drive } from "./drive.ts";

/** One policy on both sides. Times are of the simulator's scale, ms. */
export interface FidelityRow {
  readonly policy: PolicyName;
  readonly sockets: FidelityTimes;
  readonly simulated: FidelityTimes;
}

export interface FidelityTimes {
  readonly attainment: number;
  readonly ttft_p50_ms: number;
  readonly ttft_p95_ms: number;
  readonly response_p50_ms: number;
  readonly response_p95_ms: number;
  readonly response_mean_ms: number;
}

export interface FidelityOptions {
  readonly policies: readonly PolicyName[];
  readonly rps: number;
  /** Simulated time. */
  readonly durationS: number;
  /** Real seconds for a simulated one: a machine of few cores keeps up with slower nodes. */
  readonly dilation: number;
  readonly onProgress: (text: string) => void;
}

const MODEL = "m";
const SEED = 1;
const GROUPS: readonly NodeGroup[] = [
  { family: "MI300X", hardware: "MI300X-192GB/llama-3-8b/bf16/1", count: 1, usdPerHour: 1.99, networkMs: 0 },
  { family: "H100", hardware: "H100-SXM-80GB/llama-3-8b/bf16/1", count: 1, usdPerHour: 2.99, networkMs: 0 },
  { family: "L40S", hardware: "L40S-48GB/llama-3-8b/bf16/1", count: 2, usdPerHour: 0.86, networkMs: 0 },
];
/** Before it nothing is known about anything. */
const WARM_UP_S = 5;

/** Runs each policy on both sides, one after the other. */
export async function measureFidelity(options: FidelityOptions): Promise<FidelityRow[]> {
  const { policies, rps, durationS, dilation, onProgress } = options;
  const plan = planFleet(GROUPS, { constantsError: 0, seed: SEED });
  const classes = requestClasses("T1");
  const workload = createWorkload({
    sources: presetSources("W1"),
    rps,
    durationS,
    classShares: classes.map(({ share }) => share),
    seed: SEED,
  });
  const fleet = await spawnFakeFleet({
    nodes: GROUPS.flatMap(({ hardware, count }) =>
      Array.from({ length: count }, (_, index) => ({
        engine: "vllm" as const,
        hardware,
        model: MODEL,
        speedUp: 1 / dilation,
        stepNoiseSigma: 0.05,
        seed: SEED + index,
        maxModelLen: 16_384,
        record: false,
      })),
    ),
  });
  try {
    const rows: FidelityRow[] = [];
    for (const policy of policies) {
      onProgress(`${policy}: ${workload.count} requests over ${(durationS * dilation).toFixed(0)} s`);
      const sockets = await drive({
        plan,
        classes,
        workload,
        policy,
        urls: fleet.nodes.map(({ url }) => url),
        model: MODEL,
        dilation,
        // the fakes count a token for each four characters
        promptOf: (tokens) => "word".repeat(tokens),
        seed: SEED,
      });
      const { records } = simulate({
        plan,
        classes,
        workload,
        ...policyOptions(policy, { plan, classes, workload }),
        metricsIntervalMs: 1_000,
        seed: SEED,
      });
      rows.push({
        policy,
        sockets: timesOf(sockets, workload, classes),
        simulated: timesOf(records, workload, classes),
      });
    }
    return rows;
  } finally {
    await fleet.stop();
  }
}

function timesOf(records: Records, workload: Workload, classes: readonly RequestClass[]): FidelityTimes {
  const ttft: number[] = [];
  const response: number[] = [];
  let met = 0;
  for (let request = 0; request < workload.count; request++) {
    if ((workload.atMs[request] as number) < WARM_UP_S * 1000) continue;
    const target = classes[workload.classes[request] as number];
    const ttftMs = records.ttftMs[request] as number;
    const endMs = records.responseMs[request] as number;
    ttft.push(ttftMs);
    response.push(endMs);
    const outputTokens = workload.outputTokens[request] as number;
    if (target !== undefined && isWithinTargets(target, { ttftMs, endMs, outputTokens })) met += 1;
  }
  ttft.sort((a, b) => a - b);
  response.sort((a, b) => a - b);
  const at = (sorted: readonly number[], share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return {
    attainment: met / response.length,
    ttft_p50_ms: at(ttft, 0.5),
    ttft_p95_ms: at(ttft, 0.95),
    response_p50_ms: at(response, 0.5),
    response_p95_ms: at(response, 0.95),
    response_mean_ms: response.reduce((sum, ms) => sum + ms, 0) / response.length,
  };
}

const TIMES = ["ttft_p50_ms", "ttft_p95_ms", "response_p50_ms", "response_p95_ms", "response_mean_ms"] as const;

/** |simulated ÷ measured − 1| of every time of every policy, sorted. */
export function errorsOf(rows: readonly FidelityRow[]): number[] {
  return rows
    .flatMap(({ sockets, simulated }) => TIMES.map((name) => Math.abs(simulated[name] / sockets[name] - 1)))
    .sort((a, b) => a - b);
}

/** Mean responses closer than this are equal: which comes first is chance. */
const TIE = 0.03;

/** Pairs of policies whose mean response differs on sockets, and how many of them the simulator puts in the same order. */
export function orderOf(rows: readonly FidelityRow[]): { pairs: number; kept: number } {
  let pairs = 0;
  let kept = 0;
  for (const [index, one] of rows.entries()) {
    for (const other of rows.slice(index + 1)) {
      const real = one.sockets.response_mean_ms / other.sockets.response_mean_ms;
      if (Math.abs(Math.log(real)) < TIE) continue;
      pairs += 1;
      if (real > 1 === one.simulated.response_mean_ms > other.simulated.response_mean_ms) kept += 1;
    }
  }
  return { pairs, kept };
}
