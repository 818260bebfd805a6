/**
 * The fleet as configured and as it reports itself, kept in the fleet table and in the directory. Turns a configuration,
 * or what a poll found, into rows, into what the workers must hear and into what the poller must poll. Touches no thread
 * and no socket.
 */

import { isDeepStrictEqual } from "node:util";
import {
  DEFAULT_MAX_IN_FLIGHT,
  type FleetTable,
  forgetSpeeds,
  isRowIdle,
  publish,
  takeModelRow,
  takeNodeRow,
} from "@zml/engine";
import type { Config, EngineName, NodeConfig } from "@zml/protocol";
import type { ReportedModel } from "../availability/adapters/adapter.ts";
import type { NodeSpec } from "../availability/index.ts";
import { type ConfigSecrets, NO_SECRETS } from "../config/resolve-secrets.ts";
import type { WorkerKeys, WorkerNode, WorkerSettings, WorkerUpdate } from "../thread-messages.ts";
import { type CompiledDirectory, compileDirectory, EMPTY_DIRECTORY, type PlacedNode } from "./compile-directory.ts";
import { directoryDelta } from "./directory-delta.ts";
import type { LimitRows } from "./limit-rows.ts";
import type { NameRegistry } from "./name-registry.ts";
import { pollerNode } from "./poller-view.ts";
import { PlacementRows, RowPool } from "./rows.ts";
import { placedModels, servedNames } from "./served-models.ts";
import { servedAccounts } from "./shared-nodes.ts";
import { sliceUpdate, type WorkerChange } from "./update-slices.ts";
import { observeSettings, serverTls, workerKeys, workerNode } from "./worker-view.ts";

/** A node that has a row. */
export interface FleetNode {
  readonly row: number;
  config: NodeConfig;
  /** As configured, else as detected, else null. */
  engine: EngineName | null;
  /** Last list that the node reported; null: none yet. Kept while it is down. */
  reported: readonly ReportedModel[] | null;
  /** True since its first good poll. */
  hasAnswered: boolean;
  /** Models it serves now: caller's name → placement row. */
  placements: ReadonlyMap<string, number>;
  /** Version without it; infinite while it is configured. */
  leftAtVersion: number;
}

/** What a commit did. */
export interface FleetChange {
  /** Messages for each worker, in order; empty when nothing changed. */
  readonly updates: readonly WorkerUpdate[];
  readonly version: number;
  readonly added: readonly NodeSpec[];
  readonly updated: readonly NodeSpec[];
  /** Rows that need no poll any more. */
  readonly removed: readonly number[];
  /** New ones only. */
  readonly warnings: readonly string[];
}

/**
 * Names of models that one node may list over its life: twice what one list may hold. A name is never forgotten (its index
 * stands in records), so that a node that lists others each time would use up those of all nodes.
 */
const LISTED_NAMES_MAX = 2_048;

interface Entry extends FleetNode {
  readonly rows: PlacementRows;
  /** Names that it has listed. */
  readonly listed: Set<string>;
  /** It has listed more than that. */
  isListFull: boolean;
  view: View | null;
}

/** What others were told about a node, and what it was made from: with 10,000 nodes most commits concern a few. */
interface View {
  readonly config: NodeConfig;
  readonly engine: EngineName | null;
  readonly placements: ReadonlyMap<string, number>;
  readonly secrets: ConfigSecrets;
  /** Every account there is. */
  readonly accounts: readonly string[];
  readonly worker: WorkerNode;
  readonly spec: NodeSpec;
}

/** Where prices by reference come from. */
export interface PriceSource {
  /** USD per GPU-hour; NaN: unknown. */
  usdPerGpuHour(key: string): number;
}

const NO_PRICES: PriceSource = { usdPerGpuHour: () => Number.NaN };

