/** Connections of HTTP/2 by callers who keep no rule of it. */

import { block, FLAG, FRAME, frame, PREFACE, postFields, setting, uint32 } from "../h2-frames.ts";
import { type ConnectionCase, chatRequest } from "./http1-cases.ts";
import { Seeded } from "./seeded.ts";

const INJECTED = (mark: string): string =>
  `y\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${chatRequest(mark).length}\r\n\r\n${chatRequest(mark)}`;

function oddFields(random: Seeded, hidden: string): (readonly [string, string])[] {
  const length = String(random.pick([0, 5, 5000]));
  return random.pick<(readonly [string, string])[]>([
    [["content-length", length]],
    [
      ["content-length", "1"],
      ["content-length", "2"],
    ],
    [["transfer-encoding", "chunked"]],
    [["connection", "close"]],
    [["te", "gzip"]],
    [["X-Upper", "y"]],
    [["x-y", INJECTED(hidden)]],
    [[`x: ${INJECTED(hidden)}`, "y"]],
    [["x-request-id", INJECTED(hidden)]],
    [["traceparent", INJECTED(hidden)]],
    [["content-type", INJECTED(hidden)]],
    [["authorization", `Bearer ${INJECTED(hidden)}`]],
    [["accept", INJECTED(hidden)]],
    [["x-zml-policy", INJECTED(hidden)]],
    [[":path", "/v1/embeddings"]],
    [[":nope", "y"]],
    [["", "y"]],
    [["x", "\0"]],
    [["host", "other"]],
    [["expect", "100-continue"]],
    [
      ["cookie", "a"],
      ["cookie", "b"],
    ],
    Array.from({ length: 200 }, (_, at) => [`x-${at}`, "y".repeat(random.below(200))] as const),
  ]);
}

function oddHead(random: Seeded, hidden: string): (readonly [string, string])[] {
  const fields = postFields(random.chance(0.6) ? oddFields(random, hidden) : []);
  if (random.chance(0.2)) fields.splice(random.below(fields.length), 1);
  if (random.chance(0.15)) fields.reverse();
  if (random.chance(0.15)) {
    const at = random.below(4);
    const [name] = fields[at] ?? [":path"];
    fields[at] = [name, random.pick(["", "*", INJECTED(hidden), "x y", "HTTP", "/\r\n"])];
  }
  return fields;
}

function oddFrame(random: Seeded, stream: number): Buffer {
  const type = random.pick([...Object.values(FRAME), 10, 255]);
  const sizes = [0, 1, 4, 5, 6, 8, 9, 100, 17_000];
  const payload = random.chance(0.5)
    ? random.bytes(random.pick(sizes.slice(0, -1)))
    : random.pick([
        uint32(0),
        uint32(0xffffffff),
        uint32(0x7fffffff),
        setting(4, 0x80000000),
        setting(5, 1),
        setting(1, 0xffffffff),
        Buffer.alloc(17_000),
      ]);
  return frame(type, random.below(256), random.pick([0, stream, stream, stream + 2, 2, 0x7fffffff]), payload);
}

/** @param seed of the run. @param index of the case. */
export function http2Case(seed: number, index: number): ConnectionCase {
  const random = new Seeded(seed, index, 2);
  let marks = 0;
  const mark = (kind: string): string => `${kind}-${index}-${marks++}`;
  const parts: Buffer[] = [
    Buffer.from(PREFACE, "latin1"),
    frame(
      FRAME.settings,
      0,
      0,
      random.chance(0.3) ? setting(1 + random.below(8), random.pick([0, 1, 65_535, 0x7fffffff])) : Buffer.alloc(0),
    ),
  ];
  if (random.chance(0.7)) parts.push(frame(FRAME.settings, FLAG.ack, 0));
  let stream = 1;
  for (let count = 1 + random.below(6); count > 0; count--, stream += 2) {
    const body = Buffer.from(chatRequest(mark("stream"), "m", random.chance(0.3) ? { stream: true } : {}));
    const head = block(random.chance(0.5) ? postFields() : oddHead(random, mark("hidden")));
    if (random.chance(0.15)) {
      const cut = random.below(head.length);
      parts.push(
        frame(FRAME.headers, 0, stream, head.subarray(0, cut)),
        frame(FRAME.continuation, FLAG.endHeaders, stream, head.subarray(cut)),
      );
    } else
      parts.push(
        frame(
          FRAME.headers,
          FLAG.endHeaders | (random.chance(0.1) ? FLAG.endStream : 0),
          stream,
          head.subarray(0, 16_384),
        ),
      );
    if (random.chance(0.3)) parts.push(oddFrame(random, stream));
    const pieces = random.pieces(body);
    pieces.forEach((piece, at) => {
      parts.push(frame(FRAME.data, at === pieces.length - 1 && random.chance(0.9) ? FLAG.endStream : 0, stream, piece));
    });
    if (random.chance(0.2)) parts.push(frame(FRAME.rstStream, 0, stream, uint32(random.below(14))));
    if (random.chance(0.2)) parts.push(oddFrame(random, stream));
  }
  if (random.chance(0.1))
    for (let count = random.below(300); count > 0; count--)
      parts.push(frame(random.pick([FRAME.ping, FRAME.settings]), 0, 0, Buffer.alloc(0)));
  let bytes = Buffer.concat(parts);
  if (random.chance(0.3)) bytes = Buffer.from(random.mutate(bytes));
  return { pieces: random.pieces(bytes, 6), after: random.pick(["wait", "fin", "reset", "fin"]) };
}
