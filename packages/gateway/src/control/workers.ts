/**
 * The data-plane threads: starts them, tells them what changed, counts their acknowledgments, and starts one again that
 * died, with its bookings taken out of the fleet table first.
 */

import { Worker } from "node:worker_threads";
import {
  announceRoom,
  type EvidenceRing,
  type FleetTable,
  type PrefixTable,
  removeWorkerLimits,
  removeWorkerShare,
} from "@zml/engine";
import { formatListen, type ListenAddress } from "@zml/protocol";
import { createConnectionCounts, forgetConnections } from "../connection-counts.ts";
import type { DecisionIds } from "../decision-id.ts";
import { ExportCounts } from "../telemetry/export-counts.ts";
import type { RequestBatch } from "../telemetry/request-observer.ts";
import type { FromWorker, ToWorker, WorkerStart, WorkerUpdate } from "../thread-messages.ts";
import type { GatewayLog } from "./gateway-log.ts";
import type { LimitRows } from "./limit-rows.ts";
import { StartError } from "./start-error.ts";

/** A worker that has not acknowledged its first state after this long is broken, ms. */
const START_DEADLINE_MS = 20_000;
/**
 * Wait before a worker that died soon after its start is started again, and before one that could not listen tries
 * again: doubles with each time, ms.
 */
const RETRY_WAIT_MIN_MS = 100;
const RETRY_WAIT_MAX_MS = 10_000;
/** A worker that lived this long died of something new, ms. */
const STEADY_MS = 60_000;
/**
 * Room for new objects in a worker, MB. V8's own choice grows it to 120 MB under load and never gives that back. In turn
 * with it, 32, 64 and 96 cost the same CPU per request, 12 cost more; a worker under the same load holds 80 MB less.
 */
const YOUNG_GENERATION_MB = 32;
/** What a draining worker gets beyond its requests' grace to say that it has drained, ms. */
const DRAIN_MARGIN_MS = 2_000;

export interface WorkersOptions {
  readonly table: FleetTable;
  /** One ring per worker. */
  readonly rings: readonly EvidenceRing[];
  readonly limitRows: LimitRows;
  /** Null: no node is preferred for what it has cached. */
  readonly prefixes: PrefixTable | null;
  readonly clockOriginMs: number;
  /** What the ids of decisions are made with. */
  readonly ids: DecisionIds;
  readonly seed: number;
  /** Entry of the worker; default: the product's. */
  readonly url?: URL;
  readonly log: GatewayLog;
  /** Everything that a worker has to know, as the messages of its first version. */
  readonly fullUpdates: () => readonly WorkerUpdate[];
  readonly onSamples: (samples: Float64Array) => void;
  readonly onRequests?: (requests: Float64Array, dropped: number) => void;
  readonly onObserved?: (batch: RequestBatch) => void;
  /** See `telemetry/export-counts.ts`. */
  readonly exportCounts?: SharedArrayBuffer;
  /** An acknowledgment came, or a worker that owed one died: `ackedVersion` may have moved. */
  readonly onAck?: () => void;
}

interface Slot {
  readonly index: number;
  worker: Worker | null;
  startedAtMs: number;
  /** Version that it said is in force; -1: none yet. */
  appliedVersion: number;
  /** Last version that was sent to it as its full state: it never knew an older one. */
  floorVersion: number;
  isListening: boolean;
  /** Its listening socket. */
  fd: number | null;
  deathsInARow: number;
  /** Times that it could not listen since it was last started. */
  failedListens: number;
  /** Until it is started again, or tries again to listen. */
  retryTimer: NodeJS.Timeout | null;
  interrupted: number | null;
  lastError: string;
  /** An update was sent, and is not taken in yet. */
  isTaking: boolean;
  /** What comes after it, in order. */
  readonly queue: ToWorker[];
}

export class Workers {
  readonly #options: WorkersOptions;
  readonly #slots: Slot[];
  readonly #waiters = new Set<() => void>();
  readonly #connections: SharedArrayBuffer;
  readonly #exportCounts: SharedArrayBuffer;
  #address: ListenAddress | null = null;
  #isStopping = false;
  /** From then on a worker that dies is started again; before, its death ends the start. */
  #isStarted = false;
  #crashes = 0;

