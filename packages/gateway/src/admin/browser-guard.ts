/**
 * What keeps pages in a browser away from the admin port. It answers no CORS, so that no page reads what another origin
 * asked for; but a page can send simple requests anywhere, and a name that it controls can be pointed at 127.0.0.1 (DNS
 * rebinding), after which it is of the same origin. A port that asks for no key has nothing else against either.
 */

import type { IncomingHttpHeaders } from "node:http";
import { isLoopback } from "@zml/protocol";
import { AdminProblem, shown } from "./admin-problem.ts";

/** Headers of every answer: nothing is kept, guessed from its content, framed or embedded. */
export const GUARD_HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
} as const;

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

/**
 * Refuses what a page of another site sends to change something. `sec-fetch-site` is said by every browser of today,
 * `origin` with every POST by older ones; programs say neither. The content type that each POST needs is the third guard:
 * a page can't send it elsewhere without a preflight, which is refused.
 *
 * @throws AdminProblem 403.
 */
export function refuseCrossSite(method: string, headers: IncomingHttpHeaders): void {
  if (SAFE_METHODS.has(method)) return;
  const site = headers["sec-fetch-site"];
  const { origin, host } = headers;
  const isForeign = site !== undefined && site !== "same-origin" && site !== "none";
  if (!isForeign && (origin === undefined || originHost(origin) === host?.toLowerCase())) return;
  throw new AdminProblem(
    "cross_site",
    `a page of ${shown(origin ?? String(site))} sent this: the admin port takes changes from programs and its own pages only`,
  );
}

/**
 * Refuses a name that is not this machine's, where a port on loopback asks for no key.
 *
 * @param listenHost as configured
 * @throws AdminProblem 403.
 */
export function refuseForeignHost(host: string | undefined, listenHost: string): void {
  const name = hostName(host ?? "");
  if (name !== null && (isLoopback(name) || name === listenHost.toLowerCase())) return;
  throw new AdminProblem(
    "host_not_allowed",
    `host ${shown(host ?? "")} is no name of this machine: ask for localhost or a loopback address, or add a key with the scope admin`,
  );
}

/** The name in a Host header, without port and brackets; null: it is none. */
function hostName(host: string): string | null {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]@/\\?#\s]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.replace(/\.$/, "").toLowerCase() ?? null;
}

/** Host and port of an origin as a Host header would say them; null: it is opaque. */
function originHost(origin: string): string | null {
  return URL.canParse(origin) && origin !== "null" ? new URL(origin).host : null;
}
