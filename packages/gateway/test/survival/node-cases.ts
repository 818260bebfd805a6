/** Answers of a node that does everything wrong that a node can do, over both versions of HTTP. */

import { block, FLAG, FRAME, frame, setting, uint32 } from "../h2-frames.ts";
import { chatAnswer, chunk, DONE, head, LAST_CHUNK, plain, STREAM_HEAD, token } from "../scripted-node.ts";
import { Seeded } from "./seeded.ts";

/** What a node writes, piece by piece, and what it does then. */
export interface AnswerCase {
  readonly pieces: readonly Buffer[];
  readonly after: "keep" | "fin" | "reset" | "hang" | "endless";
  /** It ends before the answer does: the caller has to see that, or get another answer. */
  readonly isCut: boolean;
}

const PLAIN = plain(200, chatAnswer("hello"));
const STREAM = Buffer.concat(
  [STREAM_HEAD, token("a"), token("b", "stop"), DONE]
    .map((part, at) => (at === 0 ? Buffer.from(part) : chunk(part)))
    .concat(Buffer.from(LAST_CHUNK)),
);
/** Behind the end mark the caller has all there is. */
const STREAM_LENGTH = STREAM.indexOf("[DONE]") + "[DONE]\n\n".length;

const CUTS = [
  { bytes: PLAIN, length: PLAIN.length },
  { bytes: STREAM, length: STREAM_LENGTH },
];

/** Answers that end at each of their bytes, by a FIN and by a reset. */
export const CUT_CASES: number = 2 * CUTS.reduce((sum, { length }) => sum + length, 0);

/** @param index 0 to `CUT_CASES - 1`. */
export function cutCase(index: number): AnswerCase & { readonly isStream: boolean } {
  let at = index >> 1;
  for (const [which, { bytes, length }] of CUTS.entries()) {
    if (at < length) {
      const after = index % 2 === 0 ? "fin" : "reset";
      return { pieces: [bytes.subarray(0, at)], after, isCut: true, isStream: which === 1 };
    }
    at -= length;
  }
  throw new Error(`there are ${CUT_CASES} cuts, not ${index + 1}`);
}

const STATUS_LINES = [
  "HTTP/1.1 200",
  "HTTP/1.1 200 \xff\xfe",
  "HTTP/1.1  200 OK",
  "HTTP/9.9 200 OK",
  "HTTP/1.0 200 OK",
  "ICY 200 OK",
  "HTTP/1.1 abc X",
  "HTTP/1.1 99 X",
  "HTTP/1.1 999 X",
  "HTTP/1.1 000 X",
  "HTTP/1.1 101 X",
  "HTTP/1.1 204 X",
  "HTTP/1.1 304 X",
  "HTTP/1.1 100 X",
  "\0",
  "<html>",
];
const FIELDS = [
  "content-length: 5",
  "content-length: -1",
  "content-length: 99999999999999999999",
  "content-length: 5\r\ncontent-length: 6",
  "transfer-encoding: chunked",
  "transfer-encoding: gzip, chunked",
  "transfer-encoding: xchunked",
  "content-encoding: gzip",
  "content-encoding: br",
  "connection: close",
  "connection: upgrade",
  "keep-alive: timeout=0",
  "x: y\r\n folded",
  "x : y",
  "x",
  ": y",
  "x: \0",
  "x: y\nz: w",
  "content-type: text/event-stream",
  "content-type: text/html",
  "location: http://x/",
  "retry-after: 1e9",
  "retry-after: -1",
  'x-zml-routing: node="evil"',
  "set-cookie: a=b",
  "trailer: x",
];
const CHUNKS = [
  "zz\r\n",
  "-1\r\n",
  "ffffffffffffffff\r\n",
  "7fffffffffffffff\r\n",
  "5;a=b\r\nhello\r\n",
  "5\nhello\n",
  "5\r\nhelloXX",
  "0\r\nx: y\r\n\r\n",
  "0\r\nx y\r\n\r\n",
  "\r\n",
  "00000000000000000005\r\nhello\r\n",
  "5 \r\nhello\r\n",
  "1\r\n\xff\r\n",
];
const EVENTS = [
  "data:\n\n",
  ":\n\n",
  "data: {\n\n",
  "data: null\n\n",
  'data: {"error":{}}\n\n',
  "event: error\ndata: x\n\n",
  "\ufeffdata: {}\n\n",
  "data: [DONE]\n\ndata: more\n\n",
  `data: ${"x".repeat(70_000)}\n\n`,
  "id: \0\n\n",
  "retry: 1\n\n",
  'data: {"choices":[]}\r\r',
  "\n".repeat(1000),
  `data: ${"[".repeat(5_000)}\n\n`,
  'data: {"usage":{"prompt_tokens":1e999}}\n\n',
];

