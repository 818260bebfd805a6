/**
 * The control thread: brings configuration, polls and workers together. What is decided about the fleet is in
 * `fleet.ts`, what runs beside it in `workers.ts` and in the poller; here stands who hears what, and when.
 */

import { randomInt } from "node:crypto";
import {
  announceRoom,
  CELL,
  createEvidenceRing,
  createFleetTable,
  createLimitsTable,
  createPrefixTable,
  type EvidenceRing,
  type FleetTable,
} from "@zml/engine";
import { type Config, formatListen, type ListenAddress, type LogLevel } from "@zml/protocol";
import type { DecisionJson } from "@zml/protocol/admin";
import { AdminPort } from "../admin/admin-port.ts";
import type { Poller } from "../availability/index.ts";
import { type Clock, createClock, monotonicMs } from "../clock.ts";
import { knownSecrets } from "../config/resolve-secrets.ts";
import { namedFiles } from "../config/tls-files.ts";
import { PriceBook } from "../cost/index.ts";
import { type DecisionIds, drawIdTail } from "../decision-id.ts";
import { Discovery } from "../discovery/index.ts";
import { KeptDecisions } from "../evidence/kept/kept-decisions.ts";
import { DecisionSearch } from "../evidence/search-decisions.ts";
import { Store } from "../store/store.ts";
import { MEMORY } from "../store/store-messages.ts";
import { handoverPath } from "../takeover/handover-messages.ts";
import { type HandoverHost, HandoverServer } from "../takeover/handover-server.ts";
import { HISTORY_STEP_MS } from "../telemetry/history.ts";
import { logMetrics } from "../telemetry/log-metrics.ts";
import { PolicyTargets } from "../telemetry/policy-targets.ts";
import { RequestExports } from "../telemetry/request-exports.ts";
import { Telemetry } from "../telemetry/telemetry.ts";
import { type AdminParts, adminSources } from "./admin-view.ts";
import { BacktestJobs } from "./backtest-jobs.ts";
import { FileWatches } from "./config-watch.ts";
import { ACK_DEADLINE_MS, Configuration, type ConfigurationHost } from "./configuration.ts";
import { createPoller } from "./create-poller.ts";
import { currentSamples } from "./current-samples.ts";
import { watchDeadlines } from "./deadline-watch.ts";
import { Fleet } from "./fleet.ts";
import { type FleetReportJson, fleetReport } from "./fleet-report.ts";
import { sampleFleet } from "./fleet-sample.ts";
import type { Gateway, GatewayOptions, GatewayStats } from "./gateway-interface.ts";
import { type GatewayLog, type LogControl, SILENT_CONTROL, SILENT_LOG } from "./gateway-log.ts";
import { KeptState } from "./kept-state.ts";
import { LearnedNumbers } from "./learned-numbers.ts";
import { LearnedTimings } from "./learned-timings.ts";
import { LimitPeriods } from "./limit-periods.ts";
import { LimitRows } from "./limit-rows.ts";
import { LoopDelayWatch } from "./loop-delay.ts";
import { createNameRegistry, type NameRegistry } from "./name-registry.ts";
import { createObjects } from "./objects/create-objects.ts";
import { drainKey, type KeptObjects } from "./objects/kept-objects.ts";
import type { ManagedObjects } from "./objects/managed-objects.ts";
import { PollChanges } from "./poll-changes.ts";
import { probePort } from "./port-probe.ts";
import { readSamples } from "./read-samples.ts";
import { FileReloads, type ReloadResult } from "./reload.ts";
import { workerCount } from "./worker-count.ts";
import { Workers } from "./workers.ts";