export class Fleet {
  readonly #table: FleetTable;
  readonly #names: NameRegistry;
  readonly #prices: PriceSource;
  readonly #limitRows: LimitRows | null;
  readonly #nodeRows: RowPool;
  readonly #placementRows: RowPool;
  /** By identity: id at url, for an account. */
  readonly #entries = new Map<string, Entry>();
  readonly #byRow = new Map<number, Entry>();
  #config: Config | null = null;
  #accounts: readonly string[] = [];
  #secrets: ConfigSecrets = NO_SECRETS;
  #version = 0;
  #directory: CompiledDirectory = EMPTY_DIRECTORY;
  #workerNodes = new Map<number, WorkerNode>();
  #specs = new Map<number, NodeSpec>();
  #settings: WorkerSettings | null = null;
  #keys: WorkerKeys | null = null;
  #warned = new Set<string>();
  #modelRowsTaken = 0;
  #isDrained: (node: Pick<NodeConfig, "account" | "id">) => boolean = () => false;

  constructor(
    table: FleetTable,
    names: NameRegistry,
    prices: PriceSource = NO_PRICES,
    limitRows: LimitRows | null = null,
  ) {
    this.#limitRows = limitRows;
    this.#table = table;
    this.#names = names;
    this.#prices = prices;
    this.#nodeRows = new RowPool(table.nodeRows);
    this.#placementRows = new RowPool(table.placementRows);
  }

  get version(): number {
    return this.#version;
  }

  get directory(): CompiledDirectory {
    return this.#directory;
  }

  /** Nodes that have a row, those that leave included. */
  get nodes(): Iterable<FleetNode> {
    return this.#entries.values();
  }

  /** The node on a row. */
  nodeAt(row: number): FleetNode | undefined {
    return this.#byRow.get(row);
  }

  /** Takes a configuration; `commit` puts it in force. */
  setConfig(config: Config, secrets: ConfigSecrets): void {
    const accounts = config.accounts.map(({ name }) => name);
    // the same list while its names are the same: what is known of each node stands on it
    if (!isDeepStrictEqual(accounts, this.#accounts)) this.#accounts = accounts;
    this.#config = config;
    this.#secrets = secrets;
  }

  /** A poll found these models. */
  noteModels(row: number, models: readonly ReportedModel[]): void {
    const entry = this.#byRow.get(row);
    if (entry === undefined) return;
    entry.reported = models.filter(({ id }) => {
      if (entry.listed.size < LISTED_NAMES_MAX) entry.listed.add(id);
      return entry.listed.has(id);
    });
    entry.isListFull ||= entry.reported.length < models.length;
    entry.hasAnswered = true;
  }

  /** A poll found the engine. */
  noteEngine(row: number, engine: EngineName): void {
    const entry = this.#byRow.get(row);
    if (entry !== undefined && entry.config.engine === null) entry.engine = engine;
  }

  /** A node answered a poll. Returns true the first time. */
  noteAnswer(row: number): boolean {
    const entry = this.#byRow.get(row);
    if (entry === undefined || entry.hasAnswered) return false;
    entry.hasAnswered = true;
    return true;
  }

  /** Writes the prices of these keys into the rows of the nodes that name them: the next decision sees them. */
  writePrices(keys: ReadonlySet<string>): void {
    publish(this.#table, () => {
      for (const { row, config } of this.#entries.values()) {
        if (config.priceKey === null || !keys.has(config.priceKey)) continue;
        this.#table.priceUsdPerHour[row] = this.#priceOf(config);
      }
    });
  }

  /** Takes nodes out of the choice, or back. From the next decision on; those that leave stay out. */
  setDrained(isDrained: (node: Pick<NodeConfig, "account" | "id">) => boolean): void {
    this.#isDrained = isDrained;
    publish(this.#table, () => {
      for (const { row, config, leftAtVersion } of this.#entries.values()) {
        if (leftAtVersion === Number.POSITIVE_INFINITY) this.#table.isDraining[row] = Number(isDrained(config));
      }
    });
  }

