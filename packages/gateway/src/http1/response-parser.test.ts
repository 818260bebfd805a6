import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { BadResponseError, ResponseParser } from "./response-parser.ts";

interface Read {
  heads: { status: number; headers: Record<string, string> }[];
  body: string;
  isComplete: boolean;
  canReuse: boolean;
  error: string | null;
}

/** Reads bytes in the given pieces; `isEnded`: the connection ends behind them. */
function read(pieces: readonly string[], { isEnded = false, headBytesMax = 1024 } = {}): Read {
  const result: Read = { heads: [], body: "", isComplete: false, canReuse: false, error: null };
  const parser = new ResponseParser(
    {
      onHead: (status, headers) => result.heads.push({ status, headers: { ...headers } }),
      onBody: (bytes) => {
        result.body += bytes.toString("latin1");
      },
    },
    headBytesMax,
  );
  try {
    for (const piece of pieces) parser.push(Buffer.from(piece, "latin1"));
    if (isEnded) parser.end();
  } catch (error) {
    assert.ok(error instanceof BadResponseError);
    result.error = error.message;
  }
  result.isComplete = parser.isComplete;
  result.canReuse = parser.canReuse;
  return result;
}

const OK = "HTTP/1.1 200 OK\r\n";

test("a counted body ends with its last byte and keeps the connection", () => {
  const answer = read([`${OK}Content-Length: 5\r\nX-A: 1\r\nx-a:  2 \r\n\r\nhello`]);
  assert.deepEqual(answer.heads, [{ status: 200, headers: { "content-length": "5", "x-a": "1, 2" } }]);
  assert.equal(answer.body, "hello");
  assert.equal(answer.canReuse, true);
});

test("a chunked body comes without its framing, extensions and trailers", () => {
  const answer = read([
    `${OK}transfer-encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n00A\r\n 0123\r\n678\r\n0\r\nx-t: 1\r\n\r\n`,
  ]);
  assert.equal(answer.error, null);
  assert.equal(answer.body, "hello 0123\r\n678");
  assert.equal(answer.canReuse, true);
});

test("a body without a length ends with its connection, which is not used again", () => {
  const open = read([`${OK}\r\npart`]);
  assert.equal(open.isComplete, false);
  const ended = read([`${OK}\r\npart`], { isEnded: true });
  assert.equal(ended.body, "part");
  assert.equal(ended.isComplete, true);
  assert.equal(ended.canReuse, false);
});

test("a counted or chunked body that is cut off is not complete", () => {
  assert.equal(read([`${OK}content-length: 5\r\n\r\nhell`], { isEnded: true }).isComplete, false);
  assert.equal(read([`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n`], { isEnded: true }).isComplete, false);
});

test("interim answers are skipped", () => {
  const answer = read([
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n",
    `${OK}content-length: 0\r\n\r\n`,
  ]);
  assert.equal(answer.heads.length, 1);
  assert.equal(answer.isComplete, true);
});

test("answers without a body are complete with their head", () => {
  assert.equal(read(["HTTP/1.1 204 No Content\r\n\r\n"]).canReuse, true);
  assert.equal(read([`${OK}content-length: 0\r\n\r\n`]).canReuse, true);
});

test("the node's word on the connection is followed", () => {
  assert.equal(read([`${OK}content-length: 0\r\nconnection: Close\r\n\r\n`]).canReuse, false);
  assert.equal(read([`${OK}content-length: 0\r\nconnection: foo, close\r\n\r\n`]).canReuse, false);
  assert.equal(read(["HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"]).canReuse, false);
  assert.equal(read(["HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n"]).canReuse, true);
});

test("bytes behind the end of an answer cost the connection and reach nobody", () => {
  const answer = read([`${OK}content-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nevil`]);
  assert.equal(answer.body, "ok");
  assert.equal(answer.isComplete, true);
  assert.equal(answer.canReuse, false);
  assert.equal(answer.heads.length, 1);
});

