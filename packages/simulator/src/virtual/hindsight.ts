/**
 * ORA-2 (§4.7 of the routing benchmark): how much better a window of a run could have been assigned, seen from its end. The
 * search starts from what a policy did and moves or swaps single requests, the late and the dear ones first, as long as
 * that raises good tokens per USD. Order of arrival and batching are the nodes' own, and nothing is preempted by plan.
 *
 * Nodes do not see each other, so that a move changes two of them: each is computed again from its state before the moved
 * request, which is kept every few seconds, until it has drained. Steps take their mean time: with a spread, a search would
 * find lucky draws.
 */

import { seededRandom } from "../seeded-random.ts";
import type { FleetPlan } from "./fleet-plan.ts";
import { isWithinTargets, type RequestClass } from "./request-classes.ts";
import { REQUEST_OVERHEAD_MS } from "./routers/predict.ts";
import { STREAM_TOKEN_MS } from "./simulate.ts";
import { MAX_SEQUENCES } from "./virtual-gateway.ts";
import { VirtualNode, type VirtualNodeOptions } from "./virtual-node.ts";
import type { Workload } from "./workload.ts";

export interface HindsightOptions {
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  /** Of independent requests that share no prefix. */
  readonly workload: Workload;
  /** Node of each request; -1: it was not served and is left out. */
  readonly nodeOf: Int16Array;
  readonly fromMs: number;
  readonly toMs: number;
  /** Moves that are tried. */
  readonly evaluations: number;
  readonly stepTokenBudget: number;
  readonly seed: number;
}

/** Good tokens per USD and share on time of the window's requests, until the fleet has drained. */
export interface Assignment {
  readonly goodputPerUsd: number;
  readonly attainment: number;
}

export interface Hindsight {
  /** As the policy assigned it. */
  readonly given: Assignment;
  readonly found: Assignment;
  /** Moves that were kept. */
  readonly kept: number;
  /** Node of each request after them. */
  readonly nodeOf: Int16Array;
}

/** What ran before the window brings each node into its state: answers of the benchmark take less. */
const LEAD_MS = 120_000;
const STATE_EVERY_MS = 15_000;

/** Searches. O(evaluations × requests of two nodes in the window). @throws Error when the workload has prefixes or sessions. */
export function searchHindsight(options: HindsightOptions): Hindsight {
  return new Search(options).run();
}

/** One node with its requests, in order of arrival. */
interface Lane {
  requests: number[];
  /** Its state each `STATE_EVERY_MS` from the window's begin on, while requests come. */
  states: VirtualNode[];
  goodTokens: number;
  met: number;
  usd: number;
}

/** What a lane came to, and when each of its requests ended. */
interface Outcome extends Lane {
  readonly ends: Map<number, { firstMs: number; endMs: number }>;
}

class Search {
  readonly #options: HindsightOptions;
  readonly #random: () => number;
  readonly #lanes: Lane[];
  readonly #window: number[] = [];
  readonly #laneOf: Int16Array;
  readonly #firstMs: Float64Array;
  readonly #endMs: Float64Array;
  readonly #isLate: Uint8Array;
  /** Being computed: where first and last tokens go. */
  #ends = new Map<number, { firstMs: number; endMs: number }>();

  constructor(options: HindsightOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    const { workload, plan, nodeOf, fromMs, toMs } = options;
    this.#laneOf = Int16Array.from(nodeOf);
    this.#firstMs = new Float64Array(workload.count).fill(Number.NaN);
    this.#endMs = new Float64Array(workload.count).fill(Number.NaN);
    this.#isLate = new Uint8Array(workload.count);
    const requests = plan.nodes.map((): number[] => []);
    for (let request = 0; request < workload.count; request++) {
      if (workload.session[request] !== -1 || workload.blocks[request] !== null) {
        throw new Error("hindsight is for independent requests without prefixes");
      }
      const atMs = workload.atMs[request] as number;
      const lane = nodeOf[request] as number;
      if (lane < 0 || atMs < fromMs - LEAD_MS || atMs >= toMs) continue;
      requests[lane]?.push(request);
      if (atMs >= fromMs) this.#window.push(request);
    }
    this.#lanes = requests.map((own, row) => this.#settled(row, this.#compute(row, own, 0)));
  }

