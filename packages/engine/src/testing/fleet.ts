/**
 * Fleets for tests: a table and a directory made from plain objects, so that a test states only what it is about. Row
 * numbers are positions in `nodes`. Times are engine clock ms; use multiples of `TICK_MS` where a deadline matters.
 */

import { PLACEMENTS_PER_NODE } from "../bounds.ts";
import { tickOf } from "../deadline.ts";
import type { Booking } from "../dispatch/booking.ts";
import {
  type Attempt,
  applyUpdate,
  BUILT_IN_POLICY,
  CELL,
  type CostPriority,
  createDirectory,
  createFleetTable,
  createRouteRequest,
  type Decider,
  type Decision,
  type Directory,
  drawTicket,
  ENDPOINTS,
  type Endpoint,
  type EstimatorName,
  enterQueue,
  type FleetTable,
  type PolicyData,
  type PrefixTable,
  type PromptMarks,
  queueOf,
  type RouteRequest,
  readWake,
  setHead,
  setHeadTried,
  simpleEstimator,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
  writeCapabilities,
} from "../index.ts";

/** One node; what is absent is ordinary: polled, healthy, idle, of unknown load, price 1 USD/h, 1,000 tokens/s. */
export interface NodeSpec {
  family: string;
  inFlight?: number;
  elsewhere?: number;
  foreign?: number;
  waiting?: number;
  concurrencyLimit?: number;
  maxInFlight?: number;
  priceUsdPerHour?: number;
  tokensPerSecond?: number;
  streamTokensPerSecond?: number;
  contextTokens?: number;
  /** Absent: unknown. */
  readsImages?: boolean;
  /** Absent: unknown. */
  endpoints?: readonly Endpoint[];
  drainPerSecond?: number;
  isDraining?: boolean;
  isUnhealthy?: boolean;
  goodPolls?: number;
  cooldownMs?: number;
  /** End of a cooldown; `cooldownFromMs` defaults to 0. */
  cooldownUntilMs?: number;
  cooldownFromMs?: number;
  /** Good polls when the failure came; default: all of them. */
  goodPollsAtFailure?: number;
  isSuspect?: boolean;
  trialUntilMs?: number;
  backoffUntilMs?: number;
  /** Length of its slow start; `warmUntilMs`: end of the one that runs. */
  slowStartMs?: number;
  warmUntilMs?: number;
  /** It said that it is overloaded, and no poll came since. */
  isOverloaded?: boolean;
  misconfiguredUntilMs?: number;
  endpointUntilMs?: Partial<Record<Endpoint, number>>;
}

export interface PolicySpec {
  name?: string;
  /** Families by tier: [["A", "B"], ["C"]] prefers A and B alike. Default: every family in one tier each. */
  chain?: readonly (readonly string[])[];
  costPriority?: CostPriority;
  latencyTargetMs?: number;
  ttftTargetMs?: number;
  tokenTargetMs?: number;
  acceptableWaiting?: number;
  queueOnSaturation?: boolean;
  /** Default: `simple`, which most tests of rules are about. */
  estimator?: EstimatorName;
}

export interface ModelSpec {
  name?: string;
  policy?: string | null;
  /** Rows that serve it; default: all. */
  nodes?: readonly number[];
  meanOutputTokens?: number;
  /** Nodes that serve what this adapter is for and not the adapter, by family. */
  adapterMissing?: Readonly<Record<string, number>>;
}

export interface FleetSpec {
  nodes: readonly NodeSpec[];
  /** Families that exist beside those of the nodes and chains. */
  families?: readonly string[];
  policies?: readonly PolicySpec[];
  models?: readonly ModelSpec[];
  defaultPolicy?: string | null;
  isCatalogComplete?: boolean;
  workers?: number;
  /** Default: none, so that nobody asks which node is warm. */
  prefixes?: PrefixTable;
}

export interface RequestSpec {
  model?: string;
  policy?: string;
  hint?: string | null;
  endpoint?: Endpoint;
  isStream?: boolean;
  promptTokens?: number;
  maxTokens?: number;
  answers?: number;
  promptTokensAtLeast?: number;
  hasImages?: boolean;
  marks?: PromptMarks;
  admittedAtMs?: number;
}

export interface Fleet {
  readonly table: FleetTable;
  readonly directory: Directory;
  /** What a worker decides with. */
  decider(worker?: number): Decider;
  /** A request for a model (default: the first) under a policy (default: the first). */
  request(spec?: RequestSpec): RouteRequest;
  /** Index of a family. */
  family(name: string): number;
  /** Parks a request as the head of its queue and returns its ticket. */
  park(head: { model?: string; policy?: string; worker?: number; hasTried?: boolean }): number;
}

const ACCOUNT = "default";

