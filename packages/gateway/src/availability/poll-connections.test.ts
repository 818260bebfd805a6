import assert from "node:assert/strict";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import type { NodeConnection } from "../http1/node-connection.ts";
import { KeptConnections } from "./kept-connection.ts";
import { oneFirst } from "./mute-round.ts";
import { createPollClient, PollError, type PollRequest, RoundConnection } from "./poll-fetch.ts";

/** What a server does with the requests of one connection: each path as it comes. */
type Serve = (path: string, socket: Socket, connection: number) => void;

async function serverOf(t: TestContext, serve: Serve) {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    const connection = connections++;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      for (const [, path = ""] of bytes.toString("latin1").matchAll(/^GET (\S+) /gm)) serve(path, socket, connection);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    connections: () => connections,
  };
}

const answer = (socket: Socket, body: string) =>
  socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);

function asker(t: TestContext, origin: string) {
  const client = createPollClient();
  t.after(() => client.close());
  const abort = new AbortController();
  const ask = (path: string, round?: RoundConnection) => {
    const request: PollRequest = { origin, path, headers: {}, signal: abort.signal };
    return client.fetch(round === undefined ? request : { ...request, round });
  };
  // a machine of tests may be held for long; who waits for a path that hangs says so
  const roundOf = (kept: NodeConnection | null = null, patienceMs = 60_000) =>
    new RoundConnection(abort.signal, kept, patienceMs);
  return { ask, abort, roundOf };
}

