/**
 * What stands for a caller's key wherever it is kept or compared: HMAC-SHA-256 under a pepper that only this gateway has.
 * A digest tells nothing about the key, and nobody without the pepper can choose a key by the digest that it will have,
 * so that looking one up in a map takes a time that says nothing about the keys that are there.
 */

import { createHmac, hash, randomBytes } from "node:crypto";

/** Bytes of a pepper. */
const PEPPER_BYTES = 32;
/** Bytes of a block of SHA-256, to which HMAC fills its key (RFC 2104). */
const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** Keys up to this length are digested without an allocation; ours have 47 characters. */
const FAST_BYTES_MAX = 512;

/** The pepper of this process, for keys that nothing keeps. */
export const PROCESS_PEPPER: Uint8Array = randomBytes(PEPPER_BYTES);

/** Digest of a key, hex. */
export type KeyDigest = (secret: string) => string;

/** The digest of one key, hex. For many: {@link createKeyDigest}. */
export function keyDigest(pepper: Uint8Array, secret: string): string {
  return createHmac("sha256", pepper).update(secret).digest("hex");
}

/**
 * The same as a function that has the pepper ready. It is on the way of every request: 0.55 µs, where `createHmac`
 * takes 1.5 and leaves an object to collect.
 *
 * @returns for a secret of ASCII; others are {@link keyDigest}'s.
 */
export function createKeyDigest(pepper: Uint8Array): KeyDigest {
  if (pepper.length > BLOCK_BYTES) throw new Error(`a pepper has at most ${BLOCK_BYTES} bytes, got ${pepper.length}`);
  const inner = Buffer.alloc(BLOCK_BYTES + FAST_BYTES_MAX);
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);
  /** Beginnings of `inner`, by length. */
  const views: Buffer[] = [];
  for (let index = 0; index < BLOCK_BYTES; index++) {
    inner[index] = (pepper[index] ?? 0) ^ 0x36;
    outer[index] = (pepper[index] ?? 0) ^ 0x5c;
  }
  return (secret) => {
    if (secret.length > FAST_BYTES_MAX) return keyDigest(pepper, secret);
    const end = BLOCK_BYTES + inner.write(secret, BLOCK_BYTES, "latin1");
    views[end] ??= inner.subarray(0, end);
    // as text: making a Buffer of the inner digest takes longer than both digests
    outer.write(hash("sha256", views[end], "binary"), BLOCK_BYTES, "latin1");
    return hash("sha256", outer, "hex");
  };
}
