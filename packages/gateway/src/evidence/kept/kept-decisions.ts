/** Kept decisions, seen from the control thread: a thread that keeps them while the configuration says so. */

import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type EvidenceRing, nextSequence } from "@zml/engine";
import type { DecisionJson } from "@zml/protocol/admin";
import type { GatewayLog } from "../../control/gateway-log.ts";
import { type DecisionIds, decodeDecisionId } from "../../decision-id.ts";
import { StoreFault } from "../../store/store-fault.ts";
import { DECISIONS_FILE } from "../../store/store-files.ts";
import { MEMORY } from "../../store/store-messages.ts";
import { type FleetNoteSources, FleetNotes } from "./fleet-notes.ts";
import type {
  FromKeptThread,
  KeepBounds,
  KeptCallName,
  KeptCalls,
  KeptCounts,
  KeptStart,
  ToKeptThread,
} from "./kept-messages.ts";

/** Names, prices and states of nodes are looked at this often, ms. */
const NOTES_EVERY_MS = 1_000;
/** A call that takes longer is given up by its caller, ms. A backup copies gigabytes. */
const CALL_DEADLINE_MS = { find: 5_000, page: 5_000, flush: 10_000, backup: 600_000 } as const;
/** Calls that may wait at once. */
const CALLS_MAX = 100;
/** What the last records get when the gateway ends, ms. */
const CLOSE_DEADLINE_MS = 5_000;
/** A thread that died is started again after this, ms. */
const RESTART_MS = 5_000;
/** Two chunks per worker, and what SQLite and a page of decisions need, MB. */
const HEAP = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };
const NOTHING: KeptCounts = {
  state: "ok",
  reason: null,
  kept: 0,
  overwritten: 0,
  lostToStore: 0,
  unfinished: 0,
  records: 0,
  bytes: 0,
  oldestAtMs: null,
  newestAtMs: null,
  cpuMs: 0,
  positions: [],
};

export interface KeptDecisionsOptions {
  /** Of the store, or ":memory:", which keeps no decisions. */
  readonly folder: string;
  readonly rings: readonly EvidenceRing[];
  readonly ids: DecisionIds;
  readonly sources: FleetNoteSources;
  readonly log: GatewayLog;
}

/** How it is. */
export interface KeptStatus extends KeptCounts {
  /** Null: none are kept. */
  readonly keep: KeepBounds | null;
}

/** How it is where none are kept. */
export const NOT_KEPT: KeptStatus = { ...NOTHING, keep: null };

interface Call {
  readonly resolve: (result: unknown) => void;
  readonly reject: (fault: StoreFault) => void;
  readonly timer: NodeJS.Timeout;
}

export class KeptDecisions {
  readonly #options: KeptDecisionsOptions;
  readonly #calls = new Map<number, Call>();
  #keep: KeepBounds | null = null;
  #worker: Worker | null = null;
  #notes: FleetNotes | null = null;
  #timer: NodeJS.Timeout | null = null;
  #restart: NodeJS.Timeout | null = null;
  #counts = NOTHING;
  /** Of threads that have ended. */
  #before = NOTHING;
  #lastId = 0;
  #ending: Promise<void> = Promise.resolve();
  #isStopped = false;
  /** What has been read, where a thread died. */
  #positions: readonly number[] | null = null;

  constructor(options: KeptDecisionsOptions) {
    this.#options = options;
  }

