import assert from "node:assert/strict";
import dns from "node:dns";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { NodeSession } from "../http2/node-session.ts";
import { ConnectError, NodeConnection, targetOf } from "./node-connection.ts";
import { lookupNode } from "./node-lookup.ts";

const LIMITS = { connectMs: 5000, headerBytes: 65_536 };

/** Names resolve to these addresses for the rest of the test; counts the look-ups. */
function resolveAs(t: TestContext, addresses: readonly string[]) {
  const fake = t.mock.method(dns, "lookup", (_name: string, options: { all?: boolean }, callback: unknown) => {
    const found = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
    const answer = callback as (error: null, addresses: unknown, family?: number) => void;
    if (options.all === true) answer(null, found);
    else answer(null, found[0]?.address, found[0]?.family);
  });
  syncBuiltinESMExports();
  t.after(() => {
    fake.mock.restore();
    syncBuiltinESMExports();
  });
  return fake.mock;
}

async function startServer(t: TestContext): Promise<number> {
  const server = createServer((_, response) => response.end("ok"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** "ok", or the code of the failed connect. */
function ask(t: TestContext, url: string, allowsLinkLocal = false): Promise<string> {
  const connection = new NodeConnection(targetOf(url, { ...LIMITS, allowsLinkLocal }));
  t.after(() => connection.abort());
  return new Promise((resolve) => {
    connection.send(
      { method: "GET", path: "/", headers: ["connection", "close"], body: null },
      {
        onStart() {},
        onHead() {},
        onBody() {},
        onEnd: () => resolve("ok"),
        onError: (error) => resolve(error instanceof ConnectError ? error.code : "failed"),
      },
    );
  });
}

describe("connections to nodes", () => {
  it("never go to a link-local or metadata address, written or resolved", async (t) => {
    for (const url of [
      "http://169.254.169.254/",
      "http://[fd00:ec2::254]/",
      "https://0xa9fea9fe/",
      "http://[::ffff:a9fe:a9fe]/",
    ]) {
      assert.equal(await ask(t, url), "ZML_LINK_LOCAL", url);
    }
    const lookups = resolveAs(t, ["169.254.169.254", "fd00:ec2::254", "fe80::1"]);
    assert.equal(await ask(t, "http://metadata.google.internal/"), "ZML_LINK_LOCAL");
    assert.equal(await ask(t, "https://metadata.google.internal/"), "ZML_LINK_LOCAL");
    assert.equal(lookups.callCount(), 2);
  });

  it("go there over HTTP/2 as little", async () => {
    const limits = { maxStreams: 1, streamWindowBytes: 65_535, pingMs: 5000 };
    const code = await new Promise((resolve) => {
      new NodeSession(targetOf("https://169.254.169.254/", LIMITS), limits, {
        onReady: () => resolve("ready"),
        onRetired: () => resolve("retired"),
        onRoom() {},
        onConnectError: (_session, error) => resolve(error.code),
      });
    });
    assert.equal(code, "ZML_LINK_LOCAL");
  });

  it("go to the other addresses of a name that has such ones too", async (t) => {
    const port = await startServer(t);
    resolveAs(t, ["169.254.169.254", "127.0.0.1"]);
    assert.equal(await ask(t, `http://node.example:${port}/`), "ok");
  });

  it("are not looked at where the operator allows it", async (t) => {
    const port = await startServer(t);
    const lookups = resolveAs(t, ["127.0.0.1"]);
    assert.equal(await ask(t, `http://node.example:${port}/`, true), "ok");
    assert.equal(lookups.callCount(), 1);
    const refused = await ask(t, "http://node.invalid:1/", true);
    assert.notEqual(refused, "ZML_LINK_LOCAL");
  });

  it("give one address to who asks for one, and pass a resolver's error on", async (t) => {
    resolveAs(t, ["fe80::1", "10.0.0.9", "10.0.0.10"]);
    const one = await new Promise((resolve) => lookupNode("n", {}, (...answer) => resolve(answer)));
    assert.deepEqual(one, [null, "10.0.0.9", 4]);
    const failing = t.mock.method(
      dns,
      "lookup",
      (_name: string, _options: object, callback: (error: Error) => void) => {
        callback(Object.assign(new Error("no such name"), { code: "ENOTFOUND" }));
      },
    );
    syncBuiltinESMExports();
    assert.equal(await ask(t, "http://node.example:1/"), "ENOTFOUND");
    assert.equal(failing.mock.callCount(), 1);
  });

  it("tell nobody who has left", async (t) => {
    const connection = new NodeConnection(targetOf("http://169.254.169.254/", LIMITS));
    const heard = t.mock.fn();
    const handler = { onStart: heard, onHead: heard, onBody: heard, onEnd: heard, onError: heard };
    connection.send({ method: "GET", path: "/", headers: [], body: null }, handler);
    connection.abort();
    await new Promise(setImmediate);
    assert.equal(heard.mock.callCount(), 0);
  });
});
