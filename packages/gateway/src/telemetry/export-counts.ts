/**
 * What waits to be told, and what was lost, as cells that serving threads, the control thread and the export thread share:
 * a queue over three threads with one bound.
 */

const CELLS = { queuedSpans: 0, droppedSpans: 1, queuedLines: 2, droppedLines: 3 } as const;
type Cell = keyof typeof CELLS;

export class ExportCounts {
  readonly buffer: SharedArrayBuffer;
  readonly #cells: Int32Array;

  constructor(buffer = new SharedArrayBuffer(Object.keys(CELLS).length * Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#cells = new Int32Array(buffer);
  }

  get(cell: Cell): number {
    return Atomics.load(this.#cells, CELLS[cell]);
  }

  /** Takes places in a queue, or counts what found none. @returns false: it is dropped. */
  enter(kind: "Spans" | "Lines", count: number, limit: number): boolean {
    const queued = CELLS[`queued${kind}`];
    if (Atomics.add(this.#cells, queued, count) + count <= limit) return true;
    Atomics.sub(this.#cells, queued, count);
    this.drop(kind, count);
    return false;
  }

  /** What left a queue, for whatever reason. */
  leave(kind: "Spans" | "Lines", count: number): void {
    Atomics.sub(this.#cells, CELLS[`queued${kind}`], count);
  }

  /** The count is of 32 bits and wraps; readers take differences. */
  drop(kind: "Spans" | "Lines", count: number): void {
    Atomics.add(this.#cells, CELLS[`dropped${kind}`], count);
  }

  /** The thread that empties the queues died with what it had. */
  reset(): void {
    for (const kind of ["Spans", "Lines"] as const) {
      this.drop(kind, Atomics.exchange(this.#cells, CELLS[`queued${kind}`], 0));
    }
  }
}
