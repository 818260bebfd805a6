/**
 * The control thread: brings configuration, polls and workers together. What is decided about the fleet is in
 * `fleet.ts`, what runs beside it in `workers.ts` and in the poller; here stands who hears what, and when.
 */

import {
  announceRoom,
  CELL,
  createEvidenceRing,
  createFleetTable,
  type EvidenceRing,
  type FleetTable,
} from "@zml/engine";
import { type Config, formatListen } from "@zml/protocol";
import { Poller } from "../availability/index.ts";
import { type Clock, createClock, monotonicMs } from "../clock.ts";
import { formatProblems } from "../config/config-problem.ts";
import { diffConfig } from "../config/diff-config.ts";
import type { ReadConfigResult } from "../config/read-config.ts";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import { hasSameFiles, namedFiles } from "../config/tls-files.ts";
import { PriceBook, pricesReport } from "../cost/index.ts";
import { Discovery, discoveryReport } from "../discovery/index.ts";
import { type DecisionJson, findDecision } from "../evidence/find-decision.ts";
import { Store } from "../store/store.ts";
import { MEMORY } from "../store/store-messages.ts";
import { Telemetry } from "../telemetry/telemetry.ts";
import { AdminServer } from "./admin-server.ts";
import { FileWatches } from "./config-watch.ts";
import { currentSamples } from "./current-samples.ts";
import { watchDeadlines } from "./deadline-watch.ts";
import { Fleet } from "./fleet.ts";
import { type FleetReportJson, fleetReport } from "./fleet-report.ts";
import { type GatewayLog, SILENT_LOG } from "./gateway-log.ts";
import { KeptState } from "./kept-state.ts";
import { LearnedNumbers } from "./learned-numbers.ts";
import { LoopDelayWatch } from "./loop-delay.ts";
import { createNameRegistry, type NameRegistry } from "./name-registry.ts";
import { probePort } from "./port-probe.ts";
import { readSamples } from "./read-samples.ts";
import { workerCount } from "./worker-count.ts";
import { workerKeys } from "./worker-view.ts";
import { Workers } from "./workers.ts";

/** Polls that have not answered by then don't hold up the start, ms. */
const FIRST_ROUND_MAX_MS = 5_000;
/** What polls find is collected for this long before the workers hear of it: at the start every node reports at once. */
const COLLECT_MS = 20;
/** With 10,000 nodes a commit takes 60 ms; collecting four times as long leaves this thread to the polls meanwhile. */
const COLLECT_SHARE = 4;
/** How often rows of nodes that left are looked at, ms. */
const FREE_ROWS_EVERY_MS = 1_000;
/** An API write and a reload answer after this long without every acknowledgment, ms. */
const ACK_DEADLINE_MS = 5_000;

export interface GatewayOptions {
  readonly config: Config;
  readonly secrets: ConfigSecrets;
  /** Default: silent. */
  readonly log?: GatewayLog;
  /** Reads the configuration anew; absent: `reload` refuses. */
  readonly readAgain?: () => ReadConfigResult | Promise<ReadConfigResult>;
  /** Folder of the store. Absent or ":memory:": nothing outlives the process. */
  readonly storeFolder?: string;
  /** Watched for changes; null or absent: not watched. */
  readonly configPath?: string | null;
  /** Entry of the workers; default: the product's. */
  readonly workerUrl?: URL;
  /** Seed of all draws; worker `i` gets `seed + i`. Default: random. */
  readonly seed?: number;
  /** Deadline of the first polls, ms. Default: the longest `health.timeout_ms`, at most 5,000. */
  readonly firstRoundMs?: number;
}

/** What became of a reload. */
export type ReloadResult =
  | {
      readonly kind: "applied";
      readonly version: number;
      /** False when a worker had not acknowledged it in time; it will. */
      readonly isAcknowledged: boolean;
      readonly warnings: readonly string[];
    }
  | { readonly kind: "unchanged" }
  | { readonly kind: "refused"; readonly problems: readonly string[] };

export interface GatewayStats {
  readonly workerCrashes: number;
  readonly reloads: number;
  readonly refusedReloads: number;
  readonly fleet: FleetReportJson;
}

