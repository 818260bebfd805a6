/** What one worker works with: its view of the fleet, its pools, its settings. */

import { isDeepStrictEqual } from "node:util";
import {
  type CallerRows,
  createDecision,
  createDirectory,
  createRetryBudget,
  type Decider,
  type Decision,
  type Directory,
  decidedAtMs,
  type EvidenceRing,
  type FleetTable,
  type LimitsTable,
  type PrefixTable,
  type RetryBudget,
  type Settler,
  simpleEstimator,
} from "@zml/engine";
import { CallerKeys } from "./admission/authenticate.ts";
import { ParkedWaiters } from "./admission/parked-waiters.ts";
import { SharedByteBudget } from "./admission/shared-byte-budget.ts";
import { adapterFor } from "./availability/adapters/index.ts";
import { pathOf } from "./availability/url.ts";
import type { Clock } from "./clock.ts";
import { ConnectionCounts } from "./connection-counts.ts";
import { Deadlines } from "./deadlines.ts";
import { type DecisionIds, encodeDecisionId } from "./decision-id.ts";
import { DenseSet } from "./dense-set.ts";
import { type RunningAttempt, Upstream } from "./dispatch/upstream.ts";
import type { OutcomeSamples } from "./failover/outcome-samples.ts";
import type { RequestObserver } from "./telemetry/request-observer.ts";
import type { RequestSamples } from "./telemetry/request-samples.ts";
import type { FromWorker, WorkerKeys, WorkerNode, WorkerSettings } from "./thread-messages.ts";

/** What an operator should know of, from a worker. */
export type Log = (
  level: Extract<FromWorker, { kind: "log" }>["level"],
  message: string,
  fields: Record<string, string | number>,
) => void;

export class DataPlane {
  readonly table: FleetTable;
  readonly worker: number;
  readonly ring: EvidenceRing;
  readonly limits: LimitsTable;
  readonly clock: Clock;
  readonly directory: Directory = createDirectory();
  readonly deadlines = new Deadlines();
  readonly decider: Decider;
  /** The same for requests that are traced: notes `candidatesAtMs`. */
  readonly tracedDecider: Decider;
  /** When the last decision of a traced request had its candidates, engine clock ms. */
  candidatesAtMs = Number.NaN;
  /** Scratch of the running decision; valid until the next one. */
  readonly decision: Decision = createDecision();
  readonly parked: ParkedWaiters;
  readonly bodyBudget: SharedByteBudget;
  readonly samples: OutcomeSamples;
  /** Open connections of callers, all workers. */
  readonly connections: ConnectionCounts;
  readonly requests: RequestSamples;
  readonly observer: RequestObserver;
  readonly log: Log;
  settings: WorkerSettings;
  /** Record of the last decision; -1: none yet. Valid as long as `decision`. */
  lastSequence = -1;
  settler: Settler;
  isDraining = false;
  #keys = new CallerKeys({ pepper: new Uint8Array(0), list: [], accountRows: {} });
  #budget: RetryBudget;
  readonly #upstreams = new Map<number, Upstream>();
  /** By row, the node that has it or had it last, and what runs there: that outlives a pool. */
  readonly #running = new Map<number, { id: string; running: DenseSet<RunningAttempt> }>();
  readonly #unpriced = new Set<string>();
  readonly #ids: DecisionIds;
  #draw: number;

  constructor(options: {
    table: FleetTable;
    worker: number;
    ring: EvidenceRing;
    limits: LimitsTable;
    prefixes: PrefixTable | null;
    clock: Clock;
    samples: OutcomeSamples;
    connections: SharedArrayBuffer;
    requests: RequestSamples;
    observer: RequestObserver;
    log: Log;
    settings: WorkerSettings;
    seed: number;
    ids: DecisionIds;
  }) {
    const { table, worker, settings } = options;
    this.table = table;
    this.worker = worker;
    this.ring = options.ring;
    this.limits = options.limits;
    this.clock = options.clock;
    this.#ids = options.ids;
    this.samples = options.samples;
    this.connections = new ConnectionCounts(options.connections, worker);
    this.requests = options.requests;
    this.observer = options.observer;
    this.log = options.log;
    this.settings = settings;
    const { prefixes } = options;
    const estimator = simpleEstimator;
    this.decider = { table, worker, directory: this.directory, estimator, prefixes, onCandidates: null };
    const noteTime = (): void => {
      this.candidatesAtMs = this.clock.nowMs();
    };
    this.tracedDecider = { ...this.decider, onCandidates: noteTime };
    this.#budget = createRetryBudget(settings.failover.retryBudget, settings.workers);
    this.settler = this.#makeSettler();
    this.parked = new ParkedWaiters(table, worker, queueLimitsOf(settings));
    this.bodyBudget = new SharedByteBudget(table, worker, settings.limits.bodyBytesTotal);
    this.#draw = options.seed >>> 0;
  }