/** Polls that have not answered by then don't hold up the start, ms. */
const FIRST_ROUND_MAX_MS = 5_000;
/** What polls find is collected for this long before the workers hear of it: at the start every node reports at once. */
const COLLECT_MS = 20;
/** With 10,000 nodes a commit takes 60 ms; collecting four times as long leaves this thread to the polls meanwhile. */
const COLLECT_SHARE = 4;
/** How often rows of nodes that left are looked at, ms. */
const FREE_ROWS_EVERY_MS = 1_000;

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
  readonly #ids: DecisionIds;
  readonly #names: NameRegistry = createNameRegistry();
  readonly #fleet: Fleet;
  readonly #limitRows: LimitRows;
  readonly #periods: LimitPeriods;
  readonly #prices: PriceBook;
  readonly #discovery: Discovery;
  readonly #learned: LearnedNumbers;
  readonly #timings: LearnedTimings;
  readonly #store: Store;
  readonly #keptDecisions: KeptDecisions;
  readonly #decisions: DecisionSearch;
  readonly #backtests: BacktestJobs;
  /** Null: nothing outlives the process. */
  readonly #kept: KeptState | null;
  readonly #poller: Poller;
  readonly #polls: PollChanges;
  readonly #workers: Workers;
  readonly #admin: AdminPort;
  readonly #telemetry: Telemetry;
  readonly #exports: RequestExports;
  readonly #logControl: LogControl;
  /** The level that the process was started with. */
  readonly #startLevel: LogLevel;
  readonly #loopDelay = new LoopDelayWatch();
  readonly #watches: FileWatches;
  readonly #endings: (() => void)[] = [() => this.#loopDelay.stop(), () => this.#watches.end()];
  readonly #configuration: Configuration;
  readonly #reloads: FileReloads;
  readonly #objects: ManagedObjects;
  readonly #keptObjects: KeptObjects;
  #dataPort = 0;
  #adminPort = 0;
  #collectTimer: NodeJS.Timeout | null = null;
  #lastCommitMs = 0;
  #stopped: Promise<{ interrupted: number; isClean: boolean }> | null = null;
  #isReady = false;
  /** Null: there is no folder in which the next process would look for this one. */
  readonly #handover: HandoverServer | null;
  #isTakenOver = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#log = options.log ?? SILENT_LOG;
    this.#logControl = options.logControl ?? SILENT_CONTROL;
    this.#startLevel = this.#logControl.level;
    this.#configuration = new Configuration(options, this.#host());
    this.#watches = new FileWatches((isFirst) => this.#reloads.fromWatch(isFirst), this.#log);
    const workers = workerCount(options.config.workers, this.#log);
    this.#table = createFleetTable({ nodes: options.config.limits.nodes, workers });
    this.#rings = Array.from({ length: workers }, () => createEvidenceRing(options.config.evidence.ringRecords));
    const clockOriginMs = monotonicMs();
    this.#clock = createClock(clockOriginMs);
    this.#unixOriginMs = Date.now();
    this.#ids = { unixOriginMs: this.#unixOriginMs, tail: drawIdTail() };
    const { storeFolder = MEMORY } = options;
    this.#store = new Store({ folder: storeFolder, log: this.#log });
    this.#kept = storeFolder === MEMORY ? null : this.#createKept(this.#store);
    const { registry, kept, audit } = createObjects({
      configuration: this.#configuration,
      store: this.#store,
      found: () => this.#discovery.foundNodes,
      onDrains: (drained) => this.#setDrained(drained),
      log: this.#log,
    });
    this.#objects = registry;
    this.#keptObjects = kept;
    this.#reloads = new FileReloads({
      configuration: this.#configuration,
      readAgain: options.readAgain,
      isAsRead: options.isAsRead ?? (() => false),
      isStopping: () => this.#stopped !== null,
      audit,
      log: this.#log,
    });
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
    this.#keptDecisions = new KeptDecisions({
      folder: storeFolder,
      rings: this.#rings,
      ids: this.#ids,
      sources: {
        table: this.#table,
        names: this.#names,
        fleet: () => this.#fleet,
        config: () => this.#configuration.config,
      },
      log: this.#log,
    });
    this.#backtests = new BacktestJobs({
      kept: this.#keptDecisions,
      limits: () => this.#configuration.config.evidence.backtests,
    });
    this.#endings.push(() => this.#backtests.stop());
    this.#decisions = new DecisionSearch({
      rings: this.#rings,
      names: this.#names,
      ids: this.#ids,
      kept: this.#keptDecisions,
    });
    this.#periods = new LimitPeriods({
      store: storeFolder === MEMORY ? null : this.#store,
      unixMs: () => Date.now(),
      nowMs: () => this.#clock.nowMs(),
    });
    this.#limitRows = new LimitRows(createLimitsTable({ workers }), (row, owner) =>
      this.#periods.take(this.#limitRows, row, owner),
    );
    this.#fleet = new Fleet(this.#table, this.#names, this.#prices, this.#limitRows);
    this.#learned = new LearnedNumbers({
      table: this.#table,
      fleet: this.#fleet,
      nowMs: () => this.#clock.nowMs(),
      unixOriginMs: this.#unixOriginMs,
    });
    this.#poller = createPoller({
      ...{ table: this.#table, clock: this.#clock, fleet: this.#fleet, log: this.#log },
      onChange: () => this.#commitSoon(),
      onRefused: (row) => this.#workers.nodeDown(row),
    });
    this.#timings = new LearnedTimings({
      names: this.#names,
      timing: this.#poller.timing,
      log: this.#log,
      nowMs: () => this.#clock.nowMs(),
      unixOriginMs: this.#unixOriginMs,
    });
    this.#polls = new PollChanges(this.#poller);
    this.#exports = new RequestExports({
      log: this.#log,
      unixOriginMs: this.#unixOriginMs,
      productVersion: options.productVersion ?? "unknown",
      format: this.#logControl.format,
      writeLines: (text) => this.#logControl.writeLines(text),
    });
    const { prefixes: entries } = options.config.limits;
    this.#workers = new Workers({
      table: this.#table,
      rings: this.#rings,
      limitRows: this.#limitRows,
      prefixes: entries === 0 ? null : createPrefixTable({ entries, key: randomInt(2 ** 32) }),
      clockOriginMs,
      ids: this.#ids,
      seed: options.seed ?? Math.floor(Math.random() * 2 ** 31),
      ...(options.workerUrl === undefined ? {} : { url: options.workerUrl }),
      log: this.#log,
      fullUpdates: () => this.#fleet.fullUpdates(),
      onSamples: (flat) => {
        const samples = readSamples(flat, this.#clock.nowMs());
        this.#telemetry.requests.takeAttempts(samples);
        this.#telemetry.money.takeAttempts(flat);
        this.#poller.takeSamples(currentSamples(samples, { fleet: this.#fleet, names: this.#names }));
      },
      exportCounts: this.#exports.counts.buffer,
      onObserved: (batch) => this.#exports.take(batch),
      onRequests: (requests, dropped) => this.#telemetry.requests.takeRequests(requests, dropped),
    });
    const targets = new PolicyTargets(() => this.#fleet.directory);
    this.#telemetry = new Telemetry({
      names: this.#names,
      targetMs: (policy) => targets.latencyTargetMs(policy),
      seriesMax: () => this.#configuration.config.telemetry.metricsSeriesMax,
      moneyRowsMax: () => this.#configuration.config.telemetry.moneyRowsMax,
      table: this.#table,
      directory: () => this.#fleet.directory,
      fleet: () => this.#report(),
      reloads: () => ({ applied: this.#reloads.applied, refused: this.#reloads.refused }),
      busySeconds: () => this.#workers.busySeconds(),
      beside: () => [...this.#exports.metrics(), ...logMetrics(this.#logControl.leftOut)],
      unixStartMs: this.#unixOriginMs,
      sample: () => sampleFleet({ fleet: this.#fleet, table: this.#table, nowMs: this.#clock.nowMs() }),
      live: {
        nodes: () => this.#fleet.nodes,
        table: this.#table,
        version: () => this.#fleet.version,
        parked: () => Atomics.load(this.#table.cells, CELL.parked),
      },
      keptDecisions: () => this.#keptDecisions.status,
      nowMs: () => this.#clock.nowMs(),
    });
    const { onTakenOver } = options;
    this.#handover =
      onTakenOver === undefined || storeFolder === MEMORY
        ? null
        : new HandoverServer(this.#handoverHost(onTakenOver), handoverPath(storeFolder));
    this.#admin = new AdminPort(adminSources(this.#adminParts()));
  }

  get dataAddress() {
    return { host: this.#configuration.config.data.listen.host, port: this.#dataPort };
  }

  get adminAddress() {
    return { host: this.#configuration.config.admin.listen.host, port: this.#adminPort };
  }

  get dataUrl() {
    return `${this.#configuration.config.data.tls === null ? "http" : "https"}://${formatListen(this.dataAddress)}`;
  }

  get adminUrl() {
    return `http://${formatListen(this.adminAddress)}`;
  }

  async start(): Promise<void> {
    const { predecessor } = this.#options;
    const { data, admin } = await this.#takeAddresses();
    await this.#restore();
    // prices come when they come: nothing waits for them
    this.#prices.configure(this.#configuration.config, this.#configuration.secrets);
    this.#discovery.configure(this.#configuration.config);
    await this.#discovery.firstLooks(this.#configuration.config.discovery.startWaitMs);
    const { nodes } = this.#setConfig();
    this.#tellTelemetry(null);
    this.#commit();
    this.#periods.start(this.#limitRows);
    this.#endings.push(watchDeadlines(this.#table, () => this.#fleet.nodes, this.#clock));
    const sampling = setInterval(() => this.#telemetry.noteStep(), HISTORY_STEP_MS).unref();
    this.#endings.push(() => clearInterval(sampling));
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
    this.#keptDecisions.configure(this.#configuration.config.evidence.keep);
    const taken = await predecessor?.take();
    if (taken !== undefined) this.#adminPort = await this.#admin.listen(admin, taken.admin);
    this.#dataPort = await this.#workers.listen(data, taken?.data);
    if (this.#options.configPath != null) {
      this.#watches.follow([
        this.#options.configPath,
        ...namedFiles(this.#configuration.config, this.#configuration.secrets),
      ]);
    }
    this.#isReady = true;
    await predecessor?.serving();
    await this.#handover?.listen();
  }

  /** Where to listen: of a gateway that runs, what it has; else the admin port is opened at once, as the first thing. */
  async #takeAddresses(): Promise<{ data: ListenAddress; admin: ListenAddress }> {
    const { data, admin } = this.#configuration.config;
    const own = { data: data.listen, admin: admin.listen };
    const { predecessor } = this.#options;
    if (predecessor !== undefined) return predecessor.begin(own);
    await probePort(own.data, "data.listen");
    this.#adminPort = await this.#admin.listen(own.admin);
    return own;
  }

  /** What a takeover by the next process does with this one. */
  #handoverHost(onLeave: () => void): HandoverHost {
    return {
      log: this.#log,
      addresses: () => ({ data: this.dataAddress, admin: this.adminAddress }),
      sockets: () => {
        const { sockets: data } = this.#workers;
        const { socket: admin } = this.#admin;
        return data === null || admin === null || this.#stopped !== null ? null : { data, admin };
      },
      release: async () => {
        await Promise.all([this.#kept?.save(), this.#periods.save()]);
        await this.#store.close();
      },
      takeBack: async () => {
        if (this.#stopped !== null) return;
        this.#store.reopen();
        await this.#kept?.save();
      },
      leave: () => {
        this.#isTakenOver = true;
        void this.#admin.close();
        onLeave();
      },
    };
  }

  /** Ends what a failed start left. */
  async abandon(): Promise<void> {
    this.#options.predecessor?.abandon();
    this.#end();
    await Promise.all([this.#workers.terminate(), this.#poller.stop(), this.#endFeeds(), this.#admin.close()]);
    await this.#keptDecisions.stop();
    await this.#exports.stop();
    await this.#kept?.stop();
    await this.#periods.stop();
    await this.#store.close();
  }

  get objects(): ManagedObjects {
    return this.#objects;
  }

  reload(): Promise<ReloadResult> {
    return this.#reloads.reload();
  }

  stop(graceMs = this.#configuration.config.timeouts.drainMs): Promise<{ interrupted: number; isClean: boolean }> {
    this.#stopped ??= this.#stop(graceMs);
    return this.#stopped;
  }

  stats(): GatewayStats {
    return {
      workerCrashes: this.#workers.crashes,
      reloads: this.#reloads.applied,
      refusedReloads: this.#reloads.refused,
      fleet: this.#report(),
    };
  }

  metrics(): string {
    return this.#telemetry.page();
  }

  explain(id: string): DecisionJson | null {
    return this.#decisions.findRecent(id);
  }

  #host(): ConfigurationHost {
    const fleet = () => this.#fleet;
    return {
      get version() {
        return fleet().version;
      },
      putInForce: ({ config, secrets }, before) => {
        if (this.#options.configPath != null) {
          this.#watches.follow([this.#options.configPath, ...namedFiles(config, secrets)]);
        }
        this.#discovery.configure(config);
        this.#setConfig();
        this.#tellTelemetry(before.config);
        const warnings = this.#commit();
        this.#admin.applyLimits();
        this.#keptDecisions.configure(config.evidence.keep);
        return { version: this.#fleet.version, warnings };
      },
      waitForVersion: (version, deadlineMs) => this.#workers.waitForVersion(version, deadlineMs),
    };
  }

  #setDrained(drained: ReadonlySet<string>): void {
    this.#fleet.setDrained(({ account, id }) => drained.has(drainKey(account, id)));
    // a node that takes requests again is room for those that wait
    announceRoom(this.#table);
  }

  #adminParts(): AdminParts {
    return {
      kept: this.#kept,
      productVersion: this.#options.productVersion ?? "unknown",
      log: this.#log,
      logControl: this.#logControl,
      unixOriginMs: this.#unixOriginMs,
      clock: this.#clock,
      table: this.#table,
      names: this.#names,
      fleet: this.#fleet,
      workers: this.#workers,
      configuration: this.#configuration,
      objects: this.#objects,
      reloads: this.#reloads,
      prices: this.#prices,
      discovery: this.#discovery,
      telemetry: this.#telemetry,
      store: this.#kept === null ? null : this.#store,
      isReady: () => this.#isReady,
      addresses: () => ({ data: this.dataAddress, admin: this.adminAddress }),
      report: () => this.#report(),
      metrics: () => this.metrics(),
      decisions: this.#decisions,
      backtests: this.#backtests,
      keptDecisions: this.#keptDecisions,
      reload: () => this.reload(),
    };
  }

  #createKept(store: Store): KeptState {
    return new KeptState({
      store,
      log: this.#log,
      nowMs: () => Date.now(),
      retention: () => this.#configuration.config.store,
      exportLearned: () => this.#learned.exportLearned(),
      exportTimings: () => this.#timings.exportTimings(),
    });
  }

  /** Brings back what the last process learned. A store that can't tell costs no more than that. */
  async #restore(): Promise<void> {
    if (this.#kept === null) return;
    await this.#store.open();
    await this.#keptObjects.restore();
    await this.#periods.load();
    this.#learned.importLearned(await this.#kept.loadLearned());
    this.#timings.importTimings(await this.#kept.loadTimings());
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
    this.#poller.configure(this.#configuration.config.health);
    this.#learned.apply();
    this.#timings.apply();
    this.#lastCommitMs = performance.now() - startMs;
    for (const warning of change.warnings) this.#log.warn({}, warning);
    this.#workers.broadcast(change.updates);
    const acknowledged = () => this.#workers.waitForVersion(change.version, ACK_DEADLINE_MS);
    this.#polls.take(change, this.#isReady ? acknowledged : null);
    if (change.updates.length > 0) announceRoom(this.#table);
    return change.warnings;
  }

  #freeRows(): void {
    if (!this.#fleet.isAnyLeaving) return;
    // a node that found no row before may have one now
    if (this.#fleet.collect(this.#workers.ackedVersion) > 0) this.#commitSoon();
  }

  async #stop(graceMs: number): Promise<{ interrupted: number; isClean: boolean }> {
    this.#isReady = false;
    this.#end();
    if (!this.#isTakenOver) this.#handover?.close();
    const drained = await this.#workers.drain(graceMs, this.#isTakenOver);
    await Promise.all([this.#poller.stop(), this.#endFeeds(), this.#admin.close(), this.#exports.stop()]);
    await this.#keptDecisions.stop();
    await this.#kept?.stop();
    await this.#periods.stop();
    await this.#store.close();
    return drained;
  }

  #end(): void {
    if (this.#collectTimer !== null) clearTimeout(this.#collectTimer);
    this.#keptObjects.stop();
    this.#polls.stop();
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
    const { config, secrets } = this.#discovery.effective(this.#configuration.config, this.#configuration.secrets);
    this.#prices.configure(config, secrets);
    // the number of workers that this system can run
    this.#fleet.setConfig({ ...config, workers: this.#table.workers }, secrets);
    return config;
  }

  /** Traces and the log follow the configuration. @param before what was in force; null: nothing. */
  #tellTelemetry(before: Config | null): void {
    const { config, secrets } = this.#configuration.inForce;
    const redacted = knownSecrets(secrets);
    this.#logControl.configure(config.telemetry.log, redacted);
    // a level that somebody set meanwhile stays until the file says another one
    const { level } = config.telemetry.log;
    if (level !== (before?.telemetry.log.level ?? null)) this.#logControl.setLevel(level ?? this.#startLevel);
    this.#exports.configure(config.telemetry, secrets, redacted);
  }

  /** The nodes that sources found changed. */
  #takeNodes(): void {
    if (this.#stopped !== null) return;
    this.#setConfig();
    this.#commitSoon();
  }
}
