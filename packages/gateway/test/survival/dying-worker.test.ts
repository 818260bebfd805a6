/** Workers that die while HTTP/2 comes in and goes out: each alone. */

import assert from "node:assert/strict";
import { createServer as createHttp1 } from "node:http";
import { connect, createServer as createHttp2, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { token } from "../scripted-node.ts";
import { comesTrue, startGatewayProcess } from "./gateway-process.ts";

const WORKERS = 3;
const DEATHS = 6;
const CALLERS = 6;
const STREAMS_EACH = 4;

/** Answers polls over HTTP/1.1, and requests over HTTP/2 with as much as is read: at each moment bytes are on their way. */
async function endlessNode(t: TestContext): Promise<string> {
  const piece = token("x".repeat(1000));
  const polls = createHttp1((_request, response) => response.end("{}"));
  const streams = createHttp2();
  streams.on("sessionError", () => undefined);
  streams.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => undefined);
    stream.resume().respond({ ":status": 200, "content-type": "text/event-stream" });
    const pour = (): void => {
      while (!stream.destroyed && stream.write(piece));
    };
    stream.on("drain", pour);
    pour();
  });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    socket.once("readable", () => {
      const first: Buffer | null = socket.read();
      if (first === null) return;
      socket.unshift(first);
      (first.toString("latin1").startsWith("PRI") ? streams : polls).emit("connection", socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a worker that dies under streams of HTTP/2 on both sides takes neither the process nor a node's health with it", async (t) => {
  const url = await endlessNode(t);
  const gateway = await startGatewayProcess(
    `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: ${WORKERS}
store: { path: ":memory:" }
health: { unhealthy_after: 100 }
timeouts: { drain_ms: 500 }
nodes: [{ id: a, url: "${url}", family: F, engine: custom, models: [m], http_version: "2" }]
`,
    { entry: join(import.meta.dirname, "soak-gateway.ts") },
  );
  t.after(() => gateway.stop());
  let isRunning = true;
  const body = JSON.stringify({ model: "m", messages: [], stream: true });
  const call = async (): Promise<void> => {
    while (isRunning) {
      const session = connect(`http://127.0.0.1:${gateway.dataPort}`);
      session.on("error", () => undefined);
      const streams = Array.from({ length: STREAMS_EACH }, () => {
        const stream = session.request({ ":method": "POST", ":path": "/v1/chat/completions" });
        stream.on("error", () => undefined);
        stream.resume().end(body);
        return new Promise((resolve) => stream.once("close", resolve));
      });
      await Promise.all(streams);
      session.destroy();
    }
  };
  const callers = Array.from({ length: CALLERS }, call);
  const totals = async () => (await gateway.fleet()).totals;
  for (let death = 1; death <= DEATHS; death++) {
    const isBusy = await comesTrue(async () => {
      const { in_flight: inFlight, listening_workers: listening } = await totals();
      return listening === WORKERS && inFlight >= CALLERS;
    }, 20_000);
    assert.ok(isBusy, `all workers serve before death ${death}: ${gateway.log.slice(-3).join()}`);
    gateway.child.stdin?.write(`${death % WORKERS}\n`);
    assert.ok(await comesTrue(async () => (await totals()).worker_crashes === death, 20_000), `death ${death}`);
  }
  const [row] = (await gateway.fleet()).nodes;
  assert.notEqual(row?.state, "cooling_down");
  isRunning = false;
  assert.equal(await gateway.stop(), 0, gateway.log.slice(-5).join("\n"));
  await Promise.all(callers);
  assert.deepEqual(
    gateway.faults.filter((line) => !line.includes("told to die")),
    [],
  );
});
