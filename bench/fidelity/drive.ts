/**
 * Runs a workload in real time against serving engines, with the gateway of the simulator: the production engine, or a
 * baseline in its place, decides, books, settles and learns, and only the node behind it is real.
 */

import { Agent } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { simpleEstimator } from "@zml/engine";
import {
  createRecords,
  type FleetPlan,
  type PolicyName,
  policyOptions,
  REQUEST_OVERHEAD_MS,
  type Records,
  type RequestClass,
  SERVED,
  VirtualGateway,
  type Workload,
} from "@zml/simulator/virtual";
import { streamCall } from "./stream-call.ts";

export interface DriveOptions {
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  readonly workload: Workload;
  readonly policy: PolicyName;
  /** Of each node, in the order of the plan. */
  readonly urls: readonly string[];
  readonly model: string;
  /** Real time over engine time: nodes that are so many times slower, with targets to match. */
  readonly dilation: number;
  /** Sequences that a node runs at once; the rest waits there. */
  readonly concurrencyLimit?: number;
  /** Time that is put before each request, engine ms: queueing and HTTP of a real gateway, which nothing here takes. */
  readonly overheadMs?: number;
  readonly promptOf: (tokens: number) => string;
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

/** Between two looks at the clock of learning, engine ms. */
const LEARN_EVERY_MS = 1_000;

/** Resolves when every request has ended. All times in the records are engine ms. @throws Error of a call that failed. */
export async function drive(options: DriveOptions): Promise<Records> {
  const { plan, classes, workload, policy, urls, dilation, seed, model, promptOf } = options;
  const { overheadMs = REQUEST_OVERHEAD_MS, concurrencyLimit } = options;
  const { createRouter, costPriority } = policyOptions(policy, { plan, classes, workload });
  const gateway = new VirtualGateway({
    plan,
    classes,
    costPriority,
    estimator: simpleEstimator,
    router: createRouter?.([]) ?? null,
    seed,
  });
  const records = createRecords(workload.count);
  // a connection of its own for each call: engines close idle ones when they like
  const agents = urls.map(() => new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY }));
  const tokensOf = new Float64Array(urls.length);
  const startMs = performance.now();
  const now = () => (performance.now() - startMs) / dilation;
  const poll = () => {
    for (const row of urls.keys()) {
      const ownAtScrape = gateway.table.total.inFlight[row] as number;
      const load = { running: ownAtScrape, waiting: 0, outputTokens: tokensOf[row] as number, kvUse: Number.NaN };
      gateway.takeReading(row, load, { readAtMs: now(), nowMs: now(), ownAtScrape });
      if (concurrencyLimit !== undefined) gateway.table.concurrencyLimit[row] = concurrencyLimit;
    }
  };
  poll();
  gateway.refreshSpeeds(0);
  const timer = setInterval(() => {
    poll();
    gateway.refreshSpeeds(now());
  }, LEARN_EVERY_MS * dilation);
  let done = 0;
  const ask = async (request: number) => {
    const promptTokens = workload.promptTokens[request] as number;
    const outputTokens = workload.outputTokens[request] as number;
    const atMs = now();
    records.arrivedAtMs[request] = atMs;
    const klass = workload.classes[request] as number;
    const admitted = gateway.admit({ index: request, promptTokens, session: -1, blocks: null, klass }, atMs);
    const dispatched = gateway.choose(admitted, atMs);
    if (dispatched === null) throw new Error(`request ${request} finds no node`);
    const { row, predicted } = dispatched;
    records.predictedFirstMs[request] = predicted?.firstMs ?? Number.NaN;
    records.predictedTokenMs[request] = predicted?.tokenMs ?? Number.NaN;
    records.promisedFirstMs[request] = predicted?.firstPromisedMs ?? Number.NaN;
    records.promisedTokenMs[request] = predicted?.tokenPromisedMs ?? Number.NaN;
    if (overheadMs > 0) await delay(overheadMs * dilation);
    const tokens = await streamCall({
      url: urls[row] as string,
      agent: agents[row] as Agent,
      model,
      prompt: promptOf(promptTokens),
      outputTokens,
      onFirstToken: () => {
        records.ttftMs[request] = now() - atMs;
        gateway.firstToken(dispatched, now());
      },
    });
    const endMs = now();
    tokensOf[row] = (tokensOf[row] as number) + tokens;
    records.responseMs[request] = endMs - atMs;
    records.outputTokens[request] = tokens;
    records.node[request] = row;
    records.end[request] = SERVED;
    gateway.end(
      admitted,
      dispatched,
      { kind: "answer", status: 200, verdict: null, retryAfterMs: Number.NaN },
      {
        outputTokens: tokens,
        promptTokens,
        durationMs: endMs - atMs,
        firstTokenMs: records.ttftMs[request] as number,
        atMs: endMs,
      },
    );
    done += 1;
    options.onProgress?.(done);
  };
  try {
    const calls: Promise<void>[] = [];
    for (let request = 0; request < workload.count; request++) {
      const waitMs = ((workload.atMs[request] as number) - now()) * dilation;
      if (waitMs > 1) await delay(waitMs);
      const call = ask(request);
      // told at the end, with all others
      call.catch(() => undefined);
      calls.push(call);
    }
    await Promise.all(calls);
  } finally {
    clearInterval(timer);
    for (const agent of agents) agent.destroy();
  }
  return records;
}
