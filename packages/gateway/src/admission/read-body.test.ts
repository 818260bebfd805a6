import { strict as assert } from "node:assert";
import { once } from "node:events";
import type { IncomingMessage, RequestOptions, ServerResponse } from "node:http";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import type { TestContext } from "node:test";
import { test } from "node:test";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Deadlines } from "../deadlines.ts";
import type { BodyRead, ReadBodyOptions } from "./read-body.ts";
import { readBody } from "./read-body.ts";
import { LocalByteBudget } from "./testing/local-byte-budget.ts";

const LIMIT = 1 << 20;
const MODEL = { model: "org/name", stream: true };

interface Reading {
  readonly port: number;
  readonly budget: LocalByteBudget;
  /** The next request's reading. */
  next(): Promise<{ read: BodyRead; text: string; request: IncomingMessage; response: ServerResponse }>;
}

/** A server that reads bodies and answers as the gateway should: first the answer, then the end. */
async function serve(t: TestContext, overrides: Partial<ReadBodyOptions> = {}): Promise<Reading> {
  const budget = new LocalByteBudget(4 * LIMIT);
  const waiting: ((value: Awaited<ReturnType<Reading["next"]>>) => void)[] = [];
  const server = createServer(async (request, response) => {
    const read = await readBody(request, {
      limitBytes: LIMIT,
      budget,
      deadlineMs: 60_000,
      deadlines: new Deadlines(),
      ...overrides,
    });
    const kept = read.ok ? Buffer.concat(read.chunks).toString() : "";
    waiting.shift()?.({ read, text: kept, request, response });
    const text = JSON.stringify({ code: read.ok ? "ok" : read.code });
    if (read.ok) {
      read.release();
      read.release();
      assert.deepEqual(read.chunks, [], "a released body keeps no bytes");
    } else if (!read.isRequestComplete) response.setHeader("connection", "close");
    response.statusCode = read.ok ? 200 : 400;
    response.setHeader("content-length", text.length);
    response.write(text);
    if (!read.ok) await read.drained;
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    budget,
    next: () => new Promise((resolve) => waiting.push(resolve)),
  };
}

/** Sends a body and gives the answer's code. */
async function post(port: number, body: Buffer | string, headers: RequestOptions["headers"] = {}): Promise<string> {
  const request = httpRequest({ port, method: "POST", headers });
  request.end(body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const parts: Buffer[] = await response.toArray();
  return JSON.parse(Buffer.concat(parts).toString()).code;
}

const encoders = {
  gzip: gzipSync,
  "x-gzip": gzipSync,
  GZIP: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
} as const;

test("a small body comes back with its bytes and its routing fields", async (t) => {
  const { port, next, budget } = await serve(t);
  const body = JSON.stringify({ ...MODEL, messages: [{ role: "user", content: "漢字🙂" }] });
  const reading = next();
  assert.equal(await post(port, body), "ok");
  const { read, text } = await reading;
  assert(read.ok);
  assert.equal(text, body);
  assert.equal(read.scan.model, "org/name");
  assert.equal(read.bytes, Buffer.byteLength(body));
  assert.equal(budget.heldBytes, 0);
});

for (const [name, encode] of Object.entries(encoders)) {
  test(`a body in ${name} is decoded`, async (t) => {
    const { port, next } = await serve(t);
    const body = JSON.stringify({ ...MODEL, prompt: "x y z ".repeat(150_000) });
    const reading = next();
    assert.equal(await post(port, encode(Buffer.from(body)), { "content-encoding": name }), "ok");
    const { read, text } = await reading;
    assert(read.ok);
    assert.equal(text, body);
    assert(read.rawBytes < read.bytes);
  });

  test(`a body in ${name} that is cut, followed by something or no ${name} at all is refused`, async (t) => {
    const { port, budget } = await serve(t);
    const encoded = encode(Buffer.from(JSON.stringify({ ...MODEL, seed: [...Array(999).keys()] })));
    const headers = { "content-encoding": name };
    assert.equal(await post(port, encoded.subarray(0, -1), headers), "invalid_encoding");
    assert.equal(await post(port, encoded.subarray(0, encoded.length >> 1), headers), "invalid_encoding");
    assert.equal(await post(port, Buffer.concat([encoded, Buffer.from("x")]), headers), "invalid_encoding");
    assert.equal(await post(port, Buffer.concat([encoded, Buffer.alloc(3)]), headers), "invalid_encoding");
    assert.equal(await post(port, JSON.stringify(MODEL), headers), "invalid_encoding");
    assert.equal(await post(port, "", headers), "body_empty");
    assert.equal(budget.heldBytes, 0);
  });

  test(`a small body in ${name} that expands over the limit is refused`, async (t) => {
    const { port, budget } = await serve(t);
    const bomb = encode(Buffer.from(`{"model":"m","prompt":"${"a".repeat(8 * LIMIT)}"}`));
    assert(bomb.length < 10_000);
    assert.equal(await post(port, bomb, { "content-encoding": name }), "body_too_large");
    assert.equal(budget.heldBytes, 0);
  });
}

test("deflate without zlib's frame is decoded too", async (t) => {
  const { port } = await serve(t);
  const body = deflateRawSync(Buffer.from(JSON.stringify(MODEL)));
  assert.equal(await post(port, body, { "content-encoding": "deflate" }), "ok");
});

test("unknown and stacked codings are refused", async (t) => {
  const { port } = await serve(t);
  for (const encoding of ["compress", "gzip, br", "gzip,gzip", "identity, gzip"]) {
    assert.equal(await post(port, JSON.stringify(MODEL), { "content-encoding": encoding }), "unsupported_encoding");
  }
  assert.equal(await post(port, JSON.stringify(MODEL), { "content-encoding": "identity" }), "ok");
});

test("the limit counts the bytes that are read, with and without a length", async (t) => {
  const { port, budget } = await serve(t);
  const frame = JSON.stringify({ model: "m", prompt: "" }).length;
  const fits = JSON.stringify({ model: "m", prompt: "x".repeat(LIMIT - frame) });
  const chunked = { "transfer-encoding": "chunked" };
  assert.equal(await post(port, fits), "ok");
  assert.equal(await post(port, fits, chunked), "ok");
  assert.equal(await post(port, `${fits} `), "body_too_large");
  assert.equal(await post(port, `${fits} `, chunked), "body_too_large");
  assert.equal(budget.heldBytes, 0);
});

test("a length over the limit is refused before a byte is read", async (t) => {
  const { port, next } = await serve(t);
  const reading = next();
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${LIMIT + 1}\r\n\r\n`);
  const { read } = await reading;
  assert(!read.ok);
  assert.equal(read.code, "body_too_large");
  assert.equal(read.isRequestComplete, false);
});

test("a caller that writes everything before it reads gets the refusal, every time", async (t) => {
  const { port } = await serve(t);
  const bytes = 2 * LIMIT - 1000;
  for (let run = 0; run < 20; run++) {
    const socket = connect(port, "127.0.0.1");
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${bytes}\r\n\r\n`);
    const isWritten = new Promise<void>((resolve, reject) => {
      socket.on("error", reject);
      socket.write(Buffer.alloc(bytes, " "), () => resolve());
    });
    await isWritten;
    const parts: Buffer[] = await socket.toArray();
    assert.match(Buffer.concat(parts).toString(), /^HTTP\/1\.1 400 .*body_too_large/s);
  }
});