const MALFORMED: Record<string, string> = {
  "both framings": `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n`,
  "two lengths": `${OK}content-length: 5\r\ncontent-length: 6\r\n\r\n`,
  "the same length twice": `${OK}content-length: 5\r\ncontent-length: 5\r\n\r\n`,
  "a signed length": `${OK}content-length: +5\r\n\r\n`,
  "a length in hexadecimal": `${OK}content-length: 0x5\r\n\r\n`,
  "another coding": `${OK}transfer-encoding: gzip, chunked\r\n\r\n`,
  "chunked twice": `${OK}transfer-encoding: chunked, chunked\r\n\r\n`,
  "a folded field": `${OK}a: b\r\n c\r\n\r\n`,
  "a space before the colon": `${OK}content-length : 5\r\n\r\n`,
  "a field without a colon": `${OK}nonsense\r\n\r\n`,
  "a NUL in a field": `${OK}a: b\0c\r\n\r\n`,
  "a bare CR in a field": `${OK}a: b\rc\r\n\r\n`,
  "a bare LF in a field": `${OK}a: b\nc: d\r\n\r\n`,
  "another protocol": "SSH-2.0-x\r\n\r\n",
  "another version": "HTTP/2.0 200 OK\r\n\r\n",
  "a short status": "HTTP/1.1 20 OK\r\n\r\n",
  "a switch of protocols": "HTTP/1.1 101 Switching\r\n\r\n",
  "a chunk size that is none": `${OK}transfer-encoding: chunked\r\n\r\nxyz\r\n`,
  "a negative chunk size": `${OK}transfer-encoding: chunked\r\n\r\n-1\r\n`,
  "a chunk size with a bare LF": `${OK}transfer-encoding: chunked\r\n\r\n5\nhello\r\n`,
  "a chunk that is longer than its size": `${OK}transfer-encoding: chunked\r\n\r\n2\r\nhello\r\n`,
  "an endless chunk extension": `${OK}transfer-encoding: chunked\r\n\r\n5;${"x".repeat(5000)}`,
  "a head that is too large": `${OK}a: ${"x".repeat(2000)}\r\n\r\n`,
  "an endless head": `${OK}a: ${"x".repeat(2000)}`,
};

for (const [name, bytes] of Object.entries(MALFORMED)) {
  test(`${name} is refused, however it is split`, () => {
    for (const pieces of [[bytes], [...bytes]]) {
      const answer = read(pieces);
      assert.notEqual(answer.error, null);
      assert.equal(answer.body.includes("hello"), name.includes("longer") && answer.body.includes("hello"));
      assert.equal(answer.canReuse, false);
    }
  });
}

test("a head of the largest size is read, and one of a byte more is not, however they are split", () => {
  const headOf = (bytes: number) => `${OK}a: ${"x".repeat(bytes - OK.length - 3)}\r\n\r\n`;
  for (const split of [(head: string) => [head], (head: string) => [...head]]) {
    assert.equal(read(split(headOf(400)), { headBytesMax: 400 }).heads.length, 1);
    assert.equal(read(split(headOf(401)), { headBytesMax: 400 }).error, "the head is too large");
  }
});

test("the text of an error holds nothing of the node's bytes", () => {
  const answer = read([`${OK}secret-token abc\r\n\r\n`]);
  assert.equal(answer.error?.includes("secret"), false);
});

/** An answer with its framing, and what has to be read of it. */
const answers = fc
  .record({
    status: fc.constantFrom(200, 400, 404, 429, 500, 503),
    body: fc.array(fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 40 }), { maxLength: 6 }),
    framing: fc.constantFrom("length" as const, "chunked" as const, "close" as const),
    isInterimFirst: fc.boolean(),
  })
  .map(({ status, body, framing, isInterimFirst }) => {
    const whole = body.join("");
    const interim = isInterimFirst ? "HTTP/1.1 100 Continue\r\n\r\n" : "";
    const field = {
      length: `content-length: ${whole.length}\r\n`,
      chunked: "Transfer-Encoding: Chunked\r\n",
      close: "",
    };
    const chunks = body.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join("");
    const framed = framing === "chunked" ? `${chunks}0\r\n\r\n` : whole;
    return { bytes: `${interim}HTTP/1.1 ${status} X\r\n${field[framing]}\r\n${framed}`, status, whole, framing };
  });

