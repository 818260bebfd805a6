/** Attempts under way, by a small number that events and nodes carry. */

import type { Dispatched, VirtualGateway } from "./virtual-gateway.ts";

/** An attempt under way. */
export interface Slot {
  /** Tells events of this attempt from those of an earlier one in the same slot. */
  generation: number;
  request: number;
  gateway: VirtualGateway;
  dispatched: Dispatched;
  promptTokens: number;
  outputTokens: number;
  hasReached: boolean;
  firstTokenAtMs: number;
  /** Tokens that it had given when its node went down. */
  emittedTokens: number;
}

/** Slots are used again; an event names its attempt by slot and generation, so that one that comes late finds nothing. */
export class AttemptSlots {
  readonly #slots: Slot[] = [];
  readonly #free: number[] = [];

  take(attempt: Omit<Slot, "generation">): number {
    const id = this.#free.pop() ?? this.#slots.length;
    this.#slots[id] = { generation: (this.#slots[id]?.generation ?? 0) + 1, ...attempt };
    return id;
  }

  free(id: number): void {
    this.at(id).generation += 1;
    this.#free.push(id);
  }

  at(id: number): Slot {
    return this.#slots[id] as Slot;
  }

  /** Null: that attempt is over. */
  find(id: number, generation: number): Slot | null {
    const slot = this.at(id);
    return slot.generation === generation ? slot : null;
  }
}
