import { strict as assert } from "node:assert";
import type { ByteBudget } from "../byte-budget.ts";

/** A budget of one thread. */
export class LocalByteBudget implements ByteBudget {
  readonly limitBytes: number;
  #heldBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  tryReserve(bytes: number): boolean {
    if (this.#heldBytes + bytes > this.limitBytes) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
    assert(this.#heldBytes >= 0, "more bytes were released than reserved");
  }
}