  /** Puts everything that was set or noted since the last commit in force, as one version. */
  commit(): FleetChange {
    const config = this.#config;
    if (config === null) throw new Error("the fleet has no configuration yet");
    const warnings: string[] = [];
    const next = this.#version + 1;
    publish(this.#table, () => this.#placeNodes(config, next, warnings));
    const placed = this.#placedNodes(config);
    const directory = compileDirectory(config, placed, this.#names);
    this.#takeModelRows();
    warnings.push(...directory.warnings);
    warnings.push(...(this.#limitRows?.assign(config) ?? []));
    const change = this.#changeFor(config, directory);
    const pollerChange = this.#pollerChange();
    const previous = this.#version;
    const updates = Object.keys(change).length === 0 ? [] : sliceUpdate(change, { version: next, previous });
    if (updates.length > 0) this.#version = next;
    return { updates, version: this.#version, ...pollerChange, warnings: this.#onlyNew(warnings) };
  }

  /** Everything, for a worker that knows nothing. */
  fullUpdates(): WorkerUpdate[] {
    const change: WorkerChange = { nodes: [...this.#workerNodes.values()] };
    const directory = directoryDelta(EMPTY_DIRECTORY, this.#directory);
    if (directory !== null) change.directory = directory;
    if (this.#settings !== null) change.settings = this.#settings;
    if (this.#keys !== null) change.keys = this.#keys;
    return sliceUpdate(change, { version: this.#version, previous: 0 });
  }

  /** True when rows wait for their last request or for an acknowledgment. */
  get isAnyLeaving(): boolean {
    for (const entry of this.#entries.values()) {
      if (entry.leftAtVersion !== Number.POSITIVE_INFINITY || entry.rows.isAnyLeaving) return true;
    }
    return false;
  }

  /**
   * Frees rows of nodes and models that left: only when no request stands on the node and every worker has acknowledged
   * a version without it, so that nobody can book a place there any more.
   *
   * @param ackedVersion the least version over all workers.
   * @returns node rows freed.
   */
  collect(ackedVersion: number): number {
    let freed = 0;
    for (const [key, entry] of this.#entries) {
      const isGone = entry.leftAtVersion <= ackedVersion;
      if (!isGone && !entry.rows.isAnyLeaving) continue;
      if (!isRowIdle(this.#table, entry.row)) continue;
      if (!isGone) {
        entry.rows.collect(this.#placementRows, ackedVersion);
        continue;
      }
      publish(this.#table, () => {
        this.#table.isLive[entry.row] = 0;
      });
      entry.rows.clear(this.#placementRows);
      this.#entries.delete(key);
      this.#byRow.delete(entry.row);
      this.#nodeRows.free(entry.row);
      freed += 1;
    }
    return freed;
  }

  #placeNodes(config: Config, version: number, warnings: string[]): void {
    const table = this.#table;
    const configured = new Set<string>();
    for (const node of config.nodes) {
      const key = identityKey(node);
      configured.add(key);
      const entry = this.#entries.get(key) ?? this.#takeRow(node, warnings);
      if (entry === null) continue;
      this.#configureRow(entry, node);
      const names = servedNames(entry);
      const { placements: before } = entry;
      entry.placements = entry.rows.assign(names, { table, pool: this.#placementRows, version, before });
      if (entry.isListFull && node.models === null) {
        warnings.push(
          `node ${node.id} has listed ${LISTED_NAMES_MAX} names of models, and further ones are left out: list the ` +
            "models to route under its models",
        );
      }
      if (entry.placements.size < names.length) {
        warnings.push(
          `node ${node.id} serves ${names.length} models and there is room for ${entry.placements.size}: ` +
            "list the models to route under its models, or raise limits.nodes",
        );
      }
    }
    for (const [key, entry] of this.#entries) {
      if (configured.has(key) || entry.leftAtVersion !== Number.POSITIVE_INFINITY) continue;
      entry.leftAtVersion = version;
      table.isDraining[entry.row] = 1;
    }
  }

  #takeRow(node: NodeConfig, warnings: string[]): Entry | null {
    const row = this.#nodeRows.take();
    if (row < 0) {
      warnings.push(
        `node ${node.id} has no row yet: all ${this.#table.nodeRows} are taken; it joins when nodes that left have ` +
          "ended their requests, or raise limits.nodes and restart",
      );
      return null;
    }
    takeNodeRow(this.#table, row, {
      family: this.#names.families.register("", node.family),
      identity: this.#names.identities.register(node.url, node.id),
      maxInFlight: node.maxInFlight ?? DEFAULT_MAX_IN_FLIGHT,
      cooldownMs: node.failover.cooldownMs,
      cooldownMaxMs: node.failover.cooldownMaxMs,
      slowStartMs: node.health.slowStartMs,
      priceUsdPerHour: this.#priceOf(node),
    });
    const entry: Entry = {
      row,
      config: node,
      engine: node.engine,
      reported: null,
      hasAnswered: false,
      placements: new Map(),
      leftAtVersion: Number.POSITIVE_INFINITY,
      rows: new PlacementRows(),
      listed: new Set(),
      isListFull: false,
      view: null,
    };
    this.#entries.set(identityKey(node), entry);
    this.#byRow.set(row, entry);
    return entry;
  }

  /** Writes what the configuration says into a row that may have been there before; what was measured stays. */
  #configureRow(entry: Entry, node: NodeConfig): void {
    const { row } = entry;
    const table = this.#table;
    if (node.engine !== entry.config.engine) entry.engine = node.engine;
    if (node.family !== entry.config.family) for (const row of entry.rows.all) forgetSpeeds(table, row);
    if (node.maxInFlight !== null) table.maxInFlight[row] = node.maxInFlight;
    // the next poll puts the engine's own limit here
    else if (entry.config.maxInFlight !== null) table.maxInFlight[row] = DEFAULT_MAX_IN_FLIGHT;
    table.family[row] = this.#names.families.register("", node.family);
    table.cooldownMs[row] = node.failover.cooldownMs;
    table.cooldownMaxMs[row] = Math.max(node.failover.cooldownMs, node.failover.cooldownMaxMs);
    table.slowStartMs[row] = node.health.slowStartMs;
    table.priceUsdPerHour[row] = this.#priceOf(node);
    table.isDraining[row] = Number(this.#isDrained(node));
    entry.config = node;
    entry.leftAtVersion = Number.POSITIVE_INFINITY;
  }

  /** USD per hour of the whole node; NaN: unknown. A stated price counts until the feed has one. */
  #priceOf({ priceKey, usdPerGpuHour, gpus }: NodeConfig): number {
    const fed = priceKey === null ? Number.NaN : this.#prices.usdPerGpuHour(priceKey);
    return (Number.isNaN(fed) ? usdPerGpuHour : fed) * gpus;
  }

  #placedNodes(config: Config): PlacedNode[] {
    const placed: PlacedNode[] = [];
    for (const node of config.nodes) {
      const entry = this.#entries.get(identityKey(node));
      const accounts = servedAccounts(node, this.#accounts);
      if (entry === undefined) {
        // no row: what it serves is unknown until it has one
        placed.push({ row: -1, accounts, family: node.family, models: [], areModelsKnown: false });
        continue;
      }
      placed.push({
        row: entry.row,
        accounts,
        family: node.family,
        models: placedModels(entry),
        areModelsKnown: node.models !== null || entry.hasAnswered,
      });
    }
    return placed;
  }

  #takeModelRows(): void {
    if (this.#names.models.size === this.#modelRowsTaken) return;
    publish(this.#table, () => {
      for (; this.#modelRowsTaken < this.#names.models.size; this.#modelRowsTaken++) {
        takeModelRow(this.#table, this.#modelRowsTaken);
      }
    });
  }

  #configured(): Entry[] {
    return [...this.#entries.values()].filter((entry) => entry.leftAtVersion === Number.POSITIVE_INFINITY);
  }

  #changeFor(config: Config, directory: CompiledDirectory): WorkerChange {
    const change: WorkerChange = {};
    const delta = directoryDelta(this.#directory, directory);
    this.#directory = directory;
    if (delta !== null) change.directory = delta;

    const before = this.#workerNodes;
    this.#workerNodes = new Map(this.#configured().map((entry) => [entry.row, this.#viewOf(entry).worker]));
    const nodes = [...this.#workerNodes.values()].filter((node) => node !== before.get(node.row));
    const removeNodes = [...before.keys()].filter((row) => !this.#workerNodes.has(row));
    if (nodes.length > 0) change.nodes = nodes;
    if (removeNodes.length > 0) change.removeNodes = removeNodes;

    const { data, limits, timeouts, failover, workers } = config;
    const { listen: _, allowUnauthenticated: __, tls, ...portLimits } = data;
    const settings: WorkerSettings = {
      data: portLimits,
      tls: serverTls(tls, this.#secrets),
      limits,
      timeouts,
      failover,
      observe: observeSettings(config.telemetry),
      workers,
    };
    if (!isDeepStrictEqual(settings, this.#settings)) change.settings = settings;
    this.#settings = settings;
    const keys = workerKeys(this.#secrets, this.#limitRows, this.#names);
    if (!isDeepStrictEqual(keys, this.#keys)) change.keys = keys;
    this.#keys = keys;
    return change;
  }

  #pollerChange(): Pick<FleetChange, "added" | "updated" | "removed"> {
    const before = this.#specs;
    this.#specs = new Map(this.#configured().map((entry) => [entry.row, this.#viewOf(entry).spec]));
    const added: NodeSpec[] = [];
    const updated: NodeSpec[] = [];
    for (const [row, spec] of this.#specs) {
      const old = before.get(row);
      if (old === undefined) added.push(spec);
      else if (old !== spec) updated.push(spec);
    }
    return { added, updated, removed: [...before.keys()].filter((row) => !this.#specs.has(row)) };
  }

  /** What others have to know about a node: the very objects of the last time while nothing in them changes. */
  #viewOf(entry: Entry): View {
    const { config, engine, placements, view } = entry;
    const secrets = this.#secrets;
    const accounts = this.#accounts;
    const isSame =
      view !== null &&
      view.config === config &&
      view.engine === engine &&
      view.placements === placements &&
      (view.secrets === secrets || hasSameSecrets(config, view.secrets, secrets)) &&
      view.accounts === accounts;
    if (isSame) return view;
    const worker = workerNode(entry, secrets, this.#names, accounts);
    const spec = pollerNode(entry, secrets, this.#names);
    const next: View = {
      ...{ config, engine, placements, secrets, accounts },
      worker: view !== null && isDeepStrictEqual(view.worker, worker) ? view.worker : worker,
      spec: view !== null && isDeepStrictEqual(view.spec, spec) ? view.spec : spec,
    };
    entry.view = next;
    return next;
  }

  #onlyNew(warnings: readonly string[]): string[] {
    const fresh = warnings.filter((warning) => !this.#warned.has(warning));
    this.#warned = new Set(warnings);
    return fresh;
  }
}

/** Of this node: its key. The files of its TLS are not looked into. */
function hasSameSecrets({ id, tls }: NodeConfig, one: ConfigSecrets, other: ConfigSecrets): boolean {
  const [left, right] = [one.nodes.get(id), other.nodes.get(id)];
  return tls === null && (left === undefined || right === undefined ? left === right : left.equals(right));
}

/** The account is part of it: in-flight requests and figures of one account are not another's. */
function identityKey({ id, url, account }: { id: string; url: string; account: string }): string {
  return JSON.stringify([account, url, id]);
}