test("a body that doesn't arrive in time is refused", async (t) => {
  const { port, next, budget } = await serve(t, { deadlineMs: 20 });
  const reading = next();
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{"model":');
  const { read } = await reading;
  assert(!read.ok);
  assert.equal(read.code, "body_timeout");
  await read.drained;
  assert.equal(budget.heldBytes, 0);
});

test("a caller who goes in the middle of the body leaves nothing behind", async (t) => {
  for (const encoding of ["identity", "gzip"]) {
    const { port, next, budget } = await serve(t);
    const reading = next();
    const socket = connect(port, "127.0.0.1");
    const start = encoding === "gzip" ? gzipSync(JSON.stringify(MODEL)).subarray(0, 15) : Buffer.from('{"model":');
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\ncontent-encoding: ${encoding}\r\n\r\n`);
    socket.write(start, () => socket.resetAndDestroy());
    const { read } = await reading;
    assert(!read.ok);
    assert.equal(read.code, "caller_gone");
    await read.drained;
    assert.equal(budget.heldBytes, 0);
  }
});

test("a reading can be cancelled, also at its very start", async (t) => {
  let isCancelledAtOnce = false;
  const started = Promise.withResolvers<() => void>();
  const { port, next, budget } = await serve(t, {
    onStart: (cancel) => {
      started.resolve(cancel);
      if (isCancelledAtOnce) cancel();
    },
  });
  const reading = next();
  const socket = connect(port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{"model":');
  const cancel = await started.promise;
  cancel();
  const { read } = await reading;
  assert(!read.ok);
  assert.equal(read.code, "caller_gone");
  assert.equal(budget.heldBytes, 0);
  isCancelledAtOnce = true;
  assert.equal(await post(port, JSON.stringify(MODEL)), "caller_gone");
});

test("bodies that together exceed the budget are refused, and their share comes back", async (t) => {
  const budget = new LocalByteBudget(1000);
  assert.equal(budget.tryReserve(950), true);
  const { port } = await serve(t, { budget });
  const body = JSON.stringify({ model: "m", prompt: "x".repeat(100) });
  assert.equal(await post(port, body), "body_budget_exhausted");
  assert.equal(budget.heldBytes, 950);
  budget.release(950);
  assert.equal(await post(port, body), "ok");
  assert.equal(budget.heldBytes, 0);
});

test("a body that is no JSON is read to its end and not held", async (t) => {
  const { port, next, budget } = await serve(t);
  for (const body of [
    "",
    "  ",
    "[1]",
    '"x"',
    "{",
    '{"model":"m"}x',
    `x${"y".repeat(700_000)}`,
    '{"model":null}',
    "{}",
  ]) {
    const reading = next();
    await post(port, body);
    const { read } = await reading;
    assert(!read.ok);
    assert.equal(read.isRequestComplete, true);
    assert.equal(read.scan?.code, read.code);
    assert.equal(budget.heldBytes, 0);
  }
});
