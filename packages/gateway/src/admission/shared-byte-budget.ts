/** One budget for the bodies of all workers (`limits.body_bytes_total`), counted in the fleet table. */

import { addToCell, assert, CELL, type FleetTable } from "@zml/engine";
import type { ByteBudget } from "./byte-budget.ts";

/**
 * A worker's hand on the shared budget. The shared cell counts KiB, so a worker's own bytes are rounded up once, not
 * once per body.
 */
export class SharedByteBudget implements ByteBudget {
  readonly #table: FleetTable;
  readonly #worker: number;
  #limitBytes: number;
  #heldBytes = 0;
  #sharedKib = 0;

  constructor(table: FleetTable, worker: number, limitBytes: number) {
    this.#table = table;
    this.#worker = worker;
    this.#limitBytes = limitBytes;
  }

  /** Follows a changed `limits.body_bytes_total`; what is held stays. */
  setLimit(limitBytes: number): void {
    this.#limitBytes = limitBytes;
  }

  tryReserve(bytes: number): boolean {
    const kib = Math.ceil((this.#heldBytes + bytes) / 1024) - this.#sharedKib;
    if (kib > 0) {
      const before = addToCell(this.#table, this.#worker, CELL.bodyKib, kib);
      if ((before + kib) * 1024 > this.#limitBytes + 1023) {
        addToCell(this.#table, this.#worker, CELL.bodyKib, -kib);
        return false;
      }
      this.#sharedKib += kib;
    }
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
    assert(this.#heldBytes >= 0, "more bytes were released than reserved");
    const kib = Math.ceil(this.#heldBytes / 1024) - this.#sharedKib;
    if (kib === 0) return;
    addToCell(this.#table, this.#worker, CELL.bodyKib, kib);
    this.#sharedKib += kib;
  }
}
