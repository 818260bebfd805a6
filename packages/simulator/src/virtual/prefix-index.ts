/**
 * What a router believes to stand in a node's prefix cache: the blocks of what it sent there, least recently used first
 * to go. The node itself may have evicted more, or hold what other gateways sent.
 */
export class PrefixIndex {
  readonly #blocks = new Set<number>();
  readonly #most: number;

  /** @param most blocks that the node can hold. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Leading blocks that are believed to be there. */
  match(blocks: Int32Array): number {
    let count = 0;
    while (count < blocks.length && this.#blocks.has(blocks[count] as number)) count += 1;
    return count;
  }

  note(blocks: Int32Array): void {
    // the last ones first, so that a prompt's beginning is the last to go
    for (let index = blocks.length - 1; index >= 0; index--) {
      const block = blocks[index] as number;
      this.#blocks.delete(block);
      this.#blocks.add(block);
    }
    for (const block of this.#blocks) {
      if (this.#blocks.size <= this.#most) return;
      this.#blocks.delete(block);
    }
  }

  clear(): void {
    this.#blocks.clear();
  }
}
