/**
 * Herd index: how far a moment's traffic heaps on one node. Of every window of a second the largest share that a node
 * got over its fair share (1 ÷ nodes); the mean over windows, weighted by their requests. 1: evenly spread; the number of
 * nodes: everything on one. A policy that fills cheap nodes first is above 1 by intention: compare like with like.
 */

const WINDOW_MS = 1_000;

export class HerdMeter {
  readonly #counts: Int32Array;
  #window = 0;
  #requests = 0;
  #sum = 0;
  #weight = 0;

  constructor(nodes: number) {
    this.#counts = new Int32Array(nodes);
  }

  note(row: number, nowMs: number): void {
    const window = Math.floor(nowMs / WINDOW_MS);
    if (window !== this.#window) this.#close();
    this.#window = window;
    this.#counts[row] = (this.#counts[row] as number) + 1;
    this.#requests += 1;
  }

  /** NaN: nothing was dispatched. */
  index(): number {
    this.#close();
    return this.#sum / this.#weight;
  }

  #close(): void {
    if (this.#requests === 0) return;
    let most = 0;
    for (const count of this.#counts) if (count > most) most = count;
    // requests × (most ÷ requests) × nodes
    this.#sum += most * this.#counts.length;
    this.#weight += this.#requests;
    this.#counts.fill(0);
    this.#requests = 0;
  }
}
