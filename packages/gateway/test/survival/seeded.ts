/** Draws that can be repeated: mulberry32. */

export class Seeded {
  #state: number;

  constructor(...seeds: readonly number[]) {
    this.#state = 0x9e3779b9;
    for (const seed of seeds) this.#state = (Math.imul(this.#state ^ seed, 0x85ebca6b) ^ (seed >>> 15)) | 0;
  }

  /** 0 ≤ x < 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `count - 1`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.below(256)));
  }

  /** Cuts bytes into pieces at some points. */
  pieces(bytes: Buffer, cutsMax = 3): Buffer[] {
    const cuts = Array.from({ length: this.below(cutsMax + 1) }, () => this.below(bytes.length + 1)).sort(
      (a, b) => a - b,
    );
    return [0, ...cuts].map((from, index) => bytes.subarray(from, cuts[index] ?? bytes.length));
  }

  /** One to three small changes of the kinds that parsers stumble over. */
  mutate(bytes: Buffer): Buffer {
    let changed: Buffer = bytes;
    for (let times = 1 + this.below(3); times > 0; times--) changed = this.#mutateOnce(changed);
    return changed;
  }

  #mutateOnce(bytes: Buffer): Buffer {
    const at = this.below(bytes.length + 1);
    const until = Math.min(bytes.length, at + 1 + this.below(20));
    const [before, middle, after] = [bytes.subarray(0, at), bytes.subarray(at, until), bytes.subarray(until)];
    switch (this.below(6)) {
      case 0:
        return Buffer.concat([before, after]);
      case 1:
        return Buffer.concat([before, middle, middle, after]);
      case 2:
        return Buffer.concat([before, this.bytes(1 + this.below(4)), bytes.subarray(at)]);
      case 3:
        return Buffer.concat([before, Buffer.from(this.pick(SHARP), "latin1"), bytes.subarray(at)]);
      case 4:
        return Buffer.concat([before, Buffer.from(this.pick(SHARP), "latin1"), after]);
      default: {
        const copy = Buffer.from(bytes);
        if (at < copy.length) copy[at] = (copy[at] as number) ^ (1 << this.below(8));
        return copy;
      }
    }
  }
}

/** Bytes on which readers of HTTP disagree. */
const SHARP = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ";",
  ",",
  "0",
  "ffffffffffffffff",
  "\x0b",
  "\x7f",
  "\xff",
  "chunked",
  "-1",
];
