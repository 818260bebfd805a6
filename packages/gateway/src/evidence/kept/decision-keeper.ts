/**
 * Keeps decisions: reads the rings to their ends, writes chunks, takes out what is too old or too much. A disk that is
 * full or locked stops the writing and nothing else: records wait in their rings and, once overwritten, are counted as
 * lost. Runs on its own thread; the clock is an argument.
 */

import { attachEvidenceRing } from "@zml/engine";
import { toStoreFault } from "../../store/store-fault.ts";
import { ColumnWriter } from "./decision-columns.ts";
import { DecisionDatabase, type IndexedName, type NodeChange } from "./decision-database.ts";
import { encodeFleetState, type FleetState } from "./fleet-state.ts";
import type { KeepBounds, KeptCounts, KeptStart } from "./kept-messages.ts";
import { RingDrain } from "./ring-drain.ts";

/** Records of a chunk: 100 kB deflated at most, and 3 ms of this thread. */
const CHUNK_RECORDS = 1_024;
/** Records wait at most this long for a chunk to fill, ms. */
const CHUNK_MAX_MS = 10_000;
/** After a failed write the next try comes this much later, ms. */
const RETRY_MS = 1_000;
/** Kept free below the bound, bytes: a chunk, a state of the fleet, and the index pages that they touch. */
const RESERVE_BYTES = 1_048_576;
/** Notes that wait for a store that fails; beyond, the oldest are dropped: a replay takes the next state. */
const NOTES_MAX = 50_000;
const DAY_MS = 86_400_000;

interface Notes {
  names: IndexedName[];
  states: { atMs: number; body: Uint8Array }[];
  changes: NodeChange[];
}

export class DecisionKeeper {
  readonly #start: KeptStart;
  readonly #drains: readonly RingDrain[];
  readonly #writers: readonly ColumnWriter[];
  readonly #takenAtMs: number[];
  #database: DecisionDatabase | null = null;
  #run: number | null = null;
  #keep: KeepBounds;
  #notes: Notes = { names: [], states: [], changes: [] };
  #reason: string | null = null;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  #kept = 0;
  #lostToStore = 0;
  /** Losses that the file has been told of. */
  #lossesWritten = 0;
  #lossFromMs = Number.NaN;
  #span = { records: 0, bytes: 0, oldestAtMs: null as number | null, newestAtMs: null as number | null };

