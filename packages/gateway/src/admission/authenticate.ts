/** Who calls: the key's holder, or nobody. */

import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { DEFAULT_ACCOUNT } from "@zml/protocol/fixed-names";
import type { WorkerKey } from "../thread-messages.ts";

export type Caller =
  | { kind: "known"; account: string }
  | { kind: "refused"; code: "missing_api_key" | "invalid_api_key" }
  | { kind: "forbidden"; key: string };

/** The one caller of a gateway that asks for no key. */
const ANYBODY: Caller = { kind: "known", account: DEFAULT_ACCOUNT };

/**
 * Finds the caller by the key in `Authorization: Bearer` or `x-api-key`. Keys are compared by their SHA-256, so that
 * the time taken tells nothing about a key.
 */
export function authenticate(headers: IncomingHttpHeaders, keys: ReadonlyMap<string, WorkerKey>): Caller {
  if (keys.size === 0) return ANYBODY;
  const presented = presentedKey(headers);
  if (presented === null) return { kind: "refused", code: "missing_api_key" };
  const key = keys.get(hash("sha256", presented));
  if (key === undefined) return { kind: "refused", code: "invalid_api_key" };
  if (!key.scopes.includes("infer")) return { kind: "forbidden", key: key.name };
  return { kind: "known", account: key.account };
}

function presentedKey(headers: IncomingHttpHeaders): string | null {
  const { authorization } = headers;
  if (authorization !== undefined) {
    const match = /^bearer +(\S+)$/i.exec(authorization);
    if (match !== null) return match[1] as string;
  }
  const apiKey = headers["x-api-key"];
  return typeof apiKey === "string" && apiKey !== "" ? apiKey : null;
}
