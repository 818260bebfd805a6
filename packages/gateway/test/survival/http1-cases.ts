/** Connections of HTTP/1.1 that try to make a node see a request that nobody made, and others that are plain wrong. */

import { chunk } from "../scripted-node.ts";
import { Seeded } from "./seeded.ts";

const TARGETS = [
  "/v1/chat/completions",
  "http://x/v1/chat/completions",
  "http://elsewhere/v1/chat/completions",
  "//v1/chat/completions",
  "/v1/../v1/chat/completions",
  "/v1/chat/completions?a=b",
  "/v1/chat/completions#a",
  "/v1/chat/completions ",
  "*",
  "x:443",
  "/v1/chat%2fcompletions",
  "/",
];
const METHODS = ["POST", "POST", "POST", "POST", "GET", "HEAD", "post", "OPTIONS", "PUT", "CONNECT", "TRACE", "PRI"];
const VERSIONS = ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", ""];
const LENGTHS = [
  "L",
  "L",
  "L",
  "+L",
  "0xL",
  "L ",
  " L",
  "L,L",
  "L, 0",
  "-L",
  "0L",
  "L.0",
  "1e3",
  "",
  "0",
  "99999999999999999999",
];
const CODINGS = [
  "chunked",
  "Chunked",
  "chunked, identity",
  "identity, chunked",
  "chunked, chunked",
  "xchunked",
  "chunked\x0b",
  "chunked;q=1",
  '"chunked"',
  "gzip, chunked",
  "identity",
  "",
  ",",
  "\r\n chunked",
  "\tchunked\t",
];
const CODING_NAMES = [
  "transfer-encoding",
  "Transfer-Encoding",
  "transfer-encoding ",
  "transfer_encoding",
  " transfer-encoding",
  "x: y\ntransfer-encoding",
  "x: y\rtransfer-encoding",
  "transfer-encoding\0",
];
const LINE_ENDS = ["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n ", "\r\r\n"];
const CHUNK_HEADS = [
  "S",
  "S",
  "S",
  "0S",
  "S;a=b",
  'S;a="\r\n',
  "S;\n",
  "S ",
  " S",
  "0xS",
  "+S",
  "-S",
  "S\r",
  "S\n",
  "ffffffffffffffffS",
  "",
  "zz",
];
const TRAILERS = [
  "",
  "",
  "x: y\r\n",
  "content-length: 5\r\n",
  "transfer-encoding: chunked\r\n",
  "x y\r\n",
  "\n",
  `x: ${"y".repeat(20_000)}\r\n`,
];

/** One connection: what is sent, and in which pieces. */
export interface ConnectionCase {
  readonly pieces: readonly Buffer[];
  /** How the caller goes on once all is sent. */
  readonly after: "wait" | "fin" | "reset";
}

/** The bytes of a chat request with a mark. */
export function chatRequest(mark: string, model = "m", more: object = {}): string {
  return JSON.stringify({ model, user: mark, messages: [{ role: "user", content: "hi" }], max_tokens: 4, ...more });
}

function wholeRequest(mark: string, random: Seeded): Buffer {
  const body = chatRequest(mark, "m", random.chance(0.3) ? { stream: true } : {});
  const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
  if (random.chance(0.3)) {
    const chunks = random.pieces(Buffer.from(body)).filter(({ length }) => length > 0);
    return Buffer.concat([
      Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`),
      ...chunks.map(chunk),
      Buffer.from("0\r\n\r\n"),
    ]);
  }
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

/** A carrier whose framing is odd, with a request hidden in or behind its body. */
function smuggle(random: Seeded, mark: (kind: string) => string): Buffer {
  const hidden = wholeRequest(mark("hidden"), random).toString("latin1");
  const own = chatRequest(mark("carrier"));
  const hasLength = random.chance(0.8);
  const hasCoding = random.chance(0.7);
  const isHiddenInside = random.chance(0.5);
  const body = hasCoding ? chunkedBody(own, isHiddenInside ? hidden : "", random) : isHiddenInside ? own + hidden : own;
  const told = random.pick([body.length, body.length, own.length, 0, 4, body.length + 7]);
  const end = random.pick(LINE_ENDS);
  const lines = ["host: x"];
  if (random.chance(0.1))
    lines.push(random.pick(["host: y", "host:", "host: x, y", "x-a: b\0c", "x: \xff", `x-big: ${"y".repeat(40_000)}`]));
  if (hasLength) lines.push(`content-length: ${random.pick(LENGTHS).replaceAll("L", String(told))}`);
  if (hasLength && random.chance(0.15)) lines.push(`content-length: ${random.pick([told, 0, body.length])}`);
  if (hasCoding)
    lines.push(
      `${random.chance(0.6) ? "transfer-encoding" : random.pick(CODING_NAMES)}: ${random.chance(0.4) ? "chunked" : random.pick(CODINGS)}`,
    );
  if (hasCoding && random.chance(0.1)) lines.push(`transfer-encoding: ${random.pick(CODINGS)}`);
  if (random.chance(0.1))
    lines.push(
      random.pick([
        "connection: close",
        "connection: content-length",
        "expect: 100-continue",
        "expect: 200-ok",
        "upgrade: h2c",
        "connection: upgrade, http2-settings",
      ]),
    );
  lines.sort(() => random.next() - 0.5);
  const start = [
    random.pick(METHODS),
    random.chance(0.6) ? "/v1/chat/completions" : random.pick(TARGETS),
    random.pick(VERSIONS),
  ].join(random.chance(0.9) ? " " : random.pick(["  ", "\t"]));
  const head = random.chance(0.7) ? [start, ...lines].join("\r\n") : [start, ...lines].join(end);
  const gap = random.chance(0.9) ? "\r\n\r\n" : random.pick(["\n\n", "\r\n\n", "\r\r", "\n\r\n"]);
  return Buffer.from(`${head}${gap}${body}${isHiddenInside ? "" : hidden}`, "latin1");
}

function chunkedBody(own: string, inside: string, random: Seeded): string {
  const size = own.length.toString(16);
  const first = random.chance(0.6) ? size : random.pick(CHUNK_HEADS).replaceAll("S", size);
  const last = random.chance(0.7) ? "0" : random.pick(["00", "0;a", "0 ", "-0", "0x0", "0\n", ""]);
  const end = random.chance(0.8) ? "\r\n" : random.pick(["\n", "\r", "\r\r\n", ""]);
  return `${first}\r\n${own}${end}${last}\r\n${random.chance(0.8) ? "" : random.pick(TRAILERS)}${inside}\r\n`;
}

/** @param seed of the run. @param index of the case: both together give the same bytes each time. */
export function http1Case(seed: number, index: number): ConnectionCase {
  const random = new Seeded(seed, index, 1);
  let marks = 0;
  const mark = (kind: string): string => `${kind}-${index}-${marks++}`;
  const requests: Buffer[] = [];
  for (let count = 1 + random.below(3); count > 0; count--) {
    requests.push(random.chance(0.5) ? smuggle(random, mark) : wholeRequest(mark("whole"), random));
  }
  let bytes = Buffer.concat(requests);
  if (random.chance(0.35)) bytes = Buffer.from(random.mutate(bytes));
  if (random.chance(0.15)) bytes = bytes.subarray(0, random.below(bytes.length + 1));
  return { pieces: random.pieces(bytes), after: random.pick(["wait", "wait", "fin", "fin", "reset"]) };
}
