/**
 * What a token costs on the family that a policy names first: the price of the family's nodes that serve the model over
 * the tokens/s that they make together. Spread over the family by capacity, a load costs exactly that.
 */

import type { FleetTable, ModelData, PolicyData } from "@zml/engine";
import { type CompiledDirectory, entryKey } from "../control/compile-directory.ts";
import type { NameRegistry } from "../control/name-registry.ts";
import type { BaselineRate } from "./money-ledger.ts";

/** Prices and speeds change with polls: a rate is this old at most, ms. */
const KEPT_MS = 1_000;

export interface BaselineSources {
  readonly table: FleetTable;
  readonly names: NameRegistry;
  /** The one in force. */
  readonly directory: () => CompiledDirectory;
  /** Monotonic, ms. */
  readonly nowMs: () => number;
}

export class BaselineRates {
  readonly #sources: BaselineSources;
  /** By policy and model; forgotten as a whole. */
  readonly #kept = new Map<number, BaselineRate>();
  #keptFromMs = Number.NEGATIVE_INFINITY;

  constructor(sources: BaselineSources) {
    this.#sources = sources;
  }

  /** Indexes of names. O(nodes of the model) once a second for each pair that has attempts. */
  rateOf(policy: number, model: number): BaselineRate {
    const nowMs = this.#sources.nowMs();
    if (!(nowMs - this.#keptFromMs < KEPT_MS)) {
      this.#kept.clear();
      this.#keptFromMs = nowMs;
    }
    // one whole number: both are below 2^24
    const key = policy * 2 ** 24 + model;
    let rate = this.#kept.get(key);
    if (rate === undefined) {
      rate = this.#find(policy, model);
      this.#kept.set(key, rate);
    }
    return rate;
  }

  #find(policyIndex: number, modelIndex: number): BaselineRate {
    const { names, directory, table } = this.#sources;
    const policyName = names.policies.nameOf(policyIndex);
    const modelName = names.models.nameOf(modelIndex);
    if (policyName === null || modelName === null) return UNKNOWN;
    const { policies, accounts, models } = directory();
    const builtIn = accounts.get(policyName.scope)?.builtIn;
    const policy = policies.get(entryKey(policyName.scope, policyName.name)) ?? builtIn;
    const model = models.get(entryKey(modelName.scope, modelName.name));
    return policy?.index === policyIndex && model !== undefined ? rateOn(table, model, firstFamily(policy)) : UNKNOWN;
  }
}

const UNKNOWN: BaselineRate = { usdPerToken: Number.NaN, isAssumed: false };

/** The family with the least priority, the first of equals; -1: the chain is empty. */
function firstFamily({ chain }: PolicyData): number {
  let first = chain[0];
  for (const link of chain) if (first !== undefined && link.priority < first.priority) first = link;
  return first?.family ?? -1;
}

/** Over nodes of known price; over those that were measured, if any was. */
function rateOn(table: FleetTable, { rows, placements, families }: ModelData, family: number): BaselineRate {
  let measuredUsd = 0;
  let measuredTokens = 0;
  let usd = 0;
  let tokens = 0;
  for (let index = 0; index < rows.length; index++) {
    if (families[index] !== family) continue;
    const price = table.priceUsdPerHour[rows[index] as number] as number;
    const placement = placements[index] as number;
    const speed = table.tokensPerSecond[placement] as number;
    if (Number.isNaN(price) || !(speed > 0)) continue;
    usd += price;
    tokens += speed;
    if (Number.isNaN(table.measuredTokensPerSecond[placement] as number)) continue;
    measuredUsd += price;
    measuredTokens += speed;
  }
  if (measuredTokens > 0) return { usdPerToken: measuredUsd / measuredTokens / 3600, isAssumed: false };
  return tokens > 0 ? { usdPerToken: usd / tokens / 3600, isAssumed: true } : UNKNOWN;
}
