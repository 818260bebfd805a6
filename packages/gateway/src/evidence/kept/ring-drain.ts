/**
 * Reads one ring to its end, again and again, and hands over each record once nothing more is written to it. What was
 * overwritten before it was read is counted. Runs beside the worker that writes and never makes it wait.
 */

import { copyCells, type EvidenceCells, type EvidenceRing, nextSequence, stateOfRecord } from "@zml/engine";

const SEQUENCE_MASK = 0x7fffffff;
/** Once so much of the ring has been written since, a record whose attempt still runs is taken as it is. */
const AT_RISK_SHARE = 0.75;

/** Takes records until it is full. */
export interface RecordSink {
  readonly cells: EvidenceCells;
  readonly isFull: boolean;
  /** Takes what stands in `cells`. */
  take(sequence: number): void;
}

export class RingDrain {
  readonly ring: EvidenceRing;
  /** Records that were overwritten unread. */
  lost = 0;
  /** Records that were taken while their attempt ran: its outcome is not in them. */
  unfinished = 0;
  #next: number;
  /** Sequences of records whose attempt runs, oldest first. At most a ring of them. */
  #running: number[] = [];

  /** @param from the first sequence to read; default: what is written from now on. */
  constructor(ring: EvidenceRing, from = nextSequence(ring)) {
    this.ring = ring;
    this.#next = from;
  }

  /** The first sequence that has not been read. */
  get next(): number {
    return this.#next;
  }

  /** Records that wait for the end of their attempt. */
  get waiting(): number {
    return this.#running.length;
  }

  /**
   * Reads what is new, until the sink is full. What is left stays in the ring for the next time. O(new records + running
   * attempts).
   *
   * @param isLast also what still runs: nobody reads after this.
   */
  drain(sink: RecordSink, isLast = false): void {
    const end = nextSequence(this.ring);
    this.#takeEnded(sink, end, isLast);
    let behind = (end - this.#next) & SEQUENCE_MASK;
    if (behind > this.ring.records) {
      this.lost += behind - this.ring.records;
      this.#next = (end - this.ring.records) & SEQUENCE_MASK;
      behind = this.ring.records;
    }
    for (; behind > 0 && !sink.isFull; behind--) {
      const sequence = this.#next;
      this.#next = (sequence + 1) & SEQUENCE_MASK;
      const state = stateOfRecord(this.ring, sequence);
      if (state === "running" && !isLast) this.#running.push(sequence);
      else this.#take(sink, sequence, state === "running");
    }
  }

  #takeEnded(sink: RecordSink, end: number, isLast: boolean): void {
    const atRisk = this.ring.records * AT_RISK_SHARE;
    let kept = 0;
    for (const sequence of this.#running) {
      const isRunning = stateOfRecord(this.ring, sequence) === "running";
      const isWaiting = isRunning && !isLast && ((end - sequence) & SEQUENCE_MASK) < atRisk;
      if (isWaiting || sink.isFull) this.#running[kept++] = sequence;
      else this.#take(sink, sequence, isRunning);
    }
    this.#running.length = kept;
  }

  #take(sink: RecordSink, sequence: number, isRunning: boolean): void {
    if (!copyCells(this.ring, sequence, sink.cells)) {
      this.lost += 1;
      return;
    }
    if (isRunning) this.unfinished += 1;
    sink.take(sequence);
  }
}
