import type { ReceivedRouting } from "@zml/protocol/wire";
import { Spending } from "./money.ts";

/** How a call ended, as its caller saw it. */
export type CallResult = {
  readonly policy: string;
  /** False: an error status, an error event, or an answer that broke off. */
  readonly isGood: boolean;
  readonly error: string;
  /** Null when the answer had no readable one. */
  readonly routing: ReceivedRouting | null;
  /** From the time that the trace gives for the call to its last byte: a late client counts as waiting too. */
  readonly durationMs: number;
  readonly outputTokens: number;
  /** NaN: unknown. */
  readonly usd: number;
};

/** Durations kept per policy: a day of a running demo must not fill the memory. */
const KEPT_DURATIONS = 5_000;
/** Calls over which shares of traffic are counted, so that they follow what happens. */
const RECENT_CALLS = 200;

/** Nearest-rank quantile of values in any order; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export class PolicyStatistics {
  readonly targetMs: number;
  readonly families = new Map<string, number>();
  readonly #spending = new Spending();
  #durationsMs: number[] = [];
  #next = 0;
  #ended = 0;
  #failed = 0;
  #redispatched = 0;
  #within = 0;

  constructor(targetMs: number) {
    this.targetMs = targetMs;
  }

  add(result: CallResult): void {
    this.#ended += 1;
    this.#redispatched += Math.max(0, (result.routing?.attempt ?? 1) - 1);
    if (!result.isGood) {
      this.#failed += 1;
      return;
    }
    if (result.durationMs <= this.targetMs) this.#within += 1;
    this.#durationsMs[this.#next] = result.durationMs;
    this.#next = (this.#next + 1) % KEPT_DURATIONS;
    this.#spending.add(result.usd, result.outputTokens);
    const family = result.routing?.family;
    if (family !== undefined) this.families.set(family, (this.families.get(family) ?? 0) + 1);
  }

  get ended(): number {
    return this.#ended;
  }

  get failed(): number {
    return this.#failed;
  }

  /** Dispatches beyond the first one of each call. */
  get redispatched(): number {
    return this.#redispatched;
  }

  /** Share of calls that ended well within the target; failed ones count as missed. NaN before the first. */
  get attainment(): number {
    return this.#ended === 0 ? Number.NaN : this.#within / this.#ended;
  }

  get usdPerMillionTokens(): number {
    return this.#spending.usdPerMillionTokens;
  }

  durationMs(share: number): number {
    return quantile(this.#durationsMs, share);
  }
}

/** Everything that the demo counts. */
export class Statistics {
  readonly policies: ReadonlyMap<string, PolicyStatistics>;
  #sent = 0;
  #recentNodes: string[] = [];
  #errors: string[] = [];

  constructor(targetsMs: ReadonlyMap<string, number>) {
    this.policies = new Map([...targetsMs].map(([policy, targetMs]) => [policy, new PolicyStatistics(targetMs)]));
  }

  noteSent(): void {
    this.#sent += 1;
  }

  add(result: CallResult): void {
    this.policies.get(result.policy)?.add(result);
    if (!result.isGood && this.#errors.length < 10) this.#errors.push(result.error);
    const node = result.routing?.node;
    if (!result.isGood || node === undefined) return;
    this.#recentNodes.push(node);
    if (this.#recentNodes.length > RECENT_CALLS) this.#recentNodes.shift();
  }

  get sent(): number {
    return this.#sent;
  }

  get ended(): number {
    return this.#sum((policy) => policy.ended);
  }

  get failed(): number {
    return this.#sum((policy) => policy.failed);
  }

  get redispatched(): number {
    return this.#sum((policy) => policy.redispatched);
  }

  /** What the first failed calls said. */
  get errors(): readonly string[] {
    return this.#errors;
  }

  /** Share of the latest answers that this node gave; NaN before the first. */
  shareOf(node: string): number {
    const count = this.#recentNodes.reduce((sum, recent) => sum + (recent === node ? 1 : 0), 0);
    return this.#recentNodes.length === 0 ? Number.NaN : count / this.#recentNodes.length;
  }

  #sum(of: (policy: PolicyStatistics) => number): number {
    return [...this.policies.values()].reduce((sum, policy) => sum + of(policy), 0);
  }
}
