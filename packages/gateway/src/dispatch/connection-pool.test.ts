import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { until } from "../../test/plane-fixture.ts";
import { answering, type ScriptedNode, startScriptedNode } from "../../test/scripted-node.ts";
import { targetOf } from "../http1/node-connection.ts";
import { ConnectionPool, type ConnectionPoolOptions } from "./connection-pool.ts";

const toStop: ScriptedNode[] = [];
afterEach(async () => {
  for (const node of toStop.splice(0)) await node.stop();
});

async function start(
  options: Partial<ConnectionPoolOptions>,
  script = answering(200, "ok"),
): Promise<{ node: ScriptedNode; pool: ConnectionPool; ask(isFresh?: boolean): Promise<string> }> {
  const node = await startScriptedNode(script);
  toStop.push(node);
  const target = targetOf(node.url, { connectMs: 1000, headerBytes: 65_536 });
  const pool = new ConnectionPool({ target, maxConnections: 1, keepAliveMs: 4000, maxAgeMs: 60_000, ...options });
  const ask = (isFresh = false): Promise<string> => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const leave = pool.take({ isFresh }, (connection) => {
      const end = (how: string) => (): void => {
        connection.release();
        resolve(how);
      };
      const request = { method: "GET", path: "/", headers: ["connection", "keep-alive"], body: null } as const;
      connection.send(request, { onStart() {}, onHead() {}, onBody() {}, onEnd: end("ok"), onError: end("error") });
    });
    assert.notEqual(leave, null);
    return promise;
  };
  return { node, pool, ask };
}

test("a pool that closes still serves who waits for a connection, then lets go of it", async () => {
  const { node, pool, ask } = await start({}, () => {});
  const answers = [ask(), ask(), ask()];
  await until(() => node.calls.length === 1);
  pool.close();
  node.script = answering(200, "ok");
  const first = node.calls[0];
  assert.ok(first !== undefined);
  answering(200, "ok")(first, 0);
  assert.deepEqual(await Promise.all(answers), ["ok", "ok", "ok"]);
  assert.equal(node.calls.length, 3);
  await until(() => node.openSockets() === 0, "the end of the connection");
});

test("a connection that is handed on without a pause is replaced at its greatest age too", async () => {
  const { node, pool, ask } = await start({ maxAgeMs: 0 });
  assert.deepEqual(await Promise.all([ask(), ask(), ask()]), ["ok", "ok", "ok"]);
  assert.equal(node.connections, 3);
  pool.close();
});

test("F06: a request that needs a fresh connection waits for its turn too, and gets a socket of its own", async () => {
  let open = 0;
  const { node, pool, ask } = await start({}, (call, index) => {
    open = Math.max(open, node.openSockets());
    setTimeout(() => answering(200, "ok")(call, index), 20);
  });
  assert.deepEqual(await Promise.all([ask(), ask(true), ask(), ask(true)]), ["ok", "ok", "ok", "ok"]);
  assert.equal(open, 1, "never more than max_connections");
  assert.equal(node.connections, 3, "two of four asked for fresh ones");
  assert.equal(await ask(true), "ok");
  assert.equal(node.connections, 4, "an idle one is not fresh either");
  pool.close();
});
