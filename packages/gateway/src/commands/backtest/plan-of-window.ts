/** The plan of a replay, out of what was read of a window. */

import type { PolicyData } from "@zml/engine";
import type { OutsideCall, ReplayPlan } from "@zml/simulator/backtest";
import type { Backtesting, RecordedSpeed, RecordedWindow } from "./recorded-window.ts";

/** Of every replay: the same records and draft give the same report. */
export const SEED = 1;
/** Requests that teach a gateway which had run before the window. */
const WARM_UP_SHARE = 0.1;
const WARM_UP_MAX = 5_000;

/** The plan of what happened, and the row of each unified identity. */
export function planOf(
  sim: Backtesting,
  window: RecordedWindow,
): { plan: ReplayPlan; rowOf: ReadonlyMap<number, number> } {
  const { fleet, attempts, speeds, traffic } = window;
  const rowOf = new Map<number, number>();
  fleet.nodes.forEach((node, identity) => {
    if (node !== undefined && node.models.size > 0) rowOf.set(identity, rowOf.size);
  });
  const rows = [...rowOf.keys()];
  const kinOf = kinships(fleet);
  const groups = rows.flatMap((identity, node) => {
    const seen = fleet.nodes[identity];
    return Array.from(seen?.models ?? [], ([model, { kvCapacityTokens }]) => ({
      node,
      model,
      kin: kinOf[model] ?? model,
      family: seen?.family ?? -1,
      concurrencyLimit: seen?.concurrencyLimit ?? Number.NaN,
      kvCapacityTokens,
      attempts: attempts.get(`${identity} ${model}`)?.attempts ?? [],
    }));
  });
  const { timings, slowness } = sim.fitTimings(groups, { fromMs: 0, toMs: window.toMs - window.fromMs });
  const slownessOf = (row: number, model: number) => slowness.get(sim.slownessKey(row, kinOf[model] ?? model)) ?? 1;
  const charges = chargesOf(window, rows, slownessOf);
  const nodes = rows.map((identity, row): ReplayPlan["nodes"][number] => {
    const node = fleet.nodes[identity] as NonNullable<(typeof fleet.nodes)[number]>;
    return {
      id: node.id,
      family: node.family,
      maxInFlight: node.maxInFlight,
      concurrencyLimit: node.concurrencyLimit,
      usdPerHour: node.usdPerHour,
      state: node.state,
      models: Array.from(node.models, ([model, limits]) => ({
        model,
        ...limits,
        // what came before the window, the last of it; else the first that is known
        tokensPerSecond: speedAsItBegins(speeds.get(`${identity} ${model}`) ?? []),
        chargedTokensPerSecond: speedAsItBegins(charges(row, model)),
        slowness: slownessOf(row, model),
      })),
    };
  });
  const onRow = ({ node, ...call }: OutsideCall): OutsideCall => ({ ...call, node: rowOf.get(node) ?? -1 });
  const any = fleet.policyData.find((data) => data !== undefined) as PolicyData;
  const accounts = new Set(fleet.models.names.map(({ scope }) => scope));
  for (const { scope } of fleet.policies.names) accounts.add(scope);
  return {
    rowOf,
    plan: {
      families: fleet.families.names.map(({ name }) => name),
      nodes,
      models: fleet.models.names.map(({ scope, name }, model) => ({
        account: scope,
        name,
        kin: kinOf[model] ?? model,
      })),
      policies: fleet.policies.names.map(({ scope, name }, index) => {
        // a name that no kept state knows has no requests either
        const data = fleet.policyData[index] ?? { ...any, account: scope, name };
        return { ...data, index };
      }),
      accounts: [...accounts],
      events: [
        ...fleet.events.flatMap((event) => {
          const node = rowOf.get(event.node);
          return node === undefined ? [] : [{ ...event, node }];
        }),
        ...rows.flatMap((identity, node) =>
          [...(fleet.nodes[identity]?.models.keys() ?? [])].flatMap((model) => {
            const later = (all: readonly RecordedSpeed[]) => all.filter(({ atMs }) => atMs > 0);
            return [
              ...later(speeds.get(`${identity} ${model}`) ?? []).map((one) => ({ ...one, kind: "speed" as const })),
              ...later(charges(node, model)).map((one) => ({ ...one, kind: "charge" as const })),
            ].map((event) => ({ ...event, node, model }));
          }),
        ),
      ],
      timings,
      failover: fleet.failover,
      pollEveryMs: fleet.pollEveryMs,
      earlier: window.isFromStart ? [] : window.earlier.map(onRow),
      later: window.later.map(onRow),
      warmUp: window.isFromStart ? 0 : Math.min(WARM_UP_MAX, Math.floor(traffic.count * WARM_UP_SHARE)),
      lessons: window.isFromStart ? [] : sim.lessonsOf(groups, 0),
      promptRatios: fleet.models.names.map((_, model) => window.promptRatios.get(model) ?? Number.NaN),
      seed: SEED,
    },
  };
}

/** Capacities that answers are charged by, by row and model: those of all nodes together that nothing tells apart. */
function chargesOf(
  { fleet, charges }: RecordedWindow,
  rows: readonly number[],
  slownessOf: (row: number, model: number) => number,
): (row: number, model: number) => readonly RecordedSpeed[] {
  const likeOf = (row: number, model: number) => {
    const node = fleet.nodes[rows[row] as number];
    return `${model} ${node?.family} ${node?.usdPerHour} ${node?.concurrencyLimit} ${slownessOf(row, model)}`;
  };
  const alike = new Map<string, number[]>();
  rows.forEach((identity, row) => {
    for (const model of fleet.nodes[identity]?.models.keys() ?? []) {
      const like = likeOf(row, model);
      const known = alike.get(like);
      if (known === undefined) alike.set(like, [identity]);
      else known.push(identity);
    }
  });
  const known = new Map<string, RecordedSpeed[]>();
  return (row, model) => {
    const like = likeOf(row, model);
    const speeds = known.get(like) ?? charges.of(alike.get(like) ?? [], model);
    known.set(like, speeds);
    return speeds;
  };
}

/**
 * By model, the least model of its kin: those of several accounts that have one name and stand on one node are one model
 * there, and so on from node to node.
 */
function kinships({ nodes, models }: RecordedWindow["fleet"]): number[] {
  const kin = models.names.map((_, model) => model);
  const root = (model: number): number => (kin[model] === model ? model : root(kin[model] as number));
  for (const node of nodes) {
    const byName = new Map<string, number>();
    for (const model of node?.models.keys() ?? []) {
      const name = models.names[model]?.name ?? "";
      const other = byName.get(name);
      byName.set(name, model);
      if (other === undefined) continue;
      const [a, b] = [root(model), root(other)];
      kin[Math.max(a, b)] = Math.min(a, b);
    }
  }
  return kin.map((_, model) => root(model));
}

function speedAsItBegins(speeds: readonly RecordedSpeed[]): number {
  return (speeds.findLast(({ atMs }) => atMs <= 0) ?? speeds[0])?.tokensPerSecond ?? Number.NaN;
}
