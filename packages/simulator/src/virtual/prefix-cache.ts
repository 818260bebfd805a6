/**
 * Prefix cache of one node: blocks of 512 prompt tokens by id, shared by the sequences that hold them, and kept after
 * their last holder left until the room is needed: least recently used first (§2.1 of the node model).
 */

/** Tokens of one block. */
export const BLOCK_TOKENS = 512;

export class PrefixCache {
  /** Holders of each resident block; 0: nobody holds it, it may be evicted. */
  readonly #holders = new Map<number, number>();
  /** Resident blocks without holder, least recently used first. */
  readonly #idle = new Set<number>();
  #holdings = 0;

  /** Resident blocks. */
  get size(): number {
    return this.#holders.size;
  }

  /** Tokens that sequences hold more than once: Σ of what each holds, less what is there. */
  get sharedTokens(): number {
    return (this.#holdings - (this.#holders.size - this.#idle.size)) * BLOCK_TOKENS;
  }

  /** Leading blocks of a prompt that are resident, at most `most`. */
  match(blocks: Int32Array, most: number): number {
    let count = 0;
    while (count < most && count < blocks.length && this.#holders.has(blocks[count] as number)) count += 1;
    return count;
  }

  /** How many of the first `count` blocks somebody holds. */
  heldAmong(blocks: Int32Array, count: number): number {
    let held = 0;
    for (let index = 0; index < count; index++) if ((this.#holders.get(blocks[index] as number) ?? 0) > 0) held += 1;
    return held;
  }

  /** Takes hold of the blocks from `from` to `to`; those that are not resident become so. */
  hold(blocks: Int32Array, from: number, to: number): void {
    for (let index = from; index < to; index++) {
      const block = blocks[index] as number;
      const holders = this.#holders.get(block) ?? 0;
      if (holders === 0) this.#idle.delete(block);
      this.#holders.set(block, holders + 1);
    }
    this.#holdings += to - from;
  }

  /** Lets go of the first `count` blocks. They stay resident, the last ones of the prompt being evicted first. */
  release(blocks: Int32Array, count: number): void {
    for (let index = count - 1; index >= 0; index--) {
      const block = blocks[index] as number;
      const holders = (this.#holders.get(block) as number) - 1;
      this.#holders.set(block, holders);
      if (holders === 0) this.#idle.add(block);
    }
    this.#holdings -= count;
  }

  /** Evicts blocks that nobody holds until at most so many of those are left. */
  shrinkIdle(most: number): void {
    if (this.#idle.size <= most) return;
    for (const block of this.#idle) {
      this.#idle.delete(block);
      this.#holders.delete(block);
      if (this.#idle.size <= most) return;
    }
  }

  /** Forgets everything: the node went down. */
  clear(): void {
    this.#holders.clear();
    this.#idle.clear();
    this.#holdings = 0;
  }
}