  /** Begins to keep, keeps otherwise, or stops to. Files stay. */
  configure(keep: KeepBounds | null): void {
    const wanted = this.#options.folder === MEMORY || this.#isStopped ? null : keep;
    this.#keep = wanted;
    if (wanted === null) {
      if (this.#worker !== null) this.#ending = this.#end();
      this.#positions = null;
      return;
    }
    if (this.#worker === null) this.#begin(wanted);
    else this.#send({ kind: "configure", keep: wanted });
  }

  get status(): KeptStatus {
    const [now, before] = [this.#counts, this.#before];
    return {
      ...now,
      keep: this.#keep,
      kept: before.kept + now.kept,
      overwritten: before.overwritten + now.overwritten,
      lostToStore: before.lostToStore + now.lostToStore,
      unfinished: before.unfinished + now.unfinished,
      cpuMs: before.cpuMs + now.cpuMs,
    };
  }

  /** The file; null: nothing is kept. */
  get path(): string | null {
    return this.#keep === null ? null : join(this.#options.folder, DECISIONS_FILE);
  }

  /** A decision that a ring has forgotten. Null: it is not kept. @throws StoreFault */
  async find(id: string): Promise<DecisionJson | null> {
    const place = decodeDecisionId(id);
    return place === null || this.#worker === null ? null : this.call("find", { ...place, id });
  }

  /** Sequences from which on the rings have the records themselves, by worker. */
  inRing(): number[] {
    return this.#options.rings.map((ring) => Math.max(0, nextSequence(ring) - ring.records));
  }

  /** @throws StoreFault, also when nothing is kept or no answer comes in time. */
  call<K extends KeptCallName>(name: K, args: KeptCalls[K]["args"]): Promise<KeptCalls[K]["result"]> {
    const worker = this.#worker;
    if (worker === null) return Promise.reject(new StoreFault("closed", "no decisions are kept: set evidence.keep"));
    if (this.#calls.size >= CALLS_MAX) {
      return Promise.reject(
        new StoreFault("overloaded", `${CALLS_MAX} calls for kept decisions wait already: try again`),
      );
    }
    this.#takeNotes(name === "flush");
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const deadlineMs = CALL_DEADLINE_MS[name];
      const timer = setTimeout(() => {
        this.#fail(id, new StoreFault("timeout", `kept decisions did not answer within ${deadlineMs} ms: try again`));
      }, deadlineMs);
      this.#calls.set(id, { resolve: resolve as (result: unknown) => void, reject, timer });
      this.#send({ kind: "call", id, name, args });
    });
  }

  /** Writes the last records and ends the thread. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#worker !== null) this.#ending = this.#end();
    await this.#ending;
  }

  #begin(keep: KeepBounds): void {
    const { folder, rings, ids, sources, log } = this.#options;
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#restart = null;
    this.#notes = new FleetNotes(sources);
    const start: KeptStart = {
      path: join(folder, DECISIONS_FILE),
      rings: rings.map(({ buffer, records }, index) => {
        const from = this.#positions?.[index] ?? this.inRing()[index] ?? 0;
        return { buffer: buffer as SharedArrayBuffer, records, from };
      }),
      originMs: ids.unixOriginMs,
      tail: ids.tail,
      keep,
    };
    const worker = new Worker(new URL("./kept-thread.ts", import.meta.url), {
      workerData: start,
      resourceLimits: HEAP,
      name: "zml-decisions",
    });
    worker.unref();
    worker.on("message", (message: FromKeptThread) => this.#take(message));
    let cause = "it ended";
    worker.on("error", (error) => {
      cause = error instanceof Error ? error.message : String(error);
    });
    worker.on("exit", () => {
      if (this.#worker !== worker) return;
      this.#close(new StoreFault("closed", `the thread of kept decisions died (${cause}): try again`));
      this.#positions = this.#counts.positions;
      this.#count();
      log.error({ cause }, "the thread of kept decisions died; it is started again, and traffic runs on");
      const { keep: again } = this.status;
      if (again === null) return;
      this.#restart = setTimeout(() => this.#begin(again), RESTART_MS).unref();
    });
    this.#worker = worker;
    this.#timer = setInterval(() => this.#takeNotes(), NOTES_EVERY_MS).unref();
    this.#takeNotes();
  }

  #takeNotes(isAsked = false): void {
    const atMs = Date.now();
    const news = this.#notes?.take(atMs, isAsked) ?? null;
    if (news !== null) this.#send({ kind: "notes", atMs, ...news });
  }

  #send(message: ToKeptThread): void {
    this.#worker?.postMessage(message);
  }

  #take(message: FromKeptThread): void {
    switch (message.kind) {
      case "counts": {
        const { state, reason } = message.counts;
        const { log } = this.#options;
        if (state !== this.#counts.state) {
          if (reason === null) log.info({}, "decisions are kept again");
          else log.error({}, `${reason}; decisions are lost meanwhile, and traffic runs on`);
        }
        this.#counts = message.counts;
        break;
      }
      case "done": {
        const call = this.#calls.get(message.id);
        this.#calls.delete(message.id);
        clearTimeout(call?.timer);
        call?.resolve(message.result);
        break;
      }
      case "failed":
        this.#fail(message.id, new StoreFault(message.fault, message.message));
    }
  }

  #fail(id: number, fault: StoreFault): void {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    clearTimeout(call?.timer);
    call?.reject(fault);
  }

  async #end(): Promise<void> {
    const worker = this.#worker as Worker;
    this.#takeNotes(true);
    const ended = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
    worker.ref();
    this.#send({ kind: "close" });
    this.#close(new StoreFault("closed", "decisions are not kept any more"));
    const timer = setTimeout(() => void worker.terminate(), CLOSE_DEADLINE_MS);
    await ended;
    clearTimeout(timer);
    this.#count();
  }

  #close(fault: StoreFault): void {
    this.#worker = null;
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#timer = null;
    this.#restart = null;
    for (const id of [...this.#calls.keys()]) this.#fail(id, fault);
  }

  /** What the thread that ended did goes on counting. */
  #count(): void {
    const { keep, ...counts } = this.status;
    this.#before = { ...NOTHING, ...counts, state: "ok", reason: null };
    this.#counts = { ...NOTHING, records: counts.records, bytes: counts.bytes };
  }
}
