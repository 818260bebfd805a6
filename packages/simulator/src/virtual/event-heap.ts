/**
 * Events in order of time, those of one moment in the order in which they were added. A binary heap over columns: an
 * event is a kind and two numbers, so that nothing is allocated for it.
 */
export class EventHeap {
  /** Of the event that `pop` took. */
  atMs = Number.NaN;
  kind = 0;
  a = 0;
  b = 0;

  #size = 0;
  #added = 0;
  #at = new Float64Array(1024);
  #order = new Float64Array(1024);
  #kind = new Int32Array(1024);
  #a = new Int32Array(1024);
  #b = new Int32Array(1024);

  get size(): number {
    return this.#size;
  }

  /** Time of the next event, ms; Infinity: there is none. */
  get nextMs(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#at[0] as number);
  }

  add(atMs: number, kind: number, a: number, b = 0): void {
    if (this.#size === this.#at.length) this.#grow();
    const order = this.#added++;
    let index = this.#size++;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const parentAt = this.#at[parent] as number;
      // an equal time was added before
      if (parentAt <= atMs) break;
      this.#move(parent, index);
      index = parent;
    }
    this.#put(index, atMs, order, kind, a, b);
  }

  /** Takes the next event into the fields; false: there is none. */
  pop(): boolean {
    if (this.#size === 0) return false;
    this.atMs = this.#at[0] as number;
    this.kind = this.#kind[0] as number;
    this.a = this.#a[0] as number;
    this.b = this.#b[0] as number;
    const last = --this.#size;
    if (last === 0) return true;
    const at = this.#at[last] as number;
    const order = this.#order[last] as number;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= last) break;
      if (child + 1 < last && this.#isBefore(child + 1, this.#at[child] as number, this.#order[child] as number))
        child += 1;
      if (!this.#isBefore(child, at, order)) break;
      this.#move(child, index);
      index = child;
    }
    this.#put(index, at, order, this.#kind[last] as number, this.#a[last] as number, this.#b[last] as number);
    return true;
  }

  #isBefore(index: number, at: number, order: number): boolean {
    const own = this.#at[index] as number;
    return own < at || (own === at && (this.#order[index] as number) < order);
  }

  #move(from: number, to: number): void {
    this.#at[to] = this.#at[from] as number;
    this.#order[to] = this.#order[from] as number;
    this.#kind[to] = this.#kind[from] as number;
    this.#a[to] = this.#a[from] as number;
    this.#b[to] = this.#b[from] as number;
  }

  #put(index: number, at: number, order: number, kind: number, a: number, b: number): void {
    this.#at[index] = at;
    this.#order[index] = order;
    this.#kind[index] = kind;
    this.#a[index] = a;
    this.#b[index] = b;
  }

  #grow(): void {
    const length = this.#at.length * 2;
    const wider = <T extends Float64Array | Int32Array>(column: T, next: T): T => {
      next.set(column);
      return next;
    };
    this.#at = wider(this.#at, new Float64Array(length));
    this.#order = wider(this.#order, new Float64Array(length));
    this.#kind = wider(this.#kind, new Int32Array(length));
    this.#a = wider(this.#a, new Int32Array(length));
    this.#b = wider(this.#b, new Int32Array(length));
  }
}