function answerBytes(random: Seeded): Buffer {
  switch (random.below(9)) {
    case 0:
      return Buffer.concat([
        Buffer.from(
          `HTTP/1.1 ${random.pick(["100 Continue", "103 Early Hints", "199 X"])}\r\nx: y\r\n\r\n`.repeat(
            random.pick([1, 40, 3000]),
          ),
        ),
        random.chance(0.5) ? PLAIN : STREAM,
      ]);
    case 1: {
      const fields = Array.from({ length: random.pick([10, 500, 3000]) }, (_, at) => [
        `x-${at}`,
        "y".repeat(random.below(60)),
      ]);
      return Buffer.from(`${head(200, Object.fromEntries(fields))}x`, "latin1");
    }
    case 2:
      return plain(200, chatAnswer("a"), { "x-big": "y".repeat(random.pick([1000, 60_000, 200_000])) });
    case 3: {
      const body = chatAnswer("length");
      const told = body.length + random.pick([-5, -1, 1, 100, 2 ** 40]);
      return Buffer.from(`${head(200, { "content-type": "application/json", "content-length": String(told) })}${body}`);
    }
    case 4:
      return Buffer.from(
        `${head(200, { "content-type": random.pick(["application/json", "text/event-stream"]), "transfer-encoding": "chunked" })}${Array.from({ length: 1 + random.below(3) }, () => random.pick(CHUNKS)).join("")}${LAST_CHUNK}`,
        "latin1",
      );
    case 5:
      return Buffer.from(
        `${random.pick(STATUS_LINES)}\r\n${Array.from({ length: random.below(4) }, () => random.pick(FIELDS)).join("\r\n")}\r\n\r\n${random.chance(0.5) ? chatAnswer("b") : ""}`,
        "latin1",
      );
    case 6:
      return Buffer.from(
        `HTTP/1.1 ${random.pick([200, 200, 400, 404, 413, 429, 500, 503])} X\r\n${Array.from({ length: 1 + random.below(4) }, () => random.pick(FIELDS)).join("\r\n")}\r\n\r\nhello`,
        "latin1",
      );
    case 7:
      return Buffer.concat([
        Buffer.from(STREAM_HEAD),
        ...Array.from({ length: 1 + random.below(5) }, () =>
          chunk(random.chance(0.5) ? random.pick(EVENTS) : token("t")),
        ),
        Buffer.from(random.chance(0.5) ? LAST_CHUNK : ""),
      ]);
    default:
      // a second answer behind the first, and trailers
      return Buffer.concat([
        random.chance(0.5) ? PLAIN : STREAM,
        random.pick([PLAIN, STREAM, Buffer.from("0\r\n\r\n"), Buffer.from("x")]),
      ]);
  }
}

/** @param seed of the run. @param index of the case. */
export function answerCase(seed: number, index: number): AnswerCase {
  const random = new Seeded(seed, index, 3);
  let bytes = random.chance(0.15) ? random.pick([PLAIN, STREAM]) : answerBytes(random);
  if (random.chance(0.4)) bytes = random.mutate(bytes);
  if (random.chance(0.2)) bytes = bytes.subarray(0, random.below(bytes.length + 1));
  const pieces =
    random.chance(0.1) && bytes.length < 2000 ? Array.from(bytes, (byte) => Buffer.from([byte])) : random.pieces(bytes);
  return { pieces, after: random.pick(["keep", "keep", "fin", "reset", "hang", "endless"]), isCut: false };
}

/** Frames with which a node of HTTP/2 answers a request on `stream`. */
export function frameAnswer(
  seed: number,
  index: number,
  stream: number,
): { frames: Buffer[]; after: "keep" | "fin" | "reset" } {
  const random = new Seeded(seed, index, 4);
  const fields = (status: string) =>
    block([
      [":status", status],
      ["content-type", random.pick(["application/json", "text/event-stream"])],
    ]);
  const frames: Buffer[] = [];
  for (let count = 1 + random.below(5); count > 0; count--) {
    const on = random.chance(0.85) ? stream : random.pick([0, stream + 2, 2, 99, 0x7fffffff]);
    switch (random.below(14)) {
      case 0:
      case 1:
        frames.push(
          frame(
            FRAME.headers,
            FLAG.endHeaders,
            on,
            fields(random.pick(["200", "200", "100", "204", "503", "abc", "0", ""])),
          ),
        );
        break;
      case 2:
      case 3:
        frames.push(
          frame(FRAME.data, random.below(2), on, Buffer.from(random.pick([chatAnswer("h2"), token("t"), DONE, ""]))),
        );
        break;
      case 4:
        frames.push(frame(FRAME.rstStream, 0, on, uint32(random.below(15))));
        break;
      case 5:
        frames.push(
          frame(
            FRAME.goaway,
            0,
            0,
            uint32(random.pick([0, stream, Math.max(0, stream - 2), 0x7fffffff]), random.below(14)),
          ),
        );
        break;
      case 6:
        frames.push(frame(FRAME.windowUpdate, 0, on, uint32(random.pick([0, 1, 0x7fffffff]))));
        break;
      case 7:
        frames.push(
          frame(
            FRAME.settings,
            0,
            0,
            setting(random.pick([1, 2, 3, 4, 5, 6, 99]), random.pick([0, 1, 16_384, 0x7fffffff, 0xffffffff])),
          ),
        );
        break;
      case 8:
        for (let times = random.below(200); times > 0; times--) frames.push(frame(FRAME.ping, 0, 0, Buffer.alloc(8)));
        break;
      case 9:
        frames.push(frame(FRAME.headers, 0, on, Buffer.from([0])));
        for (let times = random.below(40); times > 0; times--)
          frames.push(frame(FRAME.continuation, 0, on, random.bytes(20)));
        break;
      case 10:
        frames.push(frame(FRAME.pushPromise, FLAG.endHeaders, on, Buffer.concat([uint32(2), fields("200")])));
        break;
      case 11:
        frames.push(frame(random.below(256), random.below(256), on, random.bytes(random.pick([0, 3, 8, 300]))));
        break;
      case 12:
        frames.push(
          frame(
            FRAME.headers,
            FLAG.endHeaders,
            on,
            block([
              [":status", "200"],
              ...Array.from({ length: 300 }, (_, at) => [`x-${at}`, "y".repeat(300)] as const),
            ]).subarray(0, random.pick([100, 16_000, 30_000])),
          ),
        );
        break;
      default:
        frames.push(random.bytes(1 + random.below(40)));
    }
  }
  return { frames, after: random.pick(["keep", "keep", "keep", "fin", "reset"]) };
}
