import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createSecureContext, createServer } from "node:tls";
import { selfSigned } from "../../../client/test/self-signed.ts";
import { NodeConnection, targetOf } from "./node-connection.ts";

const LIMITS = { connectMs: 5_000, headerBytes: 65_536 };

test("a node at an address is asked for by its name: in the host field, with the port where the url has one", () => {
  assert.equal(targetOf("http://10.0.0.1:8000/x", { ...LIMITS, serverName: "pool.test" }).authority, "pool.test:8000");
  assert.equal(targetOf("https://10.0.0.1", { ...LIMITS, serverName: "pool.test" }).authority, "pool.test");
  assert.equal(targetOf("http://[fd00::1]:8000", LIMITS).authority, "[fd00::1]:8000");
  const { host, port } = targetOf("http://10.0.0.1:8000", { ...LIMITS, serverName: "pool.test" });
  assert.deepEqual({ host, port }, { host: "10.0.0.1", port: 8000 }, "it still goes to the address");
});

test("TLS asks for the certificate of that name, and takes no other", async (t) => {
  // for "localhost", and signed by nobody whom we trust
  const { key, cert } = selfSigned();
  const asked: string[] = [];
  const server = createServer({
    key,
    cert,
    SNICallback: (name, callback) => {
      asked.push(name);
      callback(null, createSecureContext({ key, cert }));
    },
  });
  server.on("tlsClientError", () => undefined);
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const connection = new NodeConnection(targetOf(url, { ...LIMITS, serverName: "pool.test" }));
  const error = await new Promise<Error | null>((resolve) => {
    connection.send(
      { method: "GET", path: "/", headers: ["connection", "close"], body: null },
      { onStart() {}, onHead: () => resolve(null), onBody() {}, onEnd: () => resolve(null), onError: resolve },
    );
  });
  connection.abort();
  assert.deepEqual(asked, ["pool.test"]);
  assert.match(String(error), /CERT|SIGNED/);
});
