/**
 * The embedded store, seen from the control thread: asked by message, each call with a deadline. No request waits for
 * it. While the disk is full, locked or read-only, calls are refused with the reason and traffic runs on; every further
 * call tries again.
 */

import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { GatewayLog } from "../control/gateway-log.ts";
import { StartError } from "../control/start-error.ts";
import type { StoreCallName, StoreCalls } from "./operations.ts";
import { narrowRights } from "./private-files.ts";
import { StoreFault } from "./store-fault.ts";
import { STORE_FILE } from "./store-files.ts";
import { type FromStoreThread, MEMORY, type StoreThreadStart, type ToStoreThread } from "./store-messages.ts";

/** Calls that may wait at once: the control thread makes a few per second. */
const CALLS_MAX = 1_000;
/** A call that takes longer is given up by its caller, ms; the disk may do it later. */
const CALL_DEADLINE_MS = 10_000;
/** What the last calls get when the gateway ends, ms. */
const CLOSE_DEADLINE_MS = 5_000;
/** A thread without work ends after this long, ms: it holds 8 MB, and a start costs 0.1 s, at most once a minute. */
const IDLE_MS = 3_000;
/** The store keeps rows and no caches of ours: small heaps are enough, MB. */
const HEAP = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 8 };

/** How the store is. */
export interface StoreStatus {
  /** `degraded`: the last call failed for the reason that is given. */
  readonly state: "ok" | "degraded" | "closed";
  readonly reason: string | null;
  /** Calls that wait. */
  readonly pending: number;
  /** False while the store has nothing to do. */
  readonly hasThread: boolean;
}

interface Call {
  readonly resolve: (result: unknown) => void;
  readonly reject: (fault: StoreFault) => void;
  readonly timer: NodeJS.Timeout;
}

/** What other parts of the gateway use of it. */
export interface StoreClient {
  /**
   * Asks the store.
   *
   * @throws StoreFault, also after 10 s without an answer or with 1,000 calls waiting.
   */
  call<K extends StoreCallName>(name: K, args: StoreCalls[K]["args"]): Promise<StoreCalls[K]["result"]>;
}

export interface StoreOptions {
  /** Folder of the store, or ":memory:". */
  readonly folder: string;
  readonly log: GatewayLog;
  /** Default 10,000 ms. */
  readonly callDeadlineMs?: number;
  /** Default 3,000 ms. */
  readonly idleMs?: number;
}

export class Store implements StoreClient {
  readonly #options: StoreOptions;
  readonly #calls = new Map<number, Call>();
  #worker: Worker | null = null;
  #idleTimer: NodeJS.Timeout | null = null;
  /** A thread that ends because it had nothing to do. */
  #leaving: Promise<void> = Promise.resolve();
  #lastId = 0;
  #reason: string | null = null;
  #isClosed = false;

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  /**
   * Starts the store's thread and opens the file. A file that can't be opened now leaves the store degraded. Files that
   * others may use are taken from them first.
   *
   * @throws StartError when the file belongs to a newer ZML or is damaged.
   */
  async open(): Promise<void> {
    if (this.isOnDisk) this.#narrowRights();
    try {
      await this.#send(null, null);
    } catch (error) {
      if (error instanceof StoreFault && error.isFinal) throw new StartError(error.message);
      if (!(error instanceof StoreFault)) throw error;
    }
  }

  get folder(): string {
    return this.#options.folder;
  }

  /** False: nothing of it outlives the process. */
  get isOnDisk(): boolean {
    return this.#options.folder !== MEMORY;
  }

