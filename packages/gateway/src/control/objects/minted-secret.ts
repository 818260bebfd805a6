/** Secrets of the keys that the gateway makes. */

import { randomBytes } from "node:crypto";
import type { StoredDigest } from "../../store/object-operations.ts";

/** Tells people and scanners of leaked keys what it is. */
const PREFIX = "zml_";
/** 256 bits: 43 characters of base64url. */
const SECRET_BYTES = 32;

/** A new secret. Hand it to whoever asked for it; keep its digest only. */
export function mintSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

/** The accepted values after a rotation: those that have ended go, the others end after the overlap at the latest. */
export function afterRotation(
  digests: readonly StoredDigest[],
  digest: string,
  { nowMs, overlapMs }: { nowMs: number; overlapMs: number },
): StoredDigest[] {
  const endsAtMs = nowMs + overlapMs;
  const kept = digests
    .map((old) => ({ ...old, expiresAtMs: Math.min(old.expiresAtMs ?? Number.POSITIVE_INFINITY, endsAtMs) }))
    .filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  return [...kept, { digest, createdAtMs: nowMs, expiresAtMs: null }];
}
