/**
 * Which requests a connection of HTTP/1.1 legitimately makes: a slow reader that takes RFC 9112 at its strictest and stops
 * at the first thing that two readers could see in two ways. Whatever a node gets beyond this was smuggled.
 */

export interface StrictRequest {
  /** The mark in its body, null: it has none. */
  readonly mark: string | null;
  /** Null: its framing can be read in two ways, so that it may run with either body, or not at all. */
  readonly body: Buffer | null;
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: what no value may hold
const BAD_VALUE = /[\0-\x08\x0a-\x1f\x7f]/;
const MARK = /"user":"([a-z]+-\d+-\d+)"/;

export function markOf(text: string): string | null {
  return MARK.exec(text)?.[1] ?? null;
}

export function strictRequests(bytes: Buffer): StrictRequest[] {
  const requests: StrictRequest[] = [];
  let at = 0;
  while (at < bytes.length) {
    // an empty line before a request is forgiven (RFC 9112, 2.2)
    if (bytes.toString("latin1", at, at + 2) === "\r\n") {
      at += 2;
      continue;
    }
    const end = bytes.indexOf("\r\n\r\n", at);
    if (end < 0) break;
    const lines = bytes.toString("latin1", at, end).split("\r\n");
    const framing = framingOf(lines);
    const rest = bytes.subarray(end + 4);
    if (framing === null) {
      // whichever way it is read, it may be itself, with what follows it, and nothing else
      requests.push({ mark: markOf(rest.toString("latin1")), body: null });
      break;
    }
    const read = framing === "chunked" ? readChunked(rest) : readLength(rest, framing);
    if (read === null) {
      requests.push({ mark: markOf(rest.toString("latin1")), body: null });
      break;
    }
    requests.push({ mark: markOf(read.body.toString("latin1")), body: read.body });
    at = end + 4 + read.length;
  }
  return requests;
}

/** Length of the body, or chunked; null: not one single meaning. */
function framingOf([requestLine = "", ...lines]: readonly string[]): number | "chunked" | null {
  if (!/^[A-Z]+ +[!-~]+ +HTTP\/1\.[01]$/.test(requestLine)) return null;
  const lengths: string[] = [];
  const codings: string[] = [];
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon));
    const value = line.slice(colon + 1);
    if (!TOKEN.test(name) || BAD_VALUE.test(value)) return null;
    if (name.toLowerCase() === "content-length") lengths.push(value.trim());
    if (name.toLowerCase() === "transfer-encoding") codings.push(value.trim().toLowerCase());
  }
  if (codings.length > 0) {
    return lengths.length === 0 && codings.length === 1 && codings[0] === "chunked" ? "chunked" : null;
  }
  if (lengths.length === 0) return 0;
  return lengths.length === 1 && /^\d{1,9}$/.test(lengths[0] as string) ? Number(lengths[0]) : null;
}

function readLength(rest: Buffer, length: number): { body: Buffer; length: number } | null {
  return rest.length < length ? null : { body: rest.subarray(0, length), length };
}

function readChunked(rest: Buffer): { body: Buffer; length: number } | null {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const end = rest.indexOf("\r\n", at);
    if (end < 0) return null;
    const line = rest.toString("latin1", at, end);
    const [, digits] = /^([0-9a-fA-F]{1,7})(?:;[!-~ \t]*)?$/.exec(line) ?? [];
    if (digits === undefined) return null;
    const size = Number.parseInt(digits, 16);
    at = end + 2;
    if (size === 0) break;
    parts.push(rest.subarray(at, at + size));
    at += size;
    if (rest.toString("latin1", at, at + 2) !== "\r\n") return null;
    at += 2;
  }
  for (;;) {
    const end = rest.indexOf("\r\n", at);
    if (end < 0) return null;
    const line = rest.toString("latin1", at, end);
    at = end + 2;
    if (line === "") return { body: Buffer.concat(parts), length: at };
    const colon = line.indexOf(":");
    if (!TOKEN.test(line.slice(0, Math.max(0, colon))) || BAD_VALUE.test(line.slice(colon + 1))) return null;
  }
}
