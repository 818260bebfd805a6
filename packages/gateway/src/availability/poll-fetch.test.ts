import assert from "node:assert/strict";
import { createServer, type Server, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { gzipSync } from "node:zlib";
import { createPollClient, PollError, type PollFault } from "./poll-fetch.ts";

/** A node that writes what it likes. `taken` tells the bytes that the kernel took from it. */
async function startNode(t: TestContext, answer: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => answer(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { origin: `http://127.0.0.1:${address.port}`, sockets };
}

/** Body of the answer, or why there is none; and how long it took. */
async function poll(t: TestContext, origin: string, deadlineMs = 20_000): Promise<{ told: string; body: string }> {
  const client = createPollClient();
  t.after(() => client.close());
  try {
    const signal = AbortSignal.timeout(deadlineMs);
    const { body } = await client.fetch({ origin, path: "/metrics", headers: {}, signal });
    return { told: "ok", body };
  } catch (error) {
    assert.ok(error instanceof PollError);
    return { told: error.fault satisfies PollFault, body: "" };
  }
}

const head = (...fields: string[]) => `HTTP/1.1 200 OK\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;

/** Writes until the other side closes, as fast as it is taken. */
function writeForEver(socket: Socket, piece: Buffer): { bytes: number } {
  const taken = { bytes: 0 };
  const write = (): void => {
    while (!socket.destroyed) {
      taken.bytes += piece.length;
      if (!socket.write(piece)) return;
    }
  };
  socket.on("drain", write);
  write();
  return taken;
}

describe("a poll of a node that answers badly", () => {
  const MIB = 2 ** 20;

  it("reads no more than 4 MiB of 50 MB, and tells which it was", async (t) => {
    let taken = { bytes: 0 };
    const { origin } = await startNode(t, (socket) => {
      socket.write(head("content-length: 50000000"));
      taken = writeForEver(socket, Buffer.alloc(65_536, "vllm:x 1\n"));
    });
    assert.equal((await poll(t, origin)).told, "too_large");
    assert.ok(taken.bytes < 24 * MIB, `${taken.bytes} bytes were taken`);
  });

  it("reads no more of a body without end, chunked or not", async (t) => {
    for (const fields of [[], ["transfer-encoding: chunked"]]) {
      const { origin } = await startNode(t, (socket) => {
        socket.write(head(...fields));
        const piece = "x".repeat(65_535).concat("\n");
        writeForEver(socket, Buffer.from(fields.length === 0 ? piece : `10000\r\n${piece}\r\n`));
      });
      assert.equal((await poll(t, origin)).told, "too_large");
    }
  });

  it("reads no head without end", async (t) => {
    const { origin } = await startNode(t, (socket) => {
      socket.write("HTTP/1.1 200 OK\r\n");
      writeForEver(socket, Buffer.from(`x-a: ${"b".repeat(8000)}\r\n`));
    });
    assert.equal((await poll(t, origin)).told, "reset");
  });

  it("ends with its time where bytes drip", async (t) => {
    const { origin } = await startNode(t, (socket) => {
      socket.write(head("content-length: 100"));
      const timer = setInterval(() => socket.write("x"), 20);
      socket.on("close", () => clearInterval(timer));
    });
    assert.equal((await poll(t, origin, 150)).told, "timeout");
  });

  it("unpacks nothing: what comes compressed was not asked for", async (t) => {
    const bomb = gzipSync(Buffer.alloc(64 * MIB));
    for (const encoding of ["gzip", "GZIP", "br", "deflate", "gzip, gzip"]) {
      const { origin } = await startNode(t, (socket) => {
        socket.end(
          Buffer.concat([Buffer.from(head(`content-encoding: ${encoding}`, `content-length: ${bomb.length}`)), bomb]),
        );
      });
      assert.equal((await poll(t, origin)).told, "encoded", encoding);
    }
    const { origin } = await startNode(t, (socket) => {
      socket.end(`${head("content-encoding: identity", "content-length: 4")}m 1\n`);
    });
    assert.deepEqual(await poll(t, origin), { told: "ok", body: "m 1\n" });
  });

  it("follows no redirect", async (t) => {
    let wasAsked = false;
    const target = await startNode(t, (socket) => {
      wasAsked = true;
      socket.end(`${head("content-length: 2")}ok`);
    });
    for (const location of [target.origin, "http://169.254.169.254/latest/meta-data/", "//[fd00:ec2::254]/"]) {
      for (const status of [301, 302, 303, 307, 308]) {
        const { origin } = await startNode(t, (socket) => {
          socket.end(`HTTP/1.1 ${status} Moved\r\nlocation: ${location}\r\ncontent-length: 0\r\n\r\n`);
        });
        assert.equal((await poll(t, origin)).told, "redirect");
      }
    }
    assert.equal(wasAsked, false);
  });

  it("takes bytes that are no text as they are", async (t) => {
    const { origin } = await startNode(t, (socket) => {
      const body = Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256));
      socket.end(Buffer.concat([Buffer.from(head("content-length: 512")), body]));
    });
    assert.equal((await poll(t, origin)).told, "ok");
  });

  it("takes half an answer for none", async (t) => {
    for (const fields of [["content-length: 100"], ["transfer-encoding: chunked"]]) {
      const { origin } = await startNode(t, (socket) => {
        socket.end(`${head(...fields)}${fields[0]?.startsWith("t") ? "20\r\n" : ""}vllm:num_requests_running 12`);
      });
      assert.equal((await poll(t, origin)).told, "reset");
    }
  });

  it("goes to no address that no node has", async (t) => {
    for (const host of [
      "169.254.169.254",
      "[fd00:ec2::254]",
      "[::ffff:169.254.169.254]",
      "2852039166",
      "0xa9.0xfe.0xa9fe",
    ]) {
      assert.equal((await poll(t, new URL(`http://${host}`).origin)).told, "link_local", host);
    }
  });
});
