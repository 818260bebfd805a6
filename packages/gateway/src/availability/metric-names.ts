/** The names that a reader of metrics wants, as a tree of characters: another name is told by its first odd character. */

/** Characters of a name are ASCII: `[a-zA-Z_:][a-zA-Z0-9_:]*`. */
const ALPHABET = 128;

const made = new WeakMap<ReadonlySet<string>, MetricNames>();

/** See the head of this file. Immutable. */
export class MetricNames {
  /** Row `node × ALPHABET`, column character: the next node; 0: no wanted name goes on like this. */
  readonly #next: Int32Array;
  /** By node: the name that ends there. */
  readonly #nameAt: readonly (string | undefined)[];

  constructor(wanted: Iterable<string>) {
    const names = [...wanted];
    let nodes = 1;
    for (const name of names) nodes += name.length;
    const next = new Int32Array(nodes * ALPHABET);
    const nameAt: (string | undefined)[] = [undefined];
    for (const name of names) {
      let node = 0;
      for (let index = 0; index < name.length; index++) {
        const code = name.charCodeAt(index);
        if (code >= ALPHABET) throw new RangeError(`a metric name is ASCII, got ${JSON.stringify(name)}`);
        const cell = node * ALPHABET + code;
        if (next[cell] === 0) {
          next[cell] = nameAt.length;
          nameAt.push(undefined);
        }
        node = next[cell] as number;
      }
      if (node !== 0) nameAt[node] = name;
    }
    this.#next = next;
    this.#nameAt = nameAt;
  }

  /** The names of a set, which must not change. Made once per set. */
  static of(wanted: ReadonlySet<string>): MetricNames {
    const known = made.get(wanted);
    if (known !== undefined) return known;
    const names = new MetricNames(wanted);
    made.set(wanted, names);
    return names;
  }

  /**
   * The longest prefix of a wanted name that stands at `start`.
   *
   * @returns where it ends. Whether that is the end of a name, and of which, tells `nameBetween`.
   */
  walk(text: string, start: number): number {
    const next = this.#next;
    let node = 0;
    let at = start;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code >= ALPHABET) break;
      const following = next[node * ALPHABET + code] as number;
      if (following === 0) break;
      node = following;
    }
    this.#last = node;
    return at;
  }

  /** Node where the last walk ended. */
  #last = 0;

  /** The name at which the last walk ended; undefined: in the middle of one, or of none. */
  get walked(): string | undefined {
    return this.#nameAt[this.#last];
  }
}