/** Builds a fleet: one account `default`, the given policies (default: one of `cost`), models (default: `m`). */
export function buildFleet(spec: FleetSpec): Fleet {
  const policies = spec.policies ?? [{}];
  const models = spec.models ?? [{}];
  const names = new Set<string>();
  for (const node of spec.nodes) names.add(node.family);
  for (const policy of policies) for (const tier of policy.chain ?? []) for (const family of tier) names.add(family);
  for (const family of spec.families ?? []) names.add(family);
  const families = [...names];
  const family = (name: string): number => families.indexOf(name);
  const table = createFleetTable({ nodes: Math.max(1, spec.nodes.length), workers: spec.workers ?? 1 });
  spec.nodes.forEach((node, row) => {
    fillRow(table, row, node, family(node.family));
  });
  models.forEach((model, index) => {
    takeModelRow(table, index);
    table.meanOutputTokens[index] = model.meanOutputTokens ?? Number.NaN;
  });
  const directory = createDirectory();
  const registered = [...new Set(spec.nodes.map((node) => node.family))];
  applyUpdate(directory, {
    version: 1,
    families,
    accounts: [
      {
        name: ACCOUNT,
        index: 0,
        defaultPolicy: spec.defaultPolicy ?? null,
        isCatalogComplete: spec.isCatalogComplete ?? true,
        builtIn: policyData({ name: BUILT_IN_POLICY, costPriority: "balanced" }, policies.length, registered, family),
      },
    ],
    policies: policies.map((policy, index) => policyData(policy, index, families, family)),
    models: models.map((model, index) => {
      const rows = model.nodes ?? spec.nodes.map((_, row) => row);
      return {
        account: ACCOUNT,
        name: model.name ?? "m",
        index,
        policy: model.policy === undefined ? (policies[0]?.name ?? "p") : model.policy,
        isRegistered: true,
        rows: Int32Array.from(rows),
        placements: Int32Array.from(rows, (row) => row * PLACEMENTS_PER_NODE),
        families: Int32Array.from(rows, (row) => family(spec.nodes[row]?.family ?? "")),
        ...(model.adapterMissing === undefined
          ? {}
          : { adapterMissing: Int32Array.from(families, (name) => model.adapterMissing?.[name] ?? 0) }),
      };
    }),
  });
  const account = () => must(directory.accounts.get(ACCOUNT));
  const modelOf = (name?: string) => must(account().models.get(name ?? models[0]?.name ?? "m"));
  const policyOf = (name?: string) => must(account().policies.get(name ?? policies[0]?.name ?? "p"));
  return {
    table,
    directory,
    decider: (worker = 0) => ({
      table,
      worker,
      directory,
      estimator: simpleEstimator,
      prefixes: spec.prefixes ?? null,
    }),
    request: (request = {}) =>
      createRouteRequest({
        account: ACCOUNT,
        model: modelOf(request.model),
        policy: policyOf(request.policy),
        policySource: "call",
        hintFamily: request.hint == null ? -1 : family(request.hint),
        endpoint: ENDPOINTS.indexOf(request.endpoint ?? "chat_completions"),
        isStream: request.isStream ?? false,
        promptTokens: request.promptTokens ?? 100,
        maxTokens: request.maxTokens ?? Number.NaN,
        answers: request.answers ?? 1,
        promptTokensAtLeast: request.promptTokensAtLeast ?? 0,
        hasImages: request.hasImages ?? false,
        marks: request.marks ?? null,
        admittedAtMs: request.admittedAtMs ?? 0,
      }),
    family,
    park: ({ model, policy, worker = 0, hasTried = false }) => {
      const queue = queueOf(table, modelOf(model), policyOf(policy));
      const ticket = drawTicket(table);
      enterQueue(table, worker, { queue, bytes: 1000, limits: { requests: 1000, bytes: 1e9 } });
      setHead(table, worker, queue, ticket);
      if (hasTried) setHeadTried(table, worker, queue, readWake(table));
      return ticket;
    },
  };
}

/** An attempt at what `decide` chose, as the gateway makes it: the leases are copied, the decision is used again. */
export function attemptOf(
  booking: Booking,
  decision: Decision,
  options: { sentAtMs: number; endpoint?: number; isFreshConnection?: boolean },
): Attempt {
  return {
    booking,
    placement: decision.placement,
    endpoint: options.endpoint ?? 0,
    trial: { ...decision.trial },
    sentAtMs: options.sentAtMs,
    isFreshConnection: options.isFreshConnection ?? false,
    isJudged: false,
  };
}

