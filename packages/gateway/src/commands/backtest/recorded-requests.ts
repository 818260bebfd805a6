/** Requests of a window as they were recorded: for the replay as traffic, and what became of them. */

import type { Results, Traffic } from "@zml/simulator/backtest";
import type { Backtesting } from "./recorded-window.ts";

const REQUEST_COLUMNS = [
  "atMs",
  "model",
  "policy",
  "endpoint",
  "flags",
  "answers",
  "hint",
  "estimated",
  "atLeast",
  "prompt",
  "output",
  "max",
  "end",
  "node",
  "wait",
  "ttft",
  "response",
  "usd",
] as const;

type RequestColumn = (typeof REQUEST_COLUMNS)[number];

type Means = Map<number, { readonly output: number; readonly ratio: number }>;

/** A second or later attempt of a request. */
export interface Again {
  readonly key: string;
  readonly previous: string;
  readonly atMs: number;
  readonly isServed: boolean;
  readonly isCancelled: boolean;
  readonly node: number;
  readonly firstMs: number;
  readonly durationMs: number;
  readonly prompt: number;
  readonly output: number;
  readonly usd: number;
}

export class RecordedRequests {
  readonly #sim: Backtesting;
  /** Rows in the order in which they were added. */
  readonly columns: Record<RequestColumn, Float64Array>;
  #count = 0;
  /** Requests that waited and got a node, by worker and time of admission. */
  readonly #parked = new Set<string>();
  /** Requests that got no node, maybe only at first. */
  readonly #nodeless = new Map<string, number>();
  readonly #failed = new Map<string, number>();
  readonly #again: Again[] = [];

  /** @param most requests that there can be */
  constructor(sim: Backtesting, most: number) {
    this.#sim = sim;
    const columns = REQUEST_COLUMNS.map((name) => [name, new Float64Array(most)]);
    this.columns = Object.fromEntries(columns) as Record<RequestColumn, Float64Array>;
  }

  /** Rows so far: the next new one has this index. */
  get count(): number {
    return this.#count;
  }

  /**
   * The row of a request. One that waits writes a record when it begins to wait, and one when it has waited in vain: both
   * are the same row.
   */
  rowOf(request: string, hasNode: boolean): number {
    const known = hasNode ? undefined : this.#nodeless.get(request);
    const at = known ?? this.#count++;
    if (!hasNode) this.#nodeless.set(request, at);
    return at;
  }

  /** It got a node after it had waited: its record without one is not what became of it. */
  gotNode(request: string): void {
    this.#parked.add(request);
  }

  /** Its attempt failed; another one may follow that names `key` as the one before. */
  failed(key: string, at: number): void {
    this.#failed.set(key, at);
  }

  triedAgain(again: Again): void {
    this.#again.push(again);
  }

  /** Rows to replay, by time. What became of those that were tried again stands in them then. */
  ordered(): number[] {
    this.#joinAttempts();
    const { columns } = this;
    const isGone = new Uint8Array(this.#count);
    for (const [request, at] of this.#nodeless) if (this.#parked.has(request)) isGone[at] = 1;
    const order = Array.from({ length: this.#count }, (_, index) => index).filter((index) => isGone[index] === 0);
    return order.sort((a, b) => (columns.atMs[a] as number) - (columns.atMs[b] as number));
  }

  /** @param order rows. `promptRatios`: by model, prompt tokens as nodes counted them over those estimated. */
  replayable(order: readonly number[]): { traffic: Traffic; happened: Results; promptRatios: Map<number, number> } {
    const means = this.#means(order);
    const promptRatios = new Map(Array.from(means, ([model, { ratio }]) => [model, ratio]));
    return { ...this.#fill(order, means), promptRatios };
  }

  /** What became of requests whose first attempt was not the last. */
  #joinAttempts(): void {
    const { columns: to } = this;
    const { END } = this.#sim;
    this.#again.sort((a, b) => a.atMs - b.atMs);
    for (const again of this.#again) {
      const at = this.#failed.get(again.previous);
      if (at === undefined) continue;
      to.usd[at] = (to.usd[at] as number) + again.usd;
      if (!again.isServed) {
        if (again.isCancelled) to.end[at] = END.cancelled;
        else this.failed(again.key, at);
        continue;
      }
      to.end[at] = END.served;
      to.node[at] = again.node;
      const sinceMs = again.atMs - (to.atMs[at] as number);
      to.ttft[at] = sinceMs + again.firstMs;
      to.response[at] = sinceMs + again.durationMs;
      to.prompt[at] = again.prompt;
      to.output[at] = again.output;
    }
  }

  #fill(order: readonly number[], means: Means): { traffic: Traffic; happened: Results } {
    const { columns: from } = this;
    const traffic = this.#sim.trafficOf(order.length);
    const happened = this.#sim.resultsOf(order.length);
    order.forEach((at, index) => {
      const mean = means.get(from.model[at] as number);
      traffic.atMs[index] = from.atMs[at] as number;
      traffic.model[index] = from.model[at] as number;
      traffic.policy[index] = from.policy[at] as number;
      traffic.endpoint[index] = from.endpoint[at] as number;
      traffic.flags[index] = from.flags[at] as number;
      traffic.answers[index] = from.answers[at] as number;
      traffic.hint[index] = from.hint[at] as number;
      traffic.estimatedTokens[index] = from.estimated[at] as number;
      traffic.atLeastTokens[index] = from.atLeast[at] as number;
      traffic.maxTokens[index] = from.max[at] as number;
      const told = from.prompt[at] as number;
      traffic.promptTokens[index] = told > 0 ? told : Math.max(1, (from.estimated[at] as number) * (mean?.ratio ?? 1));
      const output = from.output[at] as number;
      const most = from.max[at] as number;
      traffic.outputTokens[index] =
        output > 0 ? output : Math.max(1, Math.min(mean?.output ?? 128, most > 0 ? most : Infinity));
      happened.end[index] = from.end[at] as number;
      happened.node[index] = from.node[at] as number;
      happened.waitMs[index] = from.wait[at] as number;
      happened.ttftMs[index] = from.ttft[at] as number;
      happened.responseMs[index] = from.response[at] as number;
      happened.usd[index] = from.usd[at] as number;
    });
    return { traffic, happened };
  }

  /** By model: mean output, and prompt tokens as counted by nodes over those estimated. */
  #means(order: readonly number[]): Means {
    const { columns: from } = this;
    const sums = new Map<number, { output: number; outputs: number; told: number; estimated: number }>();
    for (const at of order) {
      const model = from.model[at] as number;
      let sum = sums.get(model);
      if (sum === undefined) {
        sum = { output: 0, outputs: 0, told: 0, estimated: 0 };
        sums.set(model, sum);
      }
      const [output, told] = [from.output[at] as number, from.prompt[at] as number];
      if (output > 0) {
        sum.output += output;
        sum.outputs += 1;
      }
      if (told > 0) {
        sum.told += told;
        sum.estimated += from.estimated[at] as number;
      }
    }
    return new Map(
      Array.from(sums, ([model, { output, outputs, told, estimated }]) => [
        model,
        { output: outputs > 0 ? output / outputs : 128, ratio: estimated > 0 ? told / estimated : 1 },
      ]),
    );
  }
}