  run(): Hindsight {
    const given = this.#assignment();
    const { evaluations } = this.#options;
    let kept = 0;
    for (let round = 0; round < evaluations; round++) if (this.#tryMove()) kept += 1;
    return { given, found: this.#assignment(), kept, nodeOf: this.#laneOf };
  }

  #assignment(): Assignment {
    const sum = (of: (lane: Lane) => number) => this.#lanes.reduce((total, lane) => total + of(lane), 0);
    return {
      goodputPerUsd: sum(({ goodTokens }) => goodTokens) / sum(({ usd }) => usd),
      attainment: sum(({ met }) => met) / this.#window.length,
    };
  }

  /** True: a move was found good and is kept. */
  #tryMove(): boolean {
    const request = this.#pickRequest();
    const from = this.#laneOf[request] as number;
    const to = (from + 1 + Math.floor(this.#random() * (this.#lanes.length - 1))) % this.#lanes.length;
    const other = this.#random() < 0.25 ? this.#neighbour(request, to) : -1;
    const fromLane = this.#lanes[from] as Lane;
    const toLane = this.#lanes[to] as Lane;
    const earliest = other < 0 ? request : Math.min(request, other);
    const outcomes = [
      this.#compute(from, replaced(fromLane.requests, request, other), earliest),
      this.#compute(to, replaced(toLane.requests, other, request), earliest),
    ];
    const before = this.#assignment().goodputPerUsd;
    const lanes = [...this.#lanes];
    [this.#lanes[from], this.#lanes[to]] = outcomes as [Outcome, Outcome];
    const isBetter = this.#assignment().goodputPerUsd > before;
    if (!isBetter) {
      [this.#lanes[from], this.#lanes[to]] = [lanes[from] as Lane, lanes[to] as Lane];
      return false;
    }
    this.#laneOf[request] = to;
    if (other >= 0) this.#laneOf[other] = from;
    for (const [index, row] of [from, to].entries()) this.#lanes[row] = this.#settled(row, outcomes[index] as Outcome);
    return true;
  }

  /** A late request half of the time, if there is one; else one of a node whose good tokens are dear. */
  #pickRequest(): number {
    const draw = () => this.#window[Math.floor(this.#random() * this.#window.length)] as number;
    const isLateWanted = this.#random() < 0.5;
    const usdOf = (request: number) => {
      const { usd, goodTokens } = this.#lanes[this.#laneOf[request] as number] as Lane;
      return usd / Math.max(1, goodTokens);
    };
    let best = draw();
    for (let tries = 0; tries < 40; tries++) {
      if (isLateWanted && this.#isLate[best] === 1) return best;
      const next = draw();
      if (isLateWanted ? this.#isLate[next] === 1 : tries < 2 && usdOf(next) > usdOf(best)) best = next;
    }
    return best;
  }

  /** Of another lane the request that came nearest, -1: none within two seconds. */
  #neighbour(request: number, lane: number): number {
    const { atMs } = this.#options.workload;
    const distance = (other: number) => Math.abs((atMs[other] as number) - (atMs[request] as number));
    let best = -1;
    for (const other of (this.#lanes[lane] as Lane).requests) {
      if ((atMs[other] as number) < this.#options.fromMs || distance(other) > 2_000) continue;
      if (best < 0 || distance(other) < distance(best)) best = other;
    }
    return best;
  }

  /** A lane with these requests, from its last state before `since` came. Its present states must be those of before. */
  #compute(row: number, requests: number[], since: number): Outcome {
    const { workload, fromMs, toMs } = this.#options;
    const sinceMs = workload.atMs[since] as number;
    const states = this.#lanes?.[row]?.states ?? [];
    const place = Math.min(states.length - 1, Math.floor((sinceMs - fromMs) / STATE_EVERY_MS));
    this.#ends = new Map();
    const known = states[place];
    const node = known === undefined ? new VirtualNode(this.#nodeOptions(row)) : known.copy(this.#nodeOptions(row));
    const stateMs = known === undefined ? Number.NEGATIVE_INFINITY : fromMs + place * STATE_EVERY_MS;
    const kept = known === undefined ? [] : states.slice(0, place + 1);
    let nextStateMs = fromMs + kept.length * STATE_EVERY_MS;
    for (const request of requests) {
      const reachMs = this.#reachMs(row, request);
      // a state at a moment has what reached the node before it
      if (reachMs < stateMs) continue;
      while (nextStateMs <= reachMs && nextStateMs < toMs) {
        node.advance(nextStateMs);
        kept.push(node.copy(this.#nodeOptions(row)));
        nextStateMs += STATE_EVERY_MS;
      }
      node.enqueue(
        {
          id: request,
          promptTokens: workload.promptTokens[request] as number,
          outputTokens: workload.outputTokens[request] as number,
          blocks: null,
        },
        reachMs,
      );
    }
    while (Number.isFinite(node.nextEventMs)) node.advance(node.nextEventMs);
    return { ...this.#judged(row, requests, node.busy), requests, states: kept, ends: this.#ends };
  }

  #judged(row: number, requests: readonly number[], busy: readonly number[]) {
    const { workload, fromMs, plan } = this.#options;
    let goodTokens = 0;
    let met = 0;
    for (const request of requests) {
      if ((workload.atMs[request] as number) < fromMs || !this.#isMet(row, request)) continue;
      met += 1;
      goodTokens += workload.outputTokens[request] as number;
    }
    let busyMs = 0;
    for (let index = 0; index < busy.length; index += 2) {
      busyMs += Math.max(0, (busy[index + 1] as number) - Math.max(fromMs, busy[index] as number));
    }
    return { goodTokens, met, usd: (busyMs / 3_600_000) * (plan.nodes[row]?.usdPerHour ?? Number.NaN) };
  }

  #isMet(row: number, request: number): boolean {
    const { workload, classes, plan } = this.#options;
    const target = classes[workload.classes[request] as number];
    const end = this.#ends.get(request);
    const firstMs = end === undefined || Number.isNaN(end.firstMs) ? (this.#firstMs[request] as number) : end.firstMs;
    const endMs = end === undefined ? (this.#endMs[request] as number) : end.endMs;
    const outputTokens = workload.outputTokens[request] as number;
    const backMs = (plan.nodes[row]?.networkMs ?? 0) / 2 - (workload.atMs[request] as number);
    if (target === undefined) throw new Error(`request ${request} has no class`);
    return isWithinTargets(target, {
      ttftMs: firstMs + backMs + STREAM_TOKEN_MS,
      endMs: endMs + backMs + STREAM_TOKEN_MS * outputTokens,
      outputTokens,
    });
  }

  /** Takes what was computed as what is. */
  #settled(row: number, { ends, ...lane }: Outcome): Lane {
    this.#ends = ends;
    for (const [request, { firstMs, endMs }] of ends) {
      if (!Number.isNaN(firstMs)) this.#firstMs[request] = firstMs;
      this.#endMs[request] = endMs;
    }
    for (const request of lane.requests) this.#isLate[request] = this.#isMet(row, request) ? 0 : 1;
    return lane;
  }

  #reachMs(row: number, request: number): number {
    const { workload, plan } = this.#options;
    return (workload.atMs[request] as number) + REQUEST_OVERHEAD_MS + (plan.nodes[row]?.networkMs ?? 0) / 2;
  }

  #nodeOptions(row: number): VirtualNodeOptions {
    const { plan, stepTokenBudget } = this.#options;
    const constants = plan.nodes[row]?.constants;
    if (constants === undefined) throw new Error(`no node ${row}`);
    const endOf = (request: number) => {
      const end = this.#ends.get(request) ?? { firstMs: Number.NaN, endMs: Number.NaN };
      this.#ends.set(request, end);
      return end;
    };
    return {
      constants,
      maxSequences: MAX_SEQUENCES,
      stepTokenBudget,
      onFirstToken: (request, atMs) => {
        endOf(request).firstMs = atMs;
      },
      onFinished: (request, atMs) => {
        endOf(request).endMs = atMs;
      },
    };
  }
}

/** A lane's requests without one and with another (-1: none), still in order. Requests are numbered by arrival. */
function replaced(requests: readonly number[], without: number, added: number): number[] {
  const left = requests.filter((request) => request !== without);
  if (added < 0) return left;
  const place = left.findIndex((request) => request > added);
  left.splice(place < 0 ? left.length : place, 0, added);
  return left;
}
