/**
 * Open connections of callers, over all workers: in all, and of each address. Each worker writes its own counts in shared
 * memory and adds up those of all; a place is taken first and looked at second, so that two workers at once may refuse one
 * connection too many, and never let one too many in.
 *
 * Addresses are not listed: each has one counter in each of `ROWS` rows, by a seeded hash, and the least of them counts
 * (a count-min sketch). Memory is fixed, whoever calls. An address shares all its counters with a full one only where both
 * hashes meet: with ten full addresses for one in 160,000.
 */

import { isIPv6 } from "node:net";

/** Counters of one row, per worker: 32 KiB for both rows. */
const COUNTERS = 4096;
const ROWS = 2;
const TOTAL = ROWS * COUNTERS;
const STRIDE = TOTAL + 1;
/** In front: the number of workers, and the seed of each row, so that nobody can aim at another's counters. */
const HEAD = 1 + ROWS;

/** Makes the counts of a process. `draw` gives numbers in [0, 1). */
export function createConnectionCounts(workers: number, draw: () => number): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(4 * (HEAD + workers * STRIDE));
  const cells = new Int32Array(buffer);
  cells[0] = workers;
  for (let row = 0; row < ROWS; row++) cells[1 + row] = Math.floor(draw() * 2 ** 31);
  return buffer;
}

/** Takes out what a worker that died had open. */
export function forgetConnections(buffer: SharedArrayBuffer, worker: number): void {
  ownOf(buffer, worker).fill(0);
}

/** Limits of open connections. */
export interface ConnectionLimits {
  readonly maxConnections: number;
  /** Infinity: the address has none. */
  readonly maxPerAddress: number;
}

/** What a connection holds until it closes. */
export interface ConnectionPlace {
  release(): void;
}

/** The counts as one worker keeps them. */
export class ConnectionCounts {
  readonly #own: Int32Array;
  readonly #all: readonly Int32Array[];
  readonly #seeds: readonly number[];

  constructor(buffer: SharedArrayBuffer, worker: number) {
    const cells = new Int32Array(buffer);
    this.#all = Array.from({ length: cells[0] as number }, (_, index) => ownOf(buffer, index));
    this.#own = ownOf(buffer, worker);
    this.#seeds = Array.from({ length: ROWS }, (_, row) => cells[1 + row] as number);
  }

  /** Open connections of all workers. */
  get total(): number {
    return this.#sum(TOTAL);
  }

  /**
   * Takes a place, or says which limit is reached.
   *
   * @param address of the caller; undefined: it has gone already, and only `maxConnections` holds.
   */
  take(address: string | undefined, limits: ConnectionLimits): ConnectionPlace | "total" | "address" {
    const cells = [TOTAL];
    if (address !== undefined) {
      const block = blockOf(address);
      this.#seeds.forEach((seed, row) => {
        cells.push(row * COUNTERS + (hash(block, seed) & (COUNTERS - 1)));
      });
    }
    this.#add(cells, 1);
    const isFull = this.#sum(TOTAL) > limits.maxConnections;
    const isAddressFull =
      address !== undefined && cells.every((cell) => cell === TOTAL || this.#sum(cell) > limits.maxPerAddress);
    if (isFull || isAddressFull) {
      this.#add(cells, -1);
      return isFull ? "total" : "address";
    }
    let isHeld = true;
    return {
      release: () => {
        if (isHeld) this.#add(cells, -1);
        isHeld = false;
      },
    };
  }

  #add(cells: readonly number[], amount: number): void {
    for (const cell of cells) Atomics.add(this.#own, cell, amount);
  }

  #sum(cell: number): number {
    let sum = 0;
    for (const counts of this.#all) sum += Atomics.load(counts, cell);
    return sum;
  }
}

/**
 * Whom an address stands for: an IPv4 address for itself, also where it is written in IPv6; of IPv6 the first 64 bits,
 * since whoever has one address has all that begin with those.
 */
export function blockOf(address: string): string {
  if (!isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped !== null) return mapped[1] as string;
  const [left = "", right] = (address.split("%", 1)[0] as string).split("::", 2);
  const before = left === "" ? [] : left.split(":");
  const after = right === undefined || right === "" ? [] : right.split(":");
  // a last group in the form of IPv4 stands for two
  const width = after.length + (after.at(-1)?.includes(".") === true ? 1 : 0);
  const zeros = right === undefined ? 0 : Math.max(0, 8 - before.length - width);
  const groups = [...before, ...Array<string>(zeros).fill("0"), ...after].slice(0, 4);
  return groups.map((group) => Number.parseInt(group, 16).toString(16)).join(":");
}

function ownOf(buffer: SharedArrayBuffer, worker: number): Int32Array {
  return new Int32Array(buffer, 4 * (HEAD + worker * STRIDE), STRIDE);
}

/** FNV-1a with a seeded start, mixed at the end as murmur3 does, since only the low bits are used. */
function hash(text: string, seed: number): number {
  let mixed = seed ^ 0x811c9dc5;
  for (let at = 0; at < text.length; at++) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
