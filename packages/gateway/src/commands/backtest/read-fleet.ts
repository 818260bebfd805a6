/** The fleet of a window, out of what was kept of it: nodes under one index over all runs, and what happened to them. */

import type { PolicyData } from "@zml/engine";
import type { NodeState, ReplayEvent } from "@zml/simulator/backtest";
import { type DecisionDatabase, NODE_STATES, type RunRow } from "../../evidence/kept/decision-database.ts";
import { decodeFleetState, type FleetState, type KeptNode } from "../../evidence/kept/fleet-state.ts";

/** An index of names that is the same for all runs. */
export class Unified {
  readonly names: { readonly scope: string; readonly name: string }[] = [];
  readonly #known = new Map<string, number>();

  of(scope: string, name: string): number {
    const key = `${scope}\u0000${name}`;
    let index = this.#known.get(key);
    if (index === undefined) {
      index = this.names.push({ scope, name }) - 1;
      this.#known.set(key, index);
    }
    return index;
  }

  find(scope: string, name: string): number {
    return this.#known.get(`${scope}\u0000${name}`) ?? -1;
  }
}

/** A node as it was seen in the window. */
export interface WindowNode {
  readonly id: string;
  family: number;
  maxInFlight: number;
  concurrencyLimit: number;
  usdPerHour: number;
  /** As the window began. */
  state: NodeState;
  readonly models: Map<number, { kvCapacityTokens: number; contextTokens: number }>;
}

export interface WindowFleet {
  readonly families: Unified;
  readonly models: Unified;
  readonly policies: Unified;
  /** (url, id). */
  readonly identities: Unified;
  /** By unified identity. */
  readonly nodes: (WindowNode | undefined)[];
  /** By unified policy, as they are now or were last. */
  readonly policyData: (PolicyData | undefined)[];
  readonly accounts: Set<string>;
  /** Times since the window began, ms; nodes by unified identity. */
  readonly events: (ReplayEvent & { readonly atMs: number })[];
  failover: FleetState["failover"];
  pollEveryMs: number;
}

/** Indexes of one run → unified ones. */
export interface RunIndexes {
  readonly models: Int32Array;
  readonly policies: Int32Array;
  readonly families: Int32Array;
  readonly identities: Int32Array;
}

export function emptyFleet(): WindowFleet {
  return {
    families: new Unified(),
    models: new Unified(),
    policies: new Unified(),
    identities: new Unified(),
    nodes: [],
    policyData: [],
    accounts: new Set(),
    events: [],
    pollEveryMs: 5_000,
    failover: { maxAttempts: 3, windowMs: 30_000, retryBudget: 0.2 },
  };
}

/** Indexes of a run's names. */
export function runIndexes(database: DecisionDatabase, run: RunRow, fleet: WindowFleet): RunIndexes {
  const tables = {
    models: fleet.models,
    policies: fleet.policies,
    families: fleet.families,
    identities: fleet.identities,
  };
  const indexes = {
    models: [] as number[],
    policies: [] as number[],
    families: [] as number[],
    identities: [] as number[],
  };
  for (const { kind, index, scope, name } of database.names(run.id)) {
    if (kind !== "keys") indexes[kind][index] = tables[kind].of(scope, name);
  }
  const whole = (list: number[]) => Int32Array.from({ length: list.length }, (_, index) => list[index] ?? -1);
  return {
    models: whole(indexes.models),
    policies: whole(indexes.policies),
    families: whole(indexes.families),
    identities: whole(indexes.identities),
  };
}

