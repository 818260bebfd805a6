import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { Readable } from "node:stream";
import { afterEach, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Worker } from "node:worker_threads";
import { loopWatch } from "./loop-watch.ts";
import { NodeConnection, type NodeRequest, targetOf } from "./node-connection.ts";

const toEnd: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of toEnd.splice(0)) await end();
});

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LIMITS = { connectMs: 5000, headerBytes: 65_536 };
const GET: NodeRequest = { method: "GET", path: "/", headers: ["connection", "keep-alive"], body: null };

/** A server on a free port; `onSocket` plays the node. */
async function startServer(onSocket: (socket: Socket) => void): Promise<{ url: string; connections(): number }> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    onSocket(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  toEnd.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { url: `http://127.0.0.1:${address.port}`, connections: () => connections };
}

function connectionTo(url: string): NodeConnection {
  const connection = new NodeConnection(targetOf(url, LIMITS));
  toEnd.push(() => connection.abort());
  return connection;
}

/** Sends, and tells how it ended. */
function ask(connection: NodeConnection, request: NodeRequest = GET, onStart = (): void => {}): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  connection.send(request, {
    onStart,
    onHead() {},
    onBody() {},
    onEnd: () => resolve("ok"),
    onError: () => resolve(connection.wasStale ? "stale" : "failed"),
  });
  return promise;
}

/** Answers every request of `bytes` bytes, head included. */
const answerEach =
  (bytes: (head: string) => number) =>
  (socket: Socket): void => {
    let seen = 0;
    let due = -1;
    socket.on("data", (data) => {
      seen += data.length;
      if (due < 0) due = bytes(data.toString("latin1"));
      if (seen < due) return;
      seen = 0;
      due = -1;
      socket.write(OK);
    });
  };

const wholeRequest = (text: string): number =>
  text.indexOf("\r\n\r\n") + 4 + Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0);

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  assert.ok(typeof collect === "function");
  collect();
}

function upload(pieces: readonly Buffer[]): NodeRequest {
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return {
    method: "POST",
    path: "/",
    headers: ["connection", "keep-alive", "content-length", String(bytes)],
    body: Readable.from(pieces.values(), { objectMode: false }),
  };
}

describe("a streamed body", () => {
  test("is let go once its answer is complete, the first of a connection too, and leaves no listener", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): number => warnings.push(warning);
    process.on("warning", onWarning);
    toEnd.push(() => process.off("warning", onWarning));
    const node = await startServer(answerEach(wholeRequest));
    const connection = connectionTo(node.url);
    const bodies: WeakRef<NodeRequest>[] = [];
    const run = async (): Promise<void> => {
      const request = upload(Array.from({ length: 8 }, () => Buffer.alloc(65_536, 97)));
      bodies.push(new WeakRef(request));
      assert.equal(await ask(connection, request), "ok");
    };
    for (let each = 0; each < 24; each++) await run();
    // the last one may still be on the stack of the loop
    assert.equal(await ask(connection), "ok");
    await delay(20);
    collectGarbage();
    assert.equal(node.connections(), 1);
    assert.equal(bodies.filter((body) => body.deref() !== undefined).length, 0);
    assert.deepEqual(warnings, []);
  });

  test("ends with its connection", async () => {
    const node = await startServer((socket) => socket.once("data", () => socket.destroy()));
    const connection = connectionTo(node.url);
    const endless = Readable.from(
      (function* () {
        for (;;) yield Buffer.alloc(65_536);
      })(),
      { objectMode: false },
    );
    await ask(connection, { ...GET, body: endless });
    assert.equal(endless.destroyed, true);
  });
});

test("an answer that comes before the whole request is out ends the connection, however the body was given", async () => {
  const node = await startServer((socket) =>
    socket.once("data", () => {
      // it reads no further
      socket.pause();
      socket.write(OK);
    }),
  );
  const connection = connectionTo(node.url);
  const body = Buffer.alloc(32 * 1024 * 1024);
  assert.equal(await ask(connection, { ...GET, headers: ["content-length", String(body.length)], body }), "ok");
  assert.equal(await ask(connection), "ok");
  assert.equal(node.connections(), 2);
});

