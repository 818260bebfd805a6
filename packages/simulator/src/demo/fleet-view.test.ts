import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { fetchFleet } from "./fleet-view.ts";

const TIMEOUT_MS = 500;

/** An admin port that is silent to its first requests. Returns its URL and how often it was asked. */
async function adminPort(t: TestContext, { silentTo }: { silentTo: number }) {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked += 1;
    if (asked > silentTo) response.end('{"nodes":[{"id":"h100-a"}]}');
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => asked };
}

const never = new AbortController().signal;

test("a gateway that is always silent is told as that, with what to do", async (t) => {
  const admin = await adminPort(t, { silentTo: Number.POSITIVE_INFINITY });
  await assert.rejects(
    fetchFleet(admin.url, never, 20),
    /^Error: the gateway was silent to GET \/admin\/v1\/fleet, 3 times/,
  );
});

test("a machine that stood still for a moment does not end the demo", async (t) => {
  const admin = await adminPort(t, { silentTo: 1 });
  const nodes = await fetchFleet(admin.url, never, TIMEOUT_MS);
  assert.deepEqual(
    nodes.map(({ id }) => id),
    ["h100-a"],
  );
  assert.ok(admin.asked() >= 2);
});

test("a demo that is stopped asks no more", async (t) => {
  const admin = await adminPort(t, { silentTo: Number.POSITIVE_INFINITY });
  const ended = new AbortController();
  const asking = fetchFleet(admin.url, ended.signal, 60_000);
  ended.abort(new Error("ended by SIGINT"));
  await assert.rejects(asking, /ended by SIGINT/);
});