/** A running gateway. */
export interface Gateway {
  readonly dataAddress: { readonly host: string; readonly port: number };
  readonly adminAddress: { readonly host: string; readonly port: number };
  /** Base URLs without a slash at their end. */
  readonly dataUrl: string;
  readonly adminUrl: string;
  /** Reads the configuration again and applies it as one version, or refuses it as a whole. One at a time. */
  reload(): Promise<ReloadResult>;
  /** Drains and ends everything. `graceMs` default: `timeouts.drain_ms`. Later calls give the first one's result. */
  stop(graceMs?: number): Promise<{ interrupted: number; isClean: boolean }>;
  stats(): GatewayStats;
  /** The page that Prometheus scrapes. */
  metrics(): string;
  /** The story of a decision; null: no such record. */
  explain(id: string): DecisionJson | null;
}

/**
 * Starts a gateway in this process. Resolves when the workers listen and the admin port answers.
 *
 * @throws StartError when it can't start; the text says what to do. Nothing of it runs on then.
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const gateway = new RunningGateway(options);
  try {
    await gateway.start();
  } catch (error) {
    await gateway.abandon();
    throw error;
  }
  return gateway;
}

class RunningGateway implements Gateway {
  readonly #options: GatewayOptions;
  readonly #log: GatewayLog;
  readonly #table: FleetTable;
  readonly #rings: readonly EvidenceRing[];
  readonly #clock: Clock;
  /** Wall clock at engine time 0, Unix ms. */
  readonly #unixOriginMs: number;
  readonly #names: NameRegistry = createNameRegistry();
  readonly #fleet: Fleet;
  readonly #prices: PriceBook;
  readonly #discovery: Discovery;
  readonly #learned: LearnedNumbers;
  /** Null: nothing outlives the process. */
  readonly #store: Store | null;
  readonly #kept: KeptState | null;
  readonly #poller: Poller;
  readonly #workers: Workers;
  readonly #admin: AdminServer;
  readonly #telemetry: Telemetry;
  readonly #loopDelay = new LoopDelayWatch();
  readonly #watches: FileWatches;
  readonly #endings: (() => void)[] = [() => this.#loopDelay.stop(), () => this.#watches.end()];
  #config: Config;
  #secrets: ConfigSecrets;
  #dataPort = 0;
  #adminPort = 0;
  #collectTimer: NodeJS.Timeout | null = null;
  #lastCommitMs = 0;
  #lastReload: Promise<unknown> = Promise.resolve();
  #reloads = 0;
  #refusedReloads = 0;
  #stopped: Promise<{ interrupted: number; isClean: boolean }> | null = null;
  #isReady = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#log = options.log ?? SILENT_LOG;
    this.#config = options.config;
    this.#secrets = options.secrets;
    this.#watches = new FileWatches((isFirst) => this.#reloadFromWatch(isFirst), this.#log);
    const workers = workerCount(options.config.workers, this.#log);
    this.#table = createFleetTable({ nodes: options.config.limits.nodes, workers });
    this.#rings = Array.from({ length: workers }, () => createEvidenceRing(options.config.evidence.ringRecords));
    const clockOriginMs = monotonicMs();
    this.#clock = createClock(clockOriginMs);
    this.#unixOriginMs = Date.now();
    const { storeFolder } = options;
    const hasStore = storeFolder !== undefined && storeFolder !== MEMORY;
    this.#store = hasStore ? new Store({ folder: storeFolder, log: this.#log }) : null;
    this.#kept = this.#store === null ? null : this.#createKept(this.#store);
    this.#prices = new PriceBook({
      log: this.#log,
      clock: { nowMs: () => this.#clock.nowMs(), unixMs: () => Date.now(), random: () => Math.random() },
      ...(this.#kept === null ? {} : { history: this.#kept }),
      onChange: (keys) => this.#fleet.writePrices(keys),
    });
    this.#discovery = new Discovery({
      log: this.#log,
      clock: { nowMs: () => this.#clock.nowMs(), random: () => Math.random() },
      onChange: () => this.#takeNodes(),
    });
    this.#fleet = new Fleet(this.#table, this.#names, this.#prices);
    this.#learned = new LearnedNumbers({
      table: this.#table,
      fleet: this.#fleet,
      nowMs: () => this.#clock.nowMs(),
      unixOriginMs: this.#unixOriginMs,
    });
    this.#poller = this.#createPoller();
    this.#workers = new Workers({
      table: this.#table,
      rings: this.#rings,
      clockOriginMs,
      seed: options.seed ?? Math.floor(Math.random() * 2 ** 31),
      ...(options.workerUrl === undefined ? {} : { url: options.workerUrl }),
      log: this.#log,
      fullUpdates: () => this.#fleet.fullUpdates(),
      onSamples: (flat) => {
        const samples = readSamples(flat, this.#clock.nowMs());
        this.#telemetry.requests.takeAttempts(samples);
        this.#poller.takeSamples(currentSamples(samples, { fleet: this.#fleet, names: this.#names }));
      },
      onRequests: (requests, dropped) => this.#telemetry.requests.takeRequests(requests, dropped),
    });
    this.#telemetry = new Telemetry({
      names: this.#names,
      seriesMax: () => this.#config.telemetry.metricsSeriesMax,
      fleet: () => this.#report(),
      reloads: () => ({ applied: this.#reloads, refused: this.#refusedReloads }),
      busySeconds: () => this.#workers.busySeconds(),
      unixStartMs: this.#unixOriginMs,
    });
    this.#admin = new AdminServer({
      findDecision: (id) => this.explain(id),
      fleet: () => this.#report(),
      prices: () => pricesReport(this.#prices, this.#clock.nowMs()),
      discovery: () => discoveryReport(this.#discovery, this.#clock.nowMs()),
      isReady: () => this.#isReady && this.#workers.listening > 0,
      access: () => ({
        keys: workerKeys(this.#secrets),
        allowUnauthenticated: this.#config.admin.allowUnauthenticated,
      }),
      log: this.#log,
    });
  }

  get dataAddress() {
    return { host: this.#config.data.listen.host, port: this.#dataPort };
  }

  get adminAddress() {
    return { host: this.#config.admin.listen.host, port: this.#adminPort };
  }

  get dataUrl() {
    return `${this.#config.data.tls === null ? "http" : "https"}://${formatListen(this.dataAddress)}`;
  }

  get adminUrl() {
    return `http://${formatListen(this.adminAddress)}`;
  }

  async start(): Promise<void> {
    const { data, admin } = this.#config;
    await probePort(data.listen, "data.listen");
    this.#adminPort = await this.#admin.listen(admin.listen);
    await this.#restore();
    // prices come when they come: nothing waits for them
    this.#prices.configure(this.#config, this.#secrets);
    this.#discovery.configure(this.#config);
    await this.#discovery.firstLooks(this.#config.discovery.startWaitMs);
    const { nodes } = this.#setConfig();
    this.#commit();
    this.#endings.push(watchDeadlines(this.#table, () => this.#fleet.nodes, this.#clock));
    const freeing = setInterval(() => this.#freeRows(), FREE_ROWS_EVERY_MS);
    freeing.unref();
    this.#endings.push(() => clearInterval(freeing));
    const firstRoundMs =
      this.#options.firstRoundMs ??
      Math.min(FIRST_ROUND_MAX_MS, Math.max(0, ...nodes.map(({ health }) => health.timeoutMs)));
    await Promise.all([this.#workers.start(), this.#poller.firstRound(firstRoundMs)]);
    // what the first polls found is in force before the first request comes
    this.#commit();
    await this.#workers.waitForVersion(this.#fleet.version, ACK_DEADLINE_MS);
    this.#dataPort = await this.#workers.listen(data.listen);
    if (this.#options.configPath != null) {
      this.#watches.follow([this.#options.configPath, ...namedFiles(this.#config, this.#secrets)]);
    }
    this.#isReady = true;
  }

  /** Ends what a failed start left. */
  async abandon(): Promise<void> {
    this.#end();
    await Promise.all([this.#workers.terminate(), this.#poller.stop(), this.#endFeeds(), this.#admin.close()]);
    await this.#kept?.stop();
    await this.#store?.close();
  }

  reload({ isFirstLook = false } = {}): Promise<ReloadResult> {
    const result = this.#lastReload.then(() => this.#reload(isFirstLook));
    this.#lastReload = result.catch(() => undefined);
    return result;
  }

  stop(graceMs = this.#config.timeouts.drainMs): Promise<{ interrupted: number; isClean: boolean }> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  stats(): GatewayStats {
    return {
      workerCrashes: this.#workers.crashes,
      reloads: this.#reloads,
      refusedReloads: this.#refusedReloads,
      fleet: this.#report(),
    };
  }

  metrics(): string {
    return this.#telemetry.page();
  }

  explain(id: string): DecisionJson | null {
    return findDecision(id, { rings: this.#rings, names: this.#names, unixOriginMs: this.#unixOriginMs });
  }

  #createKept(store: Store): KeptState {
    return new KeptState({
      store,
      log: this.#log,
      nowMs: () => Date.now(),
      retention: () => this.#config.store,
      exportLearned: () => this.#learned.exportLearned(),
    });
  }

  /** Brings back what the last process learned. A store that can't tell costs no more than that. */
  async #restore(): Promise<void> {
    if (this.#store === null || this.#kept === null) return;
    await this.#store.open();
    this.#learned.importLearned(await this.#kept.loadLearned());
  }

  #createPoller(): Poller {
    return new Poller({
      table: this.#table,
      clock: this.#clock,
      onModels: (row, models) => {
        this.#fleet.noteModels(row, models);
        this.#commitSoon();
      },
      onEngine: (row, engine) => {
        this.#fleet.noteEngine(row, engine);
        this.#commitSoon();
      },
      onReading: (row) => {
        if (this.#fleet.noteAnswer(row)) this.#commitSoon();
      },
      onDown: (row, cause) => {
        const { id, url } = this.#fleet.nodeAt(row)?.config ?? {};
        this.#log.warn({ node: id, url, cause }, "a node is down");
        if (cause === "refused") this.#workers.nodeDown(row);
      },
      onError: (row, error) => {
        const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
        this.#log.error({ node: this.#fleet.nodeAt(row)?.config.id, error: shown }, "a poll failed inside the gateway");
      },
      onKeptIn: (row, cause) => {
        const { id, url } = this.#fleet.nodeAt(row)?.config ?? {};
        const words = "polls of a node fail, and it stays in: health.max_ejected_share of a model's nodes are out";
        this.#log.warn({ node: id, url, cause }, words);
      },
      onUp: (row) => this.#log.info({ node: this.#fleet.nodeAt(row)?.config.id }, "a node is up"),
    });
  }

  #commitSoon(): void {
    if (this.#stopped !== null) return;
    this.#collectTimer ??= setTimeout(() => this.#commit(), COLLECT_MS + COLLECT_SHARE * this.#lastCommitMs);
  }

  /** Puts in force what was noted, and tells everyone whom it concerns. */
  #commit(): readonly string[] {
    if (this.#collectTimer !== null) clearTimeout(this.#collectTimer);
    this.#collectTimer = null;
    if (this.#stopped !== null) return [];
    const startMs = performance.now();
    const change = this.#fleet.commit();
    this.#poller.configure(this.#config.health);
    this.#learned.apply();
    this.#lastCommitMs = performance.now() - startMs;
    for (const warning of change.warnings) this.#log.warn({}, warning);
    this.#workers.broadcast(change.updates);
    for (const row of change.removed) this.#poller.removeNode(row);
    for (const spec of change.updated) this.#poller.updateNode(spec);
    for (const spec of change.added) this.#poller.addNode(spec);
    if (change.updates.length > 0) announceRoom(this.#table);
    return change.warnings;
  }

  #freeRows(): void {
    if (!this.#fleet.isAnyLeaving) return;
    // a node that found no row before may have one now
    if (this.#fleet.collect(this.#workers.ackedVersion) > 0) this.#commitSoon();
  }

  async #reloadFromWatch(isFirstLook: boolean): Promise<void> {
    await this.reload({ isFirstLook }).catch((error: unknown) => {
      this.#log.error({ error: error instanceof Error ? error.message : String(error) }, "the reload failed");
    });
  }

  async #reload(isFirstLook: boolean): Promise<ReloadResult> {
    if (this.#stopped !== null) return this.#refuse(["the gateway is stopping: start it again with the new file"]);
    const { readAgain } = this.#options;
    if (readAgain === undefined) return this.#refuse(["this gateway was started without a file to read again"]);
    const read = await readAgain();
    if (read.config === undefined) return this.#refuse(read.errors.map((problem) => formatProblems([problem])));
    const diff = diffConfig(this.#config, read.config);
    if (diff.needsRestart.length > 0) return this.#refuse(diff.needsRestart);
    if (diff.isEmpty && hasSameFiles(this.#secrets, read.secrets)) {
      // nobody asked for the first look at a watched file: a line at each start would say that somebody did
      if (!isFirstLook) this.#log.info({}, "the configuration was read again: nothing changed");
      return { kind: "unchanged" };
    }
    this.#config = read.config;
    this.#secrets = read.secrets;
    if (this.#options.configPath != null) {
      this.#watches.follow([this.#options.configPath, ...namedFiles(read.config, read.secrets)]);
    }
    this.#discovery.configure(read.config);
    this.#setConfig();
    const warnings = [...read.warnings.map((problem) => formatProblems([problem])), ...this.#commit()];
    const { version } = this.#fleet;
    this.#reloads += 1;
    for (const warning of read.warnings) this.#log.warn({}, formatProblems([warning]));
    const isAcknowledged = await this.#workers.waitForVersion(version, ACK_DEADLINE_MS);
    const count = (list: { added: readonly unknown[]; removed: readonly unknown[]; changed: readonly unknown[] }) =>
      `+${list.added.length} -${list.removed.length} ~${list.changed.length}`;
    const fields = { version, nodes: count(diff.nodes), policies: count(diff.policies), models: count(diff.models) };
    this.#log.info({ ...fields, isAcknowledged }, "the configuration was applied");
    return { kind: "applied", version, isAcknowledged, warnings };
  }

  #refuse(problems: readonly string[]): ReloadResult {
    this.#refusedReloads += 1;
    for (const problem of problems)
      this.#log.error({ problem }, "the new configuration is refused, the old one runs on");
    return { kind: "refused", problems };
  }

  async #stop(graceMs: number): Promise<{ interrupted: number; isClean: boolean }> {
    this.#isReady = false;
    this.#end();
    const drained = await this.#workers.drain(graceMs);
    await Promise.all([this.#poller.stop(), this.#endFeeds(), this.#admin.close()]);
    await this.#kept?.stop();
    await this.#store?.close();
    return drained;
  }

  #end(): void {
    if (this.#collectTimer !== null) clearTimeout(this.#collectTimer);
    for (const end of this.#endings.splice(0)) end();
  }

  #report(): FleetReportJson {
    return fleetReport({
      fleet: this.#fleet,
      table: this.#table,
      priceAgeMs: (key) => this.#prices.ageMs(key),
      factsOf: (row) => this.#poller.factsOf(row),
      nowMs: this.#clock.nowMs(),
      unixOriginMs: this.#unixOriginMs,
      parked: Atomics.load(this.#table.cells, CELL.parked),
      listeningWorkers: this.#workers.listening,
      workerCrashes: this.#workers.crashes,
      controlDelay: this.#loopDelay.read(),
    });
  }

  async #endFeeds(): Promise<void> {
    await Promise.all([this.#prices.stop(), this.#discovery.stop()]);
  }

  /** Puts together what is configured and what was found, for the fleet and for prices. A commit puts it in force. */
  #setConfig(): Config {
    const { config, secrets } = this.#discovery.effective(this.#config, this.#secrets);
    this.#prices.configure(config, secrets);
    // the number of workers that this system can run
    this.#fleet.setConfig({ ...config, workers: this.#table.workers }, secrets);
    return config;
  }

  /** The nodes that sources found changed. */
  #takeNodes(): void {
    if (this.#stopped !== null) return;
    this.#setConfig();
    this.#commitSoon();
  }
}