/** Takes what a run's fleet was and became in the window. Returns false when nothing is known of it. */
export function readFleet(
  database: DecisionDatabase,
  run: RunRow,
  window: { readonly fromMs: number; readonly toMs: number },
  indexes: RunIndexes,
  fleet: WindowFleet,
): boolean {
  const { fromMs, toMs } = window;
  const states = database.fleetStates(run.id, fromMs, toMs);
  const first = states[0];
  if (first === undefined) return false;
  const known = new Map<number, { state: NodeState; usdPerHour: number }>();
  const note = (identity: number, atMs: number, state: NodeState, usdPerHour: number) => {
    const node = fleet.nodes[identity];
    const before = known.get(identity);
    known.set(identity, { state, usdPerHour });
    if (node === undefined) return;
    const sinceMs = atMs - fromMs;
    if (before === undefined && sinceMs <= 0) {
      node.state = state;
      node.usdPerHour = usdPerHour;
      return;
    }
    if (before?.state !== state)
      fleet.events.push({ atMs: Math.max(0, sinceMs), node: identity, kind: "state", state });
    if (!Number.isNaN(usdPerHour) && !Object.is(before?.usdPerHour, usdPerHour)) {
      fleet.events.push({ atMs: Math.max(0, sinceMs), node: identity, kind: "price", usdPerHour });
    }
  };
  const changes = database.nodeChanges(run.id, first.atMs, toMs);
  let change = 0;
  const changesUntil = (untilMs: number) => {
    for (; change < changes.length; change++) {
      const one = changes[change];
      if (one === undefined || one.atMs > untilMs) return;
      const identity = indexes.identities[one.identity] ?? -1;
      const node = fleet.nodes[identity];
      if (node === undefined) continue;
      if (one.maxInFlight > 0) node.maxInFlight = one.maxInFlight;
      if (one.concurrencyLimit > 0) node.concurrencyLimit = one.concurrencyLimit;
      note(identity, one.atMs, NODE_STATES[one.state] ?? "up", one.usdPerHour);
    }
  };
  for (const { atMs, body } of states) {
    changesUntil(atMs);
    const state = decodeFleetState(body);
    takeState(state, indexes, fleet);
    const present = new Set<number>();
    for (const node of state.nodes) {
      const identity = indexes.identities[node.identity] ?? -1;
      if (identity < 0) continue;
      present.add(identity);
      // what was there as the run began was there before: its first state may be noted late
      const at = atMs === first.atMs ? Math.min(atMs, fromMs) : atMs;
      note(identity, at, NODE_STATES[node.state] ?? "up", node.usdPerHour ?? Number.NaN);
    }
    for (const [identity, { state: last, usdPerHour }] of known) {
      if (!present.has(identity) && last !== "down") note(identity, atMs, "down", usdPerHour);
    }
  }
  changesUntil(Number.POSITIVE_INFINITY);
  return true;
}

/** Names, limits and policies of a state; later ones win. */
function takeState(state: FleetState, indexes: RunIndexes, fleet: WindowFleet): void {
  for (const node of state.nodes) takeNode(node, indexes, fleet);
  for (const { name } of state.accounts) fleet.accounts.add(name);
  fleet.failover = state.failover;
  fleet.pollEveryMs = state.pollEveryMs;
  for (const policy of state.policies) {
    const index = fleet.policies.of(policy.account, policy.name);
    const chain = policy.chain.flatMap(({ family, priority }) => {
      const unified = indexes.families[family] ?? -1;
      return unified < 0 ? [] : [{ family: unified, priority }];
    });
    fleet.policyData[index] = { ...policy, index, chain };
  }
}

function takeNode(kept: KeptNode, indexes: RunIndexes, fleet: WindowFleet): void {
  const identity = indexes.identities[kept.identity] ?? -1;
  const family = indexes.families[kept.family] ?? -1;
  if (identity < 0 || family < 0) return;
  let node = fleet.nodes[identity];
  if (node === undefined) {
    node = {
      id: kept.id,
      family,
      maxInFlight: 256,
      concurrencyLimit: Number.NaN,
      usdPerHour: Number.NaN,
      // of one that came later: until then it was not there
      state: "down",
      models: new Map(),
    };
    fleet.nodes[identity] = node;
  }
  node.family = family;
  node.maxInFlight = kept.maxInFlight ?? node.maxInFlight;
  node.concurrencyLimit = kept.concurrencyLimit ?? node.concurrencyLimit;
  for (const { model, kvCapacityTokens, contextTokens } of kept.models) {
    const unified = indexes.models[model] ?? -1;
    if (unified < 0) continue;
    node.models.set(unified, {
      kvCapacityTokens: kvCapacityTokens ?? Number.NaN,
      contextTokens: contextTokens ?? Number.NaN,
    });
  }
}
