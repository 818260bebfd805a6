/** Limits of callers' connections: in all and of one address, over all workers, with both versions of HTTP. */

import assert from "node:assert/strict";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { connect as connectTls } from "node:tls";
import { certificatePath, pem } from "./certificates.ts";
import { startOn, until } from "./control-fixture.ts";

const LIMIT = 3;
const HEAD = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

type Speaks = "HTTP/1.1" | "HTTP/2" | "HTTP/1.1 over TLS" | "HTTP/2 over TLS";

/** One connection of a caller: served once it was answered, or closed. */
interface Connection {
  readonly isServed: boolean;
  close(): void;
}

async function start(t: TestContext, data: string) {
  return startOn(
    t,
    `data: { listen: 127.0.0.1:0, ${data} }\nadmin: { listen: 127.0.0.1:0 }\nworkers: 2\nstore: { path: ":memory:" }\n`,
  );
}

function open(t: TestContext, port: number, speaks: Speaks, localAddress: string): Promise<Connection> {
  const isTls = speaks.endsWith("TLS");
  const plain = connect({ port, host: "127.0.0.1", localAddress });
  const socket: Socket = isTls
    ? connectTls({
        socket: plain,
        ca: pem("ca"),
        servername: "localhost",
        ALPNProtocols: [speaks.startsWith("HTTP/2") ? "h2" : "http/1.1"],
        checkServerIdentity: () => undefined,
      })
    : plain;
  t.after(() => socket.destroy());
  return new Promise((resolve) => {
    const close = () => socket.destroy();
    socket.on("error", () => resolve({ isServed: false, close }));
    socket.on("close", () => resolve({ isServed: false, close }));
    if (!speaks.startsWith("HTTP/2")) {
      socket.on("data", () => resolve({ isServed: true, close }));
      socket.write(HEAD);
      return;
    }
    const session = connectHttp2(`http://127.0.0.1:${port}`, { createConnection: () => socket });
    session.on("error", () => resolve({ isServed: false, close }));
    const stream = session.request({ ":path": "/healthz" });
    stream.on("error", () => resolve({ isServed: false, close }));
    stream.on("response", () => resolve({ isServed: true, close: () => session.destroy() }));
  });
}

for (const speaks of ["HTTP/1.1", "HTTP/2", "HTTP/1.1 over TLS", "HTTP/2 over TLS"] as const) {
  test(`G10: of one address the limit is served and one more is closed at accept, ${speaks}`, async (t) => {
    const tls = speaks.endsWith("TLS")
      ? `, tls: { cert_file: ${certificatePath("server")}, key_file: ${certificatePath("server-key")} }`
      : "";
    const limits = `max_connections_per_address: ${LIMIT}, trusted_proxies: [127.0.0.9]`;
    const { gateway, log } = await start(t, `${limits}${tls}`);
    const { port } = gateway.dataAddress;
    const held: Connection[] = [];
    for (let count = 0; count < LIMIT; count++) held.push(await open(t, port, speaks, "127.0.0.1"));
    assert.deepEqual(
      held.map(({ isServed }) => isServed),
      Array(LIMIT).fill(true),
    );
    assert.equal((await open(t, port, speaks, "127.0.0.1")).isServed, false, "one more");
    await until("it is told", () =>
      log.has("warn", /data\.max_connections_per_address is reached .*"address":"127\.0\.0\.1"/),
    );
    assert.equal((await open(t, port, speaks, "127.0.0.2")).isServed, true, "another address");
    for (let count = 0; count <= LIMIT; count++) {
      assert.equal((await open(t, port, speaks, "127.0.0.9")).isServed, true, "a trusted proxy");
    }
    held[0]?.close();
    await until("the place is free", async () => (await open(t, port, speaks, "127.0.0.1")).isServed);
    assert.equal((await open(t, port, speaks, "127.0.0.1")).isServed, false, "one more again");
  });
}

test("in all, the limit is served and one more is closed at accept, a trusted proxy's too", async (t) => {
  const { gateway, log } = await start(t, `max_connections: ${LIMIT}`);
  const { port } = gateway.dataAddress;
  for (let count = 1; count <= LIMIT; count++) {
    assert.equal((await open(t, port, "HTTP/1.1", `127.0.0.${count}`)).isServed, true);
  }
  assert.equal((await open(t, port, "HTTP/2", "127.0.0.1")).isServed, false);
  await until("it is told", () => log.has("warn", /data\.max_connections is reached/));
});

test("by default this machine has no limit of its own, and a changed limit holds for new connections", async (t) => {
  const { gateway, write } = await start(t, "max_connections_per_address: 1");
  const { port } = gateway.dataAddress;
  for (let count = 0; count < 3; count++) assert.ok((await open(t, port, "HTTP/1.1", "127.0.0.1")).isServed);
  write(
    "data: { listen: 127.0.0.1:0, max_connections_per_address: 1, trusted_proxies: [] }\n" +
      'admin: { listen: 127.0.0.1:0 }\nworkers: 2\nstore: { path: ":memory:" }\n',
  );
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal((await open(t, port, "HTTP/1.1", "127.0.0.1")).isServed, false, "three are open, one is the limit");
});