  get budget(): RetryBudget {
    return this.#budget;
  }

  get keys(): CallerKeys {
    return this.#keys;
  }

  setKeys(keys: WorkerKeys): void {
    this.#keys = new CallerKeys(keys);
  }

  /** New limits hold for new requests. */
  setSettings(settings: WorkerSettings): void {
    const isBudgetChanged = settings.failover.retryBudget !== this.settings.failover.retryBudget;
    this.settings = settings;
    this.observer.setSettings(settings.observe);
    if (isBudgetChanged) this.#budget = createRetryBudget(settings.failover.retryBudget, settings.workers);
    this.settler = this.#makeSettler();
    this.parked.setLimits(queueLimitsOf(settings));
    this.bodyBudget.setLimit(settings.limits.bodyBytesTotal);
  }

  /** A node that is new or changed. Its running attempts stay on the pool that they are on. */
  setNode(node: WorkerNode): void {
    const { classify, capabilities } = adapterFor(node.engine);
    const upstreamNode = {
      node,
      habits: { classify, refusesUnknownFields: capabilities(null).refusesUnknownFields },
      pathOf: (path: string) => pathOf(node.url, path),
    };
    const old = this.#upstreams.get(node.row);
    if (old !== undefined && isSameDestination(old.node, node)) {
      old.update(upstreamNode);
      return;
    }
    old?.close();
    const known = this.#running.get(node.row);
    const running = known?.id === node.id ? known.running : new DenseSet<RunningAttempt>();
    this.#running.set(node.row, { id: node.id, running });
    this.#upstreams.set(node.row, new Upstream(upstreamNode, this.settings.limits.headerBytes, running));
  }

  /** A node that left. What runs there goes on. */
  removeNode(row: number): void {
    this.#upstreams.get(row)?.close();
    this.#upstreams.delete(row);
  }

  /** The node refuses connections: fails what runs there and has not been committed, on whichever pool it is. */
  nodeDown(row: number): void {
    for (const attempt of this.#running.get(row)?.running.snapshot() ?? []) attempt.nodeDown();
  }

  /** A node without a known price served a caller who has a budget: told once for each node, counted as 0. */
  noteUnpriced({ key, account }: CallerRows, node: string): void {
    const { dayBudgetUsd, monthBudgetUsd } = this.limits;
    const hasBudget = (row: number) => (dayBudgetUsd[row] as number) >= 0 || (monthBudgetUsd[row] as number) >= 0;
    if (!(hasBudget(key) || hasBudget(account)) || this.#unpriced.has(node)) return;
    if (this.#unpriced.size < UNPRICED_MAX) this.#unpriced.add(node);
    this.log("warn", "a node without a known price serves callers who have a budget: it counts as free", { node });
  }

  /** The node of a row; undefined for one that left between decision and dispatch. */
  upstreamOf(row: number): Upstream | undefined {
    return this.#upstreams.get(row);
  }

  destroy(): void {
    for (const upstream of this.#upstreams.values()) upstream.close();
  }

  /** Id that leads to a decision's record. */
  decisionId(sequence: number): string {
    const { unixOriginMs, tail } = this.#ids;
    const unixMs = unixOriginMs + decidedAtMs(this.ring, sequence);
    return encodeDecisionId({ worker: this.worker, sequence, unixMs }, tail);
  }

  /** Next draw in [0, 1): mulberry32, seeded per worker so that runs can be repeated. */
  draw(): number {
    this.#draw = (this.#draw + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#draw ^ (this.#draw >>> 15), 1 | this.#draw);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  #makeSettler(): Settler {
    const { maxAttempts, windowMs } = this.settings.failover;
    return { table: this.table, worker: this.worker, limits: { maxAttempts, windowMs }, budget: this.#budget };
  }
}

/** Nodes whose lack of a price is remembered; beyond, a line may come again. */
const UNPRICED_MAX = 1024;

function queueLimitsOf({ limits }: WorkerSettings): { requests: number; bytes: number } {
  return { requests: limits.queueRequests, bytes: limits.queueBytes };
}

/** True when a pool made for one serves the other: only facts that are looked at per attempt differ. */
function isSameDestination(old: WorkerNode, next: WorkerNode): boolean {
  return (
    old.url === next.url &&
    old.timeouts.connectMs === next.timeouts.connectMs &&
    old.maxConnections === next.maxConnections &&
    old.keepAliveMs === next.keepAliveMs &&
    old.maxConnectionAgeMs === next.maxConnectionAgeMs &&
    old.serverName === next.serverName &&
    old.allowsLinkLocal === next.allowsLinkLocal &&
    old.httpVersion === next.httpVersion &&
    isDeepStrictEqual(old.http2, next.http2) &&
    isDeepStrictEqual(old.tls, next.tls)
  );
}
