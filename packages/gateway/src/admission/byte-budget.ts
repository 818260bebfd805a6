import { strict as assert } from "node:assert";

/** A bound on the bytes that all bodies together may hold (`limits.body_bytes_total`). */
export interface ByteBudget {
  /** Takes that many bytes, or none and returns false. */
  tryReserve(bytes: number): boolean;
  /** Gives back what was taken. */
  release(bytes: number): void;
}

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