test("a large body that the node has read keeps the connection", async () => {
  const node = await startServer(answerEach(wholeRequest));
  const connection = connectionTo(node.url);
  const body = Buffer.alloc(8 * 1024 * 1024);
  for (let each = 0; each < 3; each++) {
    assert.equal(await ask(connection, { ...GET, headers: ["content-length", String(body.length)], body }), "ok");
  }
  assert.equal(node.connections(), 1);
});

for (const tellsStale of [true, false]) {
  test(`a connection that is used again ${tellsStale ? "wakes the thread" : "wakes nobody where it is not asked"}`, async (t) => {
    const use = t.mock.method(loopWatch, "use");
    const { url } = await startServer((socket) => {
      let answers = 0;
      socket.on("data", () => {
        answers += 1;
        if (answers === 1) socket.write(OK);
        else socket.destroy();
      });
    });
    const connection = new NodeConnection(targetOf(url, LIMITS), { tellsStale });
    toEnd.push(() => connection.abort());
    assert.equal(await ask(connection), "ok");
    await ask(connection);
    assert.equal(use.mock.callCount(), tellsStale ? 1 : 0);
    if (!tellsStale) assert.equal(connection.wasStale, false);
  });
}

test("an address is not sent as the name of a TLS server", async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): number => warnings.push(warning.message);
  process.on("warning", onWarning);
  toEnd.push(() => process.off("warning", onWarning));
  const { promise: hello, resolve } = Promise.withResolvers<Buffer>();
  const node = await startServer((socket) => {
    socket.once("data", (data) => {
      resolve(data);
      socket.destroy();
    });
  });
  await ask(connectionTo(node.url.replace("http:", "https:")));
  assert.equal((await hello).includes("127.0.0.1"), false);
  await delay(0);
  assert.deepEqual(warnings, []);
});

describe("a connection that the node closed before the request", () => {
  /** The node runs on a thread of its own, so that it closes while ours is held. */
  async function startClosingNode(): Promise<{ url: string; close(): void }> {
    const closed = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(
      `const { createServer } = require("node:net");
       const { parentPort, workerData: closed } = require("node:worker_threads");
       const sockets = new Set();
       const server = createServer((socket) => {
         sockets.add(socket);
         socket.on("error", () => {});
         socket.once("data", () => socket.write(${JSON.stringify(OK)}));
       });
       server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
       parentPort.on("message", () => {
         for (const socket of sockets) {
           sockets.delete(socket);
           socket.once("close", () => { Atomics.store(closed, 0, 1); Atomics.notify(closed, 0); });
           socket.destroy();
         }
       });`,
      { eval: true, workerData: closed },
    );
    toEnd.push(() => worker.terminate());
    const [port] = await once(worker, "message");
    return {
      url: `http://127.0.0.1:${port}`,
      close() {
        Atomics.store(closed, 0, 0);
        worker.postMessage("close");
        Atomics.wait(closed, 0, 0, 5000);
      },
    };
  }

  for (const stallMs of [0, 40, 200]) {
    test(`was stale, also when our thread is held for ${stallMs} ms before it can see that`, async () => {
      const node = await startClosingNode();
      const connection = connectionTo(node.url);
      assert.equal(await ask(connection), "ok");
      // the ticks of a thread under load run already
      await delay(50);
      node.close();
      const stall = (): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stallMs);
      const end = ask(connection, GET);
      if (stallMs > 0) stall();
      assert.equal(await end, "stale");
    });
  }

  test("a node that breaks the connection later has failed, however long the request ran", async () => {
    for (const afterMs of [300, 2500]) {
      let requests = 0;
      const node = await startServer((socket) =>
        socket.on("data", () => {
          requests += 1;
          if (requests === 1) socket.write(OK);
          else setTimeout(() => socket.resetAndDestroy(), afterMs);
        }),
      );
      const connection = connectionTo(node.url);
      assert.equal(await ask(connection), "ok");
      assert.equal(await ask(connection), "failed", `after ${afterMs} ms`);
    }
  });
});