test("any split of an answer reads as the whole of it", () => {
  fc.assert(
    fc.property(answers, fc.array(fc.nat(200), { maxLength: 12 }), ({ bytes, status, whole, framing }, cuts) => {
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
      const pieces = places.slice(1).map((end, index) => bytes.slice(places[index], end));
      const answer = read(pieces, { isEnded: framing === "close" });
      assert.equal(answer.error, null);
      assert.equal(answer.heads[0]?.status, status);
      assert.equal(answer.body, whole);
      assert.equal(answer.isComplete, true);
      assert.equal(answer.canReuse, framing !== "close");
    }),
  );
});

test("a head reads the same from its bytes as from its text, malformed ones included", () => {
  const lines = fc.constantFrom(
    ...[
      "Server: a",
      "server:b",
      "date: Tue, 01 Dec 2026 00:00:00 GMT",
      "x-id: 1",
      "x-id:\t2 ",
      "vary: \u00a0é",
      "a : b",
    ],
    ...[
      "connection: close",
      "keep-alive: timeout=5",
      "content-length: 0",
      "content-length: 4",
      "transfer-encoding: chunked",
    ],
    ...["a: b\nc: d", "a: b\rc: d", " folded", "nothing", "x: \0", `x: ${"y".repeat(300)}`, "\n", ""],
  );
  const starts = fc.constantFrom(
    "HTTP/1.1 200 OK",
    "HTTP/1.0 503 ",
    "HTTP/1.1 200",
    "HTTP/1.1 100 Go on",
    "HTTP/1.1 2 OK",
    "",
  );
  fc.assert(
    fc.property(starts, fc.array(lines, { maxLength: 6 }), (start, fields) => {
      const bytes = `${[start, ...fields].join("\r\n")}\r\n\r\n`;
      const [whole, split] = [read([bytes], { headBytesMax: 400 }), read([...bytes], { headBytesMax: 400 })];
      // of a head that is both malformed and too large either may be told
      assert.deepEqual({ ...whole, error: whole.error === null }, { ...split, error: split.error === null });
    }),
    { numRuns: 1000 },
  );
});

test("no bytes make the parser throw anything else, or read past a head bound", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: "binary-ascii", maxLength: 60 }), { maxLength: 8 }), (pieces) => {
      read(["HTTP/1.1 200 OK\r\n", ...pieces], { isEnded: true });
      read(pieces, { isEnded: true });
    }),
  );
});

test("trailers are bounded together, not only each", () => {
  const trailers = `x-t: ${"a".repeat(90)}\r\n`;
  const start = `${OK}transfer-encoding: chunked\r\n\r\n0\r\n`;
  assert.equal(read([start + trailers.repeat(20), "\r\n"]).error, null);
  const tooMany = read([start, ...Array.from({ length: 100 }, () => trailers)]);
  assert.match(tooMany.error ?? "", /trailer/);
});

test("lines that answers repeat read the same each time, and a malformed one is refused each time", () => {
  const head = (type: string) => `${OK}Content-Type: ${type}\r\nSERVER:  a b \r\ncontent-length: 0\r\n\r\n`;
  for (const type of ["a/b", "c/d", "a/b"]) {
    const { heads } = read([head(type)]);
    assert.deepEqual(heads[0]?.headers, { "content-type": type, server: "a b", "content-length": "0" });
    assert.equal(read([head("a\u0001b")]).error, "a header field is malformed");
  }
});
