/** What a request's head says before anybody has looked at what is asked. */

import type { IncomingMessage } from "node:http";
import type { CallerRequest } from "./caller.ts";

/** The path of a request's target, without its query. */
export function pathOf({ url = "" }: CallerRequest): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}

/** RFC 9112, 3.2: no host, or several, is a bad request; HTTP/1.0 has none. */
export function hasOneHost({ rawHeaders, httpVersionMinor }: IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  return hosts === 1 || (hosts === 0 && httpVersionMinor === 0);
}

/** Characters of a request's fields and target, with what stands between them. */
export function headLength({ rawHeaders, url }: CallerRequest): number {
  let length = url?.length ?? 0;
  for (let at = 0; at < rawHeaders.length; at++) length += (rawHeaders[at] as string).length + 2;
  return length;
}

/**
 * RFC 9112, 6.1: a transfer coding that is not known is refused. The parser takes whatever ends with `chunked`; a reader in
 * front of us that does not would see the end of the body elsewhere.
 */
export function hasPlainFraming({ headers }: IncomingMessage): boolean {
  const coding = headers["transfer-encoding"];
  return coding === undefined || coding.toLowerCase() === "chunked";
}

export function hasBody({ headers }: CallerRequest): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** True for a method that only reads. */
export function isRead({ method }: CallerRequest): boolean {
  return method === "GET" || method === "HEAD";
}