  get status(): StoreStatus {
    const state = this.#isClosed ? "closed" : this.#reason === null ? "ok" : "degraded";
    return { state, reason: this.#reason, pending: this.#calls.size, hasThread: this.#worker !== null };
  }

  call<K extends StoreCallName>(name: K, args: StoreCalls[K]["args"]): Promise<StoreCalls[K]["result"]> {
    return this.#send(name, args) as Promise<StoreCalls[K]["result"]>;
  }

  /** Lets the calls that wait end, closes the file and ends the thread. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelRest();
    if (this.#worker !== null) await endOf(this.#worker);
    await this.#leaving;
  }

  /** After a `close`: calls are taken again. */
  reopen(): void {
    this.#isClosed = false;
  }

  #narrowRights(): void {
    const { folder, log } = this.#options;
    const { files, failed } = narrowRights(folder);
    if (files.length > 0) {
      log.warn({ folder, files }, "others could read files of the store; from now on only this user can");
    }
    if (failed.length > 0) {
      log.warn({ folder, failed }, "others can read files of the store, and it can't be changed: chmod go= by hand");
    }
  }

  #send(name: StoreCallName | null, args: unknown): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new StoreFault("closed", "the store is closed: start the gateway again"));
    if (this.#calls.size >= CALLS_MAX) {
      return Promise.reject(new StoreFault("overloaded", `${CALLS_MAX} calls of the store wait already: try again`));
    }
    this.#cancelRest();
    const worker = this.#running();
    const id = ++this.#lastId;
    const { callDeadlineMs = CALL_DEADLINE_MS } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#end(id, new StoreFault("timeout", `the store did not answer within ${callDeadlineMs} ms: try again`));
      }, callDeadlineMs);
      this.#calls.set(id, { resolve, reject, timer });
      worker.postMessage({ kind: "call", id, name, args } satisfies ToStoreThread);
    });
  }

  /** The thread; one that died is started again by the next call. */
  #running(): Worker {
    if (this.#worker !== null) return this.#worker;
    const { folder } = this.#options;
    const start: StoreThreadStart = { path: folder === MEMORY ? MEMORY : join(folder, STORE_FILE) };
    const worker = new Worker(new URL("./store-thread.ts", import.meta.url), {
      workerData: start,
      resourceLimits: HEAP,
      name: "zml-store",
    });
    // it must not keep a process alive that forgot to close it
    worker.unref();
    worker.on("message", (message: FromStoreThread) => this.#take(message));
    let cause = "it ended";
    worker.on("error", (error) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => {
      // the calls that wait are those of the thread that was started since
      if (this.#worker !== worker) return;
      this.#worker = null;
      for (const id of [...this.#calls.keys()]) {
        this.#end(id, new StoreFault("closed", `the store's thread died (${cause}): try again`));
      }
    });
    this.#worker = worker;
    return worker;
  }

  #take(message: FromStoreThread): void {
    if (message.kind === "failed") {
      this.#end(message.id, new StoreFault(message.fault, message.message));
      return;
    }
    const call = this.#calls.get(message.id);
    this.#calls.delete(message.id);
    if (this.#reason !== null) this.#options.log.info({}, "the store works again");
    this.#reason = null;
    if (call === undefined) return;
    clearTimeout(call.timer);
    call.resolve(message.result);
    this.#restSoon();
  }

  #end(id: number, fault: StoreFault): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    clearTimeout(call.timer);
    // once per change of state: a full disk fails every call
    if (this.#reason === null && !this.#isClosed) {
      this.#options.log.error({ kind: fault.kind }, `${fault.message}; traffic runs on`);
    }
    this.#reason = fault.message;
    call.reject(fault);
    this.#restSoon();
  }

  /** Ends the thread once it has had nothing to do for a while; what is in memory only is kept by it. */
  #restSoon(): void {
    if (this.#calls.size > 0 || this.#isClosed || this.#options.folder === MEMORY) return;
    this.#cancelRest();
    this.#idleTimer = setTimeout(() => {
      const worker = this.#worker;
      this.#worker = null;
      if (worker !== null) this.#leaving = endOf(worker);
    }, this.#options.idleMs ?? IDLE_MS);
    this.#idleTimer.unref();
  }

  #cancelRest(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }
}

/** Lets a thread end what it was given, closes its file and waits for its end. */
async function endOf(worker: Worker): Promise<void> {
  const ended = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
  worker.ref();
  worker.postMessage({ kind: "close" } satisfies ToStoreThread);
  const timer = setTimeout(() => void worker.terminate(), CLOSE_DEADLINE_MS);
  await ended;
  clearTimeout(timer);
}
