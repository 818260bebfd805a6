/** The key that a request presents, out of its header fields as they came. */

import type { KeyFault } from "@zml/protocol";

/** What was found. */
export type PresentedKey =
  | { readonly kind: "key"; readonly value: string }
  | { readonly kind: "none" }
  | { readonly kind: "faulty"; readonly fault: Exclude<KeyFault, "unknown"> };

const NONE: PresentedKey = { kind: "none" };
const MALFORMED: PresentedKey = { kind: "faulty", fault: "malformed" };
const SEVERAL: PresentedKey = { kind: "faulty", fault: "several" };

/**
 * Reads `Authorization: Bearer KEY` and `x-api-key: KEY`. Both may stand there when they say the same, as some SDKs send
 * it. A field that stands twice is refused: Node keeps the first of one and joins the other, and a proxy in front may
 * have looked at another one than we would.
 *
 * @param rawHeaders name, value, name, value … as received
 */
export function presentedKey(rawHeaders: readonly string[]): PresentedKey {
  let authorization: string | null = null;
  let apiKey: string | null = null;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    // few fields have names of these lengths: the others cost a comparison of numbers
    if (name.length === AUTHORIZATION.length && name.toLowerCase() === AUTHORIZATION) {
      if (authorization !== null) return SEVERAL;
      authorization = rawHeaders[at + 1] as string;
    } else if (name.length === API_KEY.length && name.toLowerCase() === API_KEY) {
      if (apiKey !== null) return SEVERAL;
      apiKey = rawHeaders[at + 1] as string;
    }
  }
  if (apiKey === "") apiKey = null;
  if (apiKey !== null && !PRINTABLE.test(apiKey)) return MALFORMED;
  // another scheme is for somebody in between
  const bearer = authorization === null || !isBearer(authorization) ? "" : authorization.slice(SCHEME.length).trim();
  if (bearer === "") return apiKey === null ? NONE : { kind: "key", value: apiKey };
  if (!PRINTABLE.test(bearer)) return MALFORMED;
  return apiKey === null || apiKey === bearer ? { kind: "key", value: bearer } : SEVERAL;
}

const AUTHORIZATION = "authorization";
const API_KEY = "x-api-key";
const SCHEME = "bearer";
const PRINTABLE = /^[!-~]+$/;

function isBearer(value: string): boolean {
  return value.slice(0, SCHEME.length).toLowerCase() === SCHEME && (value[SCHEME.length] ?? " ") === " ";
}