  constructor(start: KeptStart) {
    this.#start = start;
    this.#keep = start.keep;
    this.#drains = start.rings.map(
      ({ buffer, records, from }) => new RingDrain(attachEvidenceRing(buffer, records), from),
    );
    this.#writers = start.rings.map(() => new ColumnWriter(CHUNK_RECORDS));
    this.#takenAtMs = start.rings.map(() => Number.NaN);
  }

  configure(keep: KeepBounds): void {
    this.#keep = keep;
  }

  /** What a replay needs beside the records. */
  note(atMs: number, names: readonly IndexedName[], state: FleetState | null, changes: readonly NodeChange[]): void {
    const notes = this.#notes;
    notes.names.push(...names);
    if (state !== null) notes.states.push({ atMs, body: encodeFleetState(state) });
    notes.changes.push(...changes);
    if (notes.changes.length > NOTES_MAX) notes.changes.splice(0, notes.changes.length - NOTES_MAX);
    if (notes.states.length > 16) notes.states.splice(0, notes.states.length - 16);
  }

  /** Reads what is new, and writes what is ready. @param nowMs Unix ms */
  tick(nowMs: number): void {
    const lostBefore = this.#lost();
    for (let worker = 0; worker < this.#drains.length; worker++) this.#drain(worker, nowMs, false);
    this.#noteLost(this.#lost() - lostBefore, nowMs);
    const isAged = this.#takenAtMs.some((atMs) => nowMs - atMs >= CHUNK_MAX_MS);
    if (isAged) this.#write(nowMs);
  }

  /** Writes what was read. @throws StoreFault when it can't. */
  flush(nowMs: number): void {
    for (let worker = 0; worker < this.#drains.length; worker++) this.#drain(worker, nowMs, false);
    this.#retryAtMs = Number.NEGATIVE_INFINITY;
    if (!this.#write(nowMs)) throw toStoreFault(new Error(this.#reason ?? "it can't be written"), this.#start.path);
  }

  /** The last records, whether their attempts run or not. */
  close(nowMs: number): void {
    this.#retryAtMs = Number.NEGATIVE_INFINITY;
    for (let worker = 0; worker < this.#drains.length; worker++) this.#drain(worker, nowMs, true);
    this.#write(nowMs);
    this.#database?.close();
    this.#database = null;
  }

  /** The open file, with everything that was read so far. @throws StoreFault */
  reading(nowMs: number): DecisionDatabase {
    this.flush(nowMs);
    return this.#opened();
  }

  /** Id of this process in the file; null: nothing was written. */
  get run(): number | null {
    return this.#run;
  }

  counts(cpuMs: number): KeptCounts {
    return {
      state: this.#reason === null ? "ok" : "degraded",
      reason: this.#reason,
      kept: this.#kept,
      overwritten: this.#lost() - this.#lostToStore,
      lostToStore: this.#lostToStore,
      unfinished: this.#drains.reduce((sum, { unfinished }) => sum + unfinished, 0),
      ...this.#span,
      cpuMs,
      positions: this.#drains.map(({ next }) => next),
    };
  }

  #lost(): number {
    return this.#drains.reduce((sum, { lost }) => sum + lost, 0);
  }

  #noteLost(records: number, nowMs: number): void {
    if (records === 0) return;
    if (this.#reason !== null) this.#lostToStore += records;
    if (Number.isNaN(this.#lossFromMs)) this.#lossFromMs = nowMs;
  }

  #drain(worker: number, nowMs: number, isLast: boolean): void {
    const drain = this.#drains[worker] as RingDrain;
    const writer = this.#writers[worker] as ColumnWriter;
    do {
      drain.drain(writer, isLast);
      if (writer.count > 0 && Number.isNaN(this.#takenAtMs[worker] as number)) this.#takenAtMs[worker] = nowMs;
    } while (writer.isFull && this.#write(nowMs));
  }

  /** Everything that waits, in one transaction. Returns false when it could not be written. */
  #write(nowMs: number): boolean {
    if (nowMs < this.#retryAtMs) return false;
    const { names, states, changes } = this.#notes;
    const lost = this.#lost() - this.#lossesWritten;
    const waiting = this.#writers.reduce((sum, { count }) => sum + count, 0);
    if (waiting + names.length + states.length + changes.length + lost === 0) return this.#reason === null;
    try {
      const database = this.#opened();
      const run = database.write(() => {
        const runId = this.#run ?? database.addRun(this.#start);
        database.prune({ beforeMs: nowMs - this.#keep.days * DAY_MS, bytes: this.#keep.bytes - RESERVE_BYTES });
        database.addNames(runId, names);
        for (const { atMs, body } of states) database.addFleetState(runId, atMs, body);
        database.addNodeChanges(runId, changes);
        const from = { id: runId, originMs: this.#start.originMs };
        this.#writers.forEach((writer, worker) => {
          if (writer.count > 0) database.addChunk(from, worker, writer.columns());
        });
        if (lost > 0) {
          const reason = this.#reason === null ? "overwritten" : "store";
          const fromMs = Number.isNaN(this.#lossFromMs) ? nowMs : this.#lossFromMs;
          database.addLoss(runId, { fromMs, toMs: nowMs, records: lost, reason });
        }
        return runId;
      });
      database.giveBack();
      this.#run = run;
      this.#span = database.span();
    } catch (error) {
      this.#fail(error, nowMs);
      return false;
    }
    this.#kept += waiting;
    this.#lossesWritten += lost;
    this.#lossFromMs = Number.NaN;
    this.#notes = { names: [], states: [], changes: [] };
    for (const writer of this.#writers) writer.clear();
    this.#takenAtMs.fill(Number.NaN);
    this.#reason = null;
    return true;
  }

  #fail(error: unknown, nowMs: number): void {
    const fault = toStoreFault(error, this.#start.path);
    this.#reason = fault.message;
    this.#retryAtMs = nowMs + RETRY_MS;
    // a file that was replaced, or a disk that came back, is opened anew
    try {
      this.#database?.close();
    } catch {
      // it is of no more use either way
    }
    this.#database = null;
  }

  #opened(): DecisionDatabase {
    this.#database ??= new DecisionDatabase(this.#start.path);
    return this.#database;
  }
}
