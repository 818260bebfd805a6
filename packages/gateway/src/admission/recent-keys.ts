/**
 * Keys that a worker has seen of late and found valid. A digest is 0.6 µs in a loop and four times that between everything
 * else that a request runs, since its code has left the processor's caches by then; a key that comes again is compared
 * instead, in a time that tells nothing about the keys that are kept here.
 */

/** Keys that are kept; each has one place, and a later one of the same place takes it. */
const PLACES = 256;
/** Longer ones are not kept. Ours have 47 characters. */
const LENGTH_MAX = 512;

interface Seen<Holder> {
  readonly key: string;
  readonly holder: Holder;
}

export class RecentKeys<Holder> {
  readonly #places: (Seen<Holder> | null)[] = new Array(PLACES).fill(null);

  /** Null: not known here; only a digest can tell whose it is. */
  find(key: string): Holder | null {
    if (key.length > LENGTH_MAX) return null;
    const seen = this.#places[placeOf(key)] ?? null;
    return isSame(key, seen === null ? "" : seen.key) && seen !== null ? seen.holder : null;
  }

  /** @param key valid: what callers make up may not push out what others use */
  note(key: string, holder: Holder): void {
    if (key.length <= LENGTH_MAX) this.#places[placeOf(key)] = { key, holder };
  }
}

function placeOf(key: string): number {
  const { length } = key;
  return (key.charCodeAt(length - 1) ^ (key.charCodeAt(length - 2) << 2)) & (PLACES - 1);
}

/** Takes as long whatever `kept` is: the same reads for another key, one of another length, and none. */
function isSame(key: string, kept: string): boolean {
  const other = kept.length === key.length ? kept : key;
  let difference = kept.length ^ key.length;
  for (let at = 0; at < key.length; at++) difference |= key.charCodeAt(at) ^ other.charCodeAt(at);
  return difference === 0;
}
