/**
 * Which nodes were sent which prompt, by hashes of prompts' beginnings: what stands in a node's prefix cache, as far as
 * nobody else put it there. Shared memory of a fixed size, which all workers read and write without locks.
 *
 * A prompt is cut into blocks, and a hash is kept of its beginning up to some of them (`marks`). An entry has a tag, the
 * time of its last use, and the nodes that were sent such a beginning, each with the node's `cacheClock` at that time: the
 * tokens that went in since tell whether it still stands there. The entry of a bucket that was used longest ago gives way.
 *
 * Workers that write one entry at once may mix two: a hint that is wrong, which costs a request the cache that it hoped
 * for. No word of a prompt is kept, and hashes are keyed anew by each process.
 */

import { assert } from "./assert.ts";
import { TICK_MS } from "./bounds.ts";

/** Beginnings of one prompt that routing knows it by, shortest first. */
export interface PromptMarks {
  /** Hash of the prompt up to each mark. */
  readonly hashes: Int32Array;
  /** Share of the prompt up to each mark, 0 to 1, growing. */
  readonly shares: Float64Array;
}

/** Marks of one prompt at most. */
export const PROMPT_MARKS_MAX = 128;

/** Blocks up to which each has a mark; beyond, marks stand a sixteenth apart, so that what one misses is 6 % at most. */
const DENSE_BLOCKS = 16;

/** The block with the next mark after one: 1, 2, … 16, 17, … 32, 34, … */
export function nextMark(block: number): number {
  return block + Math.max(1, Math.floor(block / DENSE_BLOCKS));
}

/** Words of an entry: tag, tick of the last use, holders. A half of a cache line. */
const ENTRY_WORDS = 8;
const HOLDERS = ENTRY_WORDS - 2;
/** Entries of a bucket: two cache lines. */
const WAYS = 4;

/** Unit of a holder's clock, tokens: half a block would tell more than the memory of a node does. */
const CLOCK_BITS = 11;
/**
 * Clocks are told apart modulo 2^16 units, 134 million tokens. What looks older than a sixteenth of that, as much as the
 * largest nodes hold, is taken for gone.
 */
const CLOCK_MASK = 0xffff;
const GONE_UNITS = 0x1000;
/**
 * What is added to a clock for a cache that was lost. One crash is noticed several times, by calls that break and by polls,
 * and a node may crash again within the hour: fifteen of these do not come round.
 */
export const CACHE_LOST_TOKENS = GONE_UNITS << CLOCK_BITS;

/** An entry that nobody used for so long is void, ticks: an hour, in which no clock comes round. */
const VOID_TICKS = 3_600_000 / TICK_MS;

/** Views of one prefix table. */
export interface PrefixTable {
  readonly buffer: SharedArrayBuffer;
  /** Entries, a power of two. */
  readonly entries: number;
  /** Key of the hashes. */
  readonly key: number;
  readonly words: Int32Array;
}

/** Key, in front of the entries, padded to a cache line. */
const HEAD_WORDS = 16;

/**
 * Makes an empty table.
 *
 * @param entries at least; the next power of two is taken, from 4 on. @param key any 32 bits that nobody can guess.
 */
export function createPrefixTable({ entries, key }: { entries: number; key: number }): PrefixTable {
  assert(Number.isInteger(entries) && entries > 0, "a prefix table has at least one entry");
  const size = Math.max(WAYS, 2 ** Math.ceil(Math.log2(entries)));
  const buffer = new SharedArrayBuffer((HEAD_WORDS + size * ENTRY_WORDS) * 4);
  new Int32Array(buffer)[0] = key | 0;
  return attachPrefixTable(buffer);
}

/** Attaches to a table that another thread made. */
export function attachPrefixTable(buffer: SharedArrayBuffer): PrefixTable {
  const words = new Int32Array(buffer);
  const entries = (words.length - HEAD_WORDS) / ENTRY_WORDS;
  assert(Number.isInteger(entries) && (entries & (entries - 1)) === 0, "the buffer has the size of a prefix table");
  return { buffer, entries, key: words[0] as number, words };
}