  constructor(options: WorkersOptions) {
    this.#options = options;
    this.#exportCounts = options.exportCounts ?? new ExportCounts().buffer;
    this.#connections = createConnectionCounts(options.rings.length, Math.random);
    this.#slots = options.rings.map((_, index) => ({
      index,
      worker: null,
      startedAtMs: 0,
      appliedVersion: -1,
      floorVersion: -1,
      isListening: false,
      fd: null,
      deathsInARow: 0,
      failedListens: 0,
      retryTimer: null,
      interrupted: null,
      lastError: "",
      isTaking: false,
      queue: [],
    }));
  }

  /** Workers that died since the start. */
  get crashes(): number {
    return this.#crashes;
  }

  /** Time that each thread was at work since its start, s; a thread that was started again starts at 0. */
  busySeconds(): { readonly worker: number; readonly seconds: number }[] {
    return this.#slots.flatMap(({ index, worker }) =>
      worker === null ? [] : [{ worker: index, seconds: worker.performance.eventLoopUtilization().active / 1000 }],
    );
  }

  /** Workers that accept connections. */
  get listening(): number {
    return this.#slots.filter((slot) => slot.isListening).length;
  }

  /** Their listening sockets, by descriptor. Null: not every worker has one that can be told. */
  get sockets(): readonly number[] | null {
    const fds = this.#slots.flatMap(({ isListening, fd }) => (isListening && fd !== null ? [fd] : []));
    return fds.length === this.#slots.length ? fds : null;
  }

  /** Least version that any worker may still decide on; a dead worker decides on none. */
  get ackedVersion(): number {
    return Math.min(
      ...this.#slots.map((slot) =>
        slot.worker === null ? Number.POSITIVE_INFINITY : Math.max(slot.appliedVersion, slot.floorVersion),
      ),
    );
  }

  /**
   * Starts every worker with its full state.
   *
   * @throws StartError when one dies or stays silent.
   */
  async start(): Promise<void> {
    for (const slot of this.#slots) this.#spawn(slot);
    const isUp = await this.#until(
      () => this.#slots.some((slot) => slot.worker === null) || this.#slots.every((slot) => slot.appliedVersion >= 0),
      START_DEADLINE_MS,
    );
    const dead = this.#slots.find((slot) => slot.worker === null);
    if (dead !== undefined)
      throw new StartError(`worker ${dead.index} died while it started: ${firstLine(dead.lastError)}`);
    if (!isUp)
      throw new StartError(`a worker did not start within ${START_DEADLINE_MS} ms: is the machine overloaded?`);
  }

  /**
   * Makes every worker listen on one port: the first takes it, the others join it.
   *
   * @param taken listening sockets of a gateway that this one takes over, by descriptor: each worker gets its share.
   * @returns the port, chosen by the system when `address.port` is 0.
   * @throws StartError when a worker can't listen.
   */
  async listen(address: ListenAddress, taken: readonly number[] = []): Promise<number> {
    const [first, ...others] = this.#slots;
    if (first === undefined) throw new StartError("there is no worker to listen");
    const shareOf = ({ index }: Slot) => taken.filter((_, socket) => socket % this.#slots.length === index);
    const port = await this.#listen(first, address, shareOf(first));
    this.#address = { host: address.host, port };
    await Promise.all(others.map((slot) => this.#listen(slot, { host: address.host, port }, shareOf(slot))));
    this.#isStarted = true;
    return port;
  }

  /** Sends a version to every living worker; one that starts later gets its full state. */
  broadcast(updates: readonly WorkerUpdate[]): void {
    for (const slot of this.#slots) {
      for (const update of updates) post(slot, update);
    }
  }

  /** Tells every worker that refused polls took a node out. */
  nodeDown(row: number): void {
    for (const slot of this.#slots) post(slot, { kind: "node_down", row });
  }

  /** Resolves with true when every living worker has the version in force, with false after the deadline. */
  waitForVersion(version: number, deadlineMs: number): Promise<boolean> {
    return this.#until(
      () => this.#slots.every((slot) => slot.worker === null || slot.appliedVersion >= version),
      deadlineMs,
    );
  }

  /**
   * Stops accepting, lets running requests end for `graceMs`, and ends the threads.
   *
   * @param isTakenOver another process accepts on the same sockets.
   * @returns requests that did not end in time; `isClean`: every worker said that it has drained.
   */
  async drain(graceMs: number, isTakenOver: boolean): Promise<{ interrupted: number; isClean: boolean }> {
    this.#isStopping = true;
    for (const slot of this.#slots) {
      if (slot.retryTimer !== null) clearTimeout(slot.retryTimer);
      post(slot, { kind: "drain", graceMs, isTakenOver });
    }
    const isClean = await this.#until(
      () => this.#slots.every((slot) => slot.worker === null || slot.interrupted !== null),
      graceMs + DRAIN_MARGIN_MS,
    );
    const interrupted = this.#slots.reduce((sum, slot) => sum + (slot.interrupted ?? 0), 0);
    await this.terminate();
    return { interrupted, isClean };
  }

  /** Ends the threads at once. */
  async terminate(): Promise<void> {
    this.#isStopping = true;
    for (const slot of this.#slots) {
      if (slot.retryTimer !== null) clearTimeout(slot.retryTimer);
    }
    await Promise.all(this.#slots.map((slot) => slot.worker?.terminate()));
  }

  #spawn(slot: Slot): void {
    const { table, rings, limitRows, prefixes, clockOriginMs, seed, log, ids } = this.#options;
    const ring = rings[slot.index];
    if (ring === undefined) throw new Error("each worker has a ring");
    const workerData: WorkerStart = {
      worker: slot.index,
      fleetTable: table.buffer,
      evidenceRing: ring.buffer,
      evidenceRecords: ring.records,
      limitsTable: limitRows.table.buffer,
      prefixTable: prefixes?.buffer ?? null,
      connections: this.#connections,
      exportCounts: this.#exportCounts,
      clockOriginMs,
      seed: seed + slot.index,
      ids,
    };
    const url = this.#options.url ?? new URL("../worker.ts", import.meta.url);
    const worker = new Worker(url, {
      workerData,
      name: `zml-worker-${slot.index}`,
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
    });
    slot.worker = worker;
    slot.startedAtMs = performance.now();
    slot.appliedVersion = -1;
    slot.isListening = false;
    slot.fd = null;
    slot.failedListens = 0;
    slot.isTaking = false;
    slot.queue.length = 0;
    slot.interrupted = null;
    slot.lastError = "it ended without an error";
    worker.on("message", (message: FromWorker) => this.#receive(slot, message));
    worker.on("messageerror", (error) => log.error({ worker: slot.index, error: error.message }, "unreadable message"));
    worker.on("error", (error) => {
      slot.lastError = error instanceof Error ? (error.stack ?? error.message) : String(error);
    });
    worker.on("exit", (code) => this.#onExit(slot, code));
    const updates = this.#options.fullUpdates();
    slot.floorVersion = updates.at(-1)?.version ?? -1;
    for (const update of updates) post(slot, update);
    if (this.#isStarted && this.#address !== null) post(slot, { kind: "listen", ...this.#address, taken: [] });
  }

  #receive(slot: Slot, message: FromWorker): void {
    const { log } = this.#options;
    switch (message.kind) {
      case "applied":
        slot.appliedVersion = Math.max(slot.appliedVersion, message.version);
        slot.isTaking = false;
        sendQueued(slot);
        this.#options.onAck?.();
        break;
      case "listening":
        slot.isListening = true;
        slot.fd = message.fd;
        break;
      case "listen_failed":
        slot.lastError = message.message;
        this.#onListenFailed(slot);
        break;
      case "samples":
        this.#options.onSamples(message.samples);
        return;
      case "requests":
        this.#options.onRequests?.(message.requests, message.dropped);
        return;
      case "observed":
        this.#options.onObserved?.(message.batch);
        return;
      case "log":
        log[message.level]({ worker: slot.index, ...message.fields }, message.message);
        return;
      case "dying":
        slot.lastError = message.error;
        return;
      case "drained":
        slot.interrupted = message.interrupted;
        break;
      default:
        unreachable(message);
    }
    this.#wake();
  }

  /** During the start this ends it (see `#listen`); later the port may be had again, and the others serve meanwhile. */
  #onListenFailed(slot: Slot): void {
    const { log } = this.#options;
    const fields = { worker: slot.index, error: slot.lastError };
    if (!this.#isStarted || this.#isStopping) return log.error(fields, "a worker can't listen");
    slot.failedListens += 1;
    const retryInMs = backoffMs(slot.failedListens);
    log.error({ ...fields, retryInMs }, "a worker can't listen; it tries again");
    slot.retryTimer = setTimeout(() => {
      slot.retryTimer = null;
      if (this.#address !== null) post(slot, { kind: "listen", ...this.#address, taken: [] });
    }, retryInMs);
  }

  #onExit(slot: Slot, code: number): void {
    const { table, limitRows, log } = this.#options;
    if (slot.retryTimer !== null) clearTimeout(slot.retryTimer);
    slot.worker = null;
    slot.isListening = false;
    slot.fd = null;
    slot.isTaking = false;
    slot.queue.length = 0;
    removeWorkerShare(table, slot.index);
    removeWorkerLimits(limitRows.table, slot.index, limitRows.used);
    forgetConnections(this.#connections, slot.index);
    announceRoom(table);
    this.#options.onAck?.();
    if (!this.#isStopping && !this.#isStarted)
      log.error({ worker: slot.index, code, error: slot.lastError }, "a worker died");
    if (!this.#isStopping && this.#isStarted) {
      this.#crashes += 1;
      const livedMs = performance.now() - slot.startedAtMs;
      slot.deathsInARow = livedMs >= STEADY_MS ? 0 : slot.deathsInARow + 1;
      const waitMs = slot.deathsInARow <= 1 ? 0 : backoffMs(slot.deathsInARow - 1);
      log.error(
        { worker: slot.index, code, error: slot.lastError, restartInMs: waitMs, crashes: this.#crashes },
        "a worker died; its requests are lost and it is started again",
      );
      slot.retryTimer = setTimeout(() => {
        slot.retryTimer = null;
        this.#spawn(slot);
      }, waitMs);
    }
    this.#wake();
  }

  async #listen(slot: Slot, address: ListenAddress, taken: readonly number[]): Promise<number> {
    const { worker } = slot;
    if (worker === null)
      throw new StartError(`worker ${slot.index} died before it could listen: ${firstLine(slot.lastError)}`);
    return new Promise<number>((resolve, reject) => {
      const shown = formatListen(address);
      const fail = (why: string) => {
        settle();
        reject(new StartError(`data.listen ${shown} can't be opened by worker ${slot.index}: ${firstLine(why)}`));
      };
      const timer = setTimeout(() => fail(`no answer within ${START_DEADLINE_MS} ms`), START_DEADLINE_MS);
      const onMessage = (message: FromWorker) => {
        if (message.kind === "listen_failed") fail(message.message);
        if (message.kind !== "listening") return;
        settle();
        resolve(message.port);
      };
      const onExit = () => fail(slot.lastError);
      const settle = () => {
        clearTimeout(timer);
        worker.off("message", onMessage);
        worker.off("exit", onExit);
      };
      worker.on("message", onMessage);
      worker.on("exit", onExit);
      post(slot, { kind: "listen", ...address, taken });
    });
  }

  /** Resolves with true when the condition holds, which is looked at after every message and exit. */
  #until(holds: () => boolean, deadlineMs: number): Promise<boolean> {
    if (holds()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (value: boolean) => {
        clearTimeout(timer);
        this.#waiters.delete(check);
        resolve(value);
      };
      const check = () => {
        if (holds()) settle(true);
      };
      const timer = setTimeout(() => settle(holds()), deadlineMs);
      this.#waiters.add(check);
    });
  }

  #wake(): void {
    for (const check of [...this.#waiters]) check();
  }
}

/** @param times failures in a row, from 1. */
function backoffMs(times: number): number {
  return Math.min(RETRY_WAIT_MAX_MS, RETRY_WAIT_MIN_MS * 2 ** (times - 1));
}

/** Of a stack: what people read in one line. The whole stands in the log. */
function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}

/**
 * Sends a message after those before it. A port hands over all messages that wait, in one turn of the loop: the slices of
 * a large version would make one long pause after all, so that an update waits until the one before it is taken in.
 */
function post(slot: Slot, message: ToWorker): void {
  // nobody who ends waits for a configuration
  if (message.kind === "drain") slot.queue.length = 0;
  slot.queue.push(message);
  if (message.kind === "drain") slot.isTaking = false;
  sendQueued(slot);
}

function sendQueued(slot: Slot): void {
  while (!slot.isTaking) {
    const message = slot.queue.shift();
    if (message === undefined) return;
    slot.isTaking = message.kind === "update";
    slot.worker?.postMessage(message);
  }
}

function unreachable(message: never): never {
  throw new Error(`unknown message of a worker: ${JSON.stringify(message)}`);
}