describe("the connection of a round", () => {
  it("carries the requests of a round one after the other", async (t) => {
    const server = await serverOf(t, (path, socket) => answer(socket, path));
    const { ask, roundOf } = asker(t, server.origin);
    const round = roundOf();
    const answers = await Promise.all(["/a", "/b", "/c"].map((path) => ask(path, round)));
    assert.deepEqual(
      answers.map(({ body }) => body),
      ["/a", "/b", "/c"],
    );
    assert.equal(server.connections(), 1);
    assert.equal(round.end(false), null);
  });

  it("lets no path that hangs hold up another", async (t) => {
    const server = await serverOf(t, (path, socket) => path !== "/hangs" && answer(socket, path));
    const { ask, abort, roundOf } = asker(t, server.origin);
    const round = roundOf(null, 50);
    const hangs = ask("/hangs", round);
    const others = await Promise.all([ask("/b", round), ask("/c", round)]);
    assert.deepEqual(
      others.map(({ body }) => body),
      ["/b", "/c"],
    );
    abort.abort();
    await assert.rejects(hangs, { fault: "timeout" });
    round.end(false);
  });

  it("goes on with fresh ones when the server closes after each answer, said or not", async (t) => {
    for (const field of ["connection: close\r\n", ""]) {
      const server = await serverOf(t, (path, socket) => {
        socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${path.length}\r\n${field}\r\n${path}`);
      });
      const { ask, roundOf } = asker(t, server.origin);
      const round = roundOf();
      const answers = await Promise.all([ask("/a", round), ask("/b", round), ask("/c", round)]);
      assert.deepEqual(
        answers.map(({ body }) => body),
        ["/a", "/b", "/c"],
      );
      round.end(false);
    }
  });

  it("is the next round's, and a node that closed it meanwhile is asked on a fresh one", async (t) => {
    const server = await serverOf(t, (path, socket) => answer(socket, path));
    const { ask, roundOf } = asker(t, server.origin);
    const first = roundOf();
    await ask("/a", first);
    const kept = first.end(true);
    assert.ok(kept !== null);
    const second = roundOf(kept);
    assert.equal((await ask("/b", second)).body, "/b");
    assert.equal(server.connections(), 1);
    const again = second.end(true);
    // closed in this very moment: the request may go out before the end is seen
    for (const socket of server.sockets) socket.destroy();
    const third = roundOf(again);
    assert.equal((await ask("/c", third)).body, "/c");
    assert.equal(server.connections(), 2);
    third.end(false);
  });

  it("does not keep what a request was cut off on", async (t) => {
    const server = await serverOf(t, () => {});
    const { ask, abort, roundOf } = asker(t, server.origin);
    const round = roundOf();
    const cut = ask("/a", round);
    abort.abort();
    await assert.rejects(cut, PollError);
    round.end(true)?.abort();
    await new Promise<void>((resolve) => {
      const look = () => (server.sockets.size === 0 ? resolve() : setImmediate(look));
      look();
    });
  });
});

/** A connection as far as a place asks of it. */
function stub(hintMs = Number.NaN) {
  const state = { isClosed: false };
  const connection = {
    keepAliveHintMs: hintMs,
    abort: () => {
      state.isClosed = true;
    },
  } as unknown as NodeConnection;
  return { state, connection };
}

describe("a kept connection", () => {
  it("is used while nobody can have closed it for idleness, and closed after that", () => {
    const place = new KeptConnections().createPlace();
    const { state, connection } = stub();
    place.keep(connection, 1_000);
    assert.equal(place.take(1_000 + 4_500), connection);
    place.keep(connection, 1_000);
    assert.equal(place.take(1_000 + 4_501), null);
    assert.ok(state.isClosed);
  });

  it("is used no longer than the server says that it keeps it", () => {
    const place = new KeptConnections().createPlace();
    const { connection } = stub(1_000);
    place.keep(connection, 0);
    assert.equal(place.take(1_001), null);
  });

  it("is replaced after some rounds, so that the name is looked up again", () => {
    const place = new KeptConnections().createPlace();
    const { connection, state } = stub();
    let rounds = 0;
    for (place.keep(connection, 0); place.take(1) !== null; place.keep(connection, 0)) rounds += 1;
    assert.ok(rounds > 10 && rounds < 100, `${rounds} rounds`);
    assert.ok(state.isClosed);
  });

  it("is kept for servers that spend no thread on it, and for intervals below its idle time", () => {
    const place = new KeptConnections().createPlace();
    assert.ok(place.mayKeep("vllm", 4_400));
    assert.ok(!place.mayKeep("vllm", 4_600));
    assert.ok(!place.mayKeep("llamacpp", 1_000));
    assert.ok(!place.mayKeep("custom", 1_000));
    assert.ok(!place.mayKeep(null, 1_000));
  });

  it("is closed instead when as many are kept as may be", () => {
    const kept = new KeptConnections();
    const first = stub();
    const places = Array.from({ length: 4_096 }, () => {
      const place = kept.createPlace();
      place.keep(first.connection, 0);
      return place;
    });
    const late = stub();
    const place = kept.createPlace();
    place.keep(late.connection, 0);
    assert.ok(late.state.isClosed);
    places[0]?.close();
    const next = stub();
    place.keep(next.connection, 0);
    assert.equal(place.take(1), next.connection);
  });
});

describe("a round of a mute node", () => {
  const request = (path: string): PollRequest => ({
    origin: "http://n",
    path,
    headers: {},
    signal: new AbortController().signal,
  });
  const ok = { status: 200, contentType: null, body: "" };

  it("asks one path, another each time, and fails all by its fault", async () => {
    for (const [turn, path] of [
      [1, "/b"],
      [2, "/a"],
    ] as const) {
      const asked: string[] = [];
      const fetch = oneFirst(async (tried) => {
        asked.push(tried.path);
        throw new PollError("timeout", "late");
      }, turn);
      const results = await Promise.allSettled([fetch(request("/a")), fetch(request("/b"))]);
      assert.deepEqual(asked, [path]);
      for (const result of results) assert.equal(result.status, "rejected");
    }
  });

  it("asks the others too once that one is answered", async () => {
    const asked: string[] = [];
    const fetch = oneFirst(async (tried) => {
      asked.push(tried.path);
      return ok;
    }, 1);
    await Promise.all([fetch(request("/a")), fetch(request("/b")), fetch(request("/c"))]);
    assert.deepEqual(asked.sort(), ["/a", "/b", "/c"]);
    await fetch(request("/later"));
    assert.equal(asked.length, 4);
  });
});