/** Told each node that was sent a beginning: its row, and the units of `cacheClock` at that time. */
type OnHolder = (row: number, clock: number) => void;

/** Calls `onHolder` for the nodes that were sent the beginning `hash` of a prompt of this model. O(1). */
export function readHolders(
  { words, entries, key }: PrefixTable,
  { model, hash, nowTick }: { model: number; hash: number; nowTick: number },
  onHolder: OnHolder,
): void {
  const tag = tagOf(key, model, hash);
  const bucket = bucketOf(entries, tag);
  for (let way = 0; way < WAYS; way++) {
    const entry = bucket + way * ENTRY_WORDS;
    if (words[entry] !== tag) continue;
    if (nowTick - (words[entry + 1] as number) > VOID_TICKS) return;
    for (let holder = entry + 2; holder < entry + ENTRY_WORDS; holder++) {
      const word = words[holder] as number;
      if (word !== 0) onHolder((word >>> 16) - 1, word & CLOCK_MASK);
    }
    return;
  }
}

/** Notes that a node is sent the beginning `hash` of a prompt of this model. O(1). */
export function noteHolder(
  { words, entries, key }: PrefixTable,
  { model, hash, nowTick }: { model: number; hash: number; nowTick: number },
  { row, clock }: { row: number; clock: number },
): void {
  // a holder's row has 16 bits: a larger fleet routes its later rows without
  if (row >= CLOCK_MASK) return;
  const tag = tagOf(key, model, hash);
  const bucket = bucketOf(entries, tag);
  let entry = -1;
  let oldest = bucket;
  for (let way = 0; way < WAYS; way++) {
    const at = bucket + way * ENTRY_WORDS;
    if (words[at] === tag) {
      entry = at;
      break;
    }
    if ((words[at + 1] as number) < (words[oldest + 1] as number)) oldest = at;
  }
  if (entry < 0 || nowTick - (words[entry + 1] as number) > VOID_TICKS) {
    entry = entry < 0 ? oldest : entry;
    words.fill(0, entry + 2, entry + ENTRY_WORDS);
    Atomics.store(words, entry, tag);
  }
  Atomics.store(words, entry + 1, nowTick);
  // its own place, else a free one, else that of another node: which one is the row's to say
  let place = entry + 2 + (row % HOLDERS);
  for (let holder = entry + 2; holder < entry + ENTRY_WORDS; holder++) {
    const word = words[holder] as number;
    if (word >>> 16 === row + 1) {
      place = holder;
      break;
    }
    if (word === 0) place = words[place] === 0 ? place : holder;
  }
  Atomics.store(words, place, ((row + 1) << 16) | clock);
}

/** Units of a node's `cacheClock`, as holders keep them. */
export function clockUnits(tokens: number): number {
  return (tokens >>> CLOCK_BITS) & CLOCK_MASK;
}

/** Tokens that went into a node's cache between two clocks; Infinity: too many to tell, or it was lost. */
export function tokensBetween(clock: number, nowClock: number): number {
  const units = (nowClock - clock) & CLOCK_MASK;
  return units >= GONE_UNITS ? Number.POSITIVE_INFINITY : units << CLOCK_BITS;
}

/** 32 bits of a keyed hash; 0 is no tag. */
function tagOf(key: number, model: number, hash: number): number {
  const tag = mix(mix(hash ^ key) + Math.imul(model + 1, 0x9e3779b1));
  return tag === 0 ? 1 : tag;
}

function bucketOf(entries: number, tag: number): number {
  const buckets = entries / WAYS;
  return HEAD_WORDS + (mix(tag ^ 0x5bd1e995) & (buckets - 1)) * WAYS * ENTRY_WORDS;
}

/** Finalizer of MurmurHash3: every bit of the input moves every bit of the output. */
function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

/** Nodes that are believed to hold a beginning of the present request's prompt. Valid until the next look. */
export interface WarmNodes {
  /** Prompt tokens that each row is believed to hold, by row; 0: none. */
  readonly tokens: Float64Array;
  /** Rows with some, `count` of them. */
  readonly rows: Int32Array;
  count: number;
}