/** Sums of every shared count and counting cell that must be 0 when nothing is in flight and nobody waits. */
export function outstanding(table: FleetTable): Record<string, number> {
  const sums: Record<string, number> = {};
  const note = (name: string, cells: Int32Array) => {
    let sum = 0;
    for (const cell of cells) sum += Math.abs(cell);
    if (sum !== 0) sums[name] = sum;
  };
  for (const [name, cells] of Object.entries(table.total)) note(`total.${name}`, cells);
  table.own.forEach((own, worker) => {
    for (const [name, cells] of Object.entries(own)) note(`own${worker}.${name}`, cells);
  });
  note("queueLength", table.queueLength);
  note("queueHead", table.queueHead);
  for (const name of ["parked", "parkedKib", "bodyKib"] as const) {
    note(name, table.cells.subarray(CELL[name], CELL[name] + 1));
  }
  return sums;
}

function policyData(
  policy: PolicySpec,
  index: number,
  families: readonly string[],
  family: (name: string) => number,
): PolicyData {
  const chain = policy.chain ?? families.map((name) => [name]);
  return {
    account: ACCOUNT,
    name: policy.name ?? "p",
    index,
    chain: chain.flatMap((tier, order) => tier.map((name) => ({ family: family(name), priority: order + 1 }))),
    latencyTargetMs: policy.latencyTargetMs ?? Number.NaN,
    ttftTargetMs: policy.ttftTargetMs ?? Number.NaN,
    tokenTargetMs: policy.tokenTargetMs ?? Number.NaN,
    costPriority: policy.costPriority ?? "cost",
    estimator: policy.estimator ?? "simple",
    queueOnSaturation: policy.queueOnSaturation ?? false,
    maxQueueMs: 30_000,
    acceptableWaiting: policy.acceptableWaiting ?? 4,
  };
}

function fillRow(table: FleetTable, row: number, node: NodeSpec, family: number): void {
  takeNodeRow(table, row, {
    family,
    identity: 1000 + row,
    maxInFlight: node.maxInFlight ?? 256,
    cooldownMs: node.cooldownMs ?? 30_000,
    priceUsdPerHour: node.priceUsdPerHour ?? 1,
  });
  const placement = row * PLACEMENTS_PER_NODE;
  takePlacementRow(table, placement);
  table.foreign[row] = node.foreign ?? Number.NaN;
  table.waiting[row] = node.waiting ?? Number.NaN;
  table.concurrencyLimit[row] = node.concurrencyLimit ?? Number.NaN;
  table.drainPerSecond[row] = node.drainPerSecond ?? Number.NaN;
  table.elsewhere[row] = node.elsewhere ?? 0;
  table.isDraining[row] = node.isDraining === true ? 1 : 0;
  table.isUnhealthy[row] = node.isUnhealthy === true ? 1 : 0;
  const goodPolls = node.goodPolls ?? 1;
  table.goodPolls[row] = goodPolls;
  table.polledAtMs[row] = goodPolls > 0 ? 0 : Number.NaN;
  table.tokensPerSecond[placement] = node.tokensPerSecond ?? 1000;
  table.streamTokensPerSecond[placement] = node.streamTokensPerSecond ?? 40;
  writeCapabilities(table, placement, {
    contextTokens: node.contextTokens ?? Number.NaN,
    readsImages: node.readsImages ?? null,
    endpoints: node.endpoints ?? null,
  });
  table.total.inFlight[row] = node.inFlight ?? 0;
  must(table.own[0]).inFlight[row] = node.inFlight ?? 0;
  if (node.cooldownUntilMs !== undefined) {
    table.cooldownUntil[row] = tickOf(node.cooldownUntilMs);
    table.cooldownFrom[row] = tickOf(node.cooldownFromMs ?? 0);
    table.failedAtPoll[row] = (node.goodPollsAtFailure ?? goodPolls) + 1;
    table.isSuspectFailure[row] = node.isSuspect === true ? 1 : 0;
  }
  if (node.trialUntilMs !== undefined) table.trialUntil[row] = tickOf(node.trialUntilMs);
  if (node.backoffUntilMs !== undefined) table.backoffUntil[row] = tickOf(node.backoffUntilMs);
  if (node.slowStartMs !== undefined) table.slowStartMs[row] = node.slowStartMs;
  if (node.warmUntilMs !== undefined) table.warmUntil[row] = tickOf(node.warmUntilMs);
  if (node.isOverloaded === true) table.overloadedAtPoll[row] = goodPolls + 1;
  if (node.misconfiguredUntilMs !== undefined) table.misconfiguredUntil[placement] = tickOf(node.misconfiguredUntilMs);
  for (const [endpoint, untilMs] of Object.entries(node.endpointUntilMs ?? {})) {
    table.endpointUntil[row * ENDPOINTS.length + ENDPOINTS.indexOf(endpoint as Endpoint)] = tickOf(untilMs);
  }
}

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the fleet of this test has no such thing");
  return value;
}
