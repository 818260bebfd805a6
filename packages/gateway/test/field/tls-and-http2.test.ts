/** C07 and F08: nodes behind TLS, and HTTP/2 connections that live long. */

import assert from "node:assert/strict";
import { createServer } from "node:https";
import { type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { identity, pem } from "../certificates.ts";
import { type H2Script, startH2Node } from "../h2-node.ts";
import { chat, startPlane, until } from "../plane-fixture.ts";
import { chatBody, post, RawClient } from "../raw-client.ts";
import { chatAnswer, token } from "../scripted-node.ts";
import { isLong, longForm, routingOf } from "./field-fixture.ts";

test("C07: memory stays flat over thousands of aborted streams of HTTP/2", longForm, async (t) => {
  const hang: H2Script = ({ stream }, index) => {
    // some are aborted before their head, some within their stream
    if (index % 2 === 0) return;
    stream.respond({ ":status": 200, "content-type": "text/event-stream" });
    stream.write(token("first"));
  };
  // by default the server of this test ends connections that reset many streams, and each costs it some MB
  const node = await startH2Node(hang, { server: { streamResetBurst: 1e6, streamResetRate: 1e6 } });
  const plane = await startPlane([{ id: "a", url: node.url, httpVersion: "2", maxInFlight: 1000 }]);
  t.after(async () => {
    await plane.stop();
    await node.stop();
  });
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const body = post(chatBody({ stream: true, x: "y".repeat(2000) }));
  const abort = async (count: number): Promise<{ rssMib: number; heldMib: number }> => {
    for (let done = 0; done < count; done += 50) {
      const clients = await Promise.all(Array.from({ length: 50 }, () => RawClient.open(plane.port)));
      for (const client of clients) client.send(body);
      await until(() => node.calls.length === 50, "50 streams at the node");
      for (const client of clients) client.kill();
      await until(() => node.calls.every(({ isClosed }) => isClosed), "their ends");
      node.calls.length = 0;
    }
    await plane.settled();
    collect();
    await new Promise(setImmediate);
    collect();
    const { rss, heapUsed, external } = process.memoryUsage();
    return { rssMib: rss / 2 ** 20, heldMib: (heapUsed + external) / 2 ** 20 };
  };
  const before = await abort(isLong ? 5000 : 1500);
  const after = await abort(isLong ? 15_000 : 1500);
  assert.ok(after.heldMib - before.heldMib < 5, `${before.heldMib} MiB, then ${after.heldMib} MiB`);
  // what the allocator keeps levels off after some thousands; both ends of the connections are in this process
  if (isLong) assert.ok(after.rssMib - before.rssMib < 60, `${before.rssMib} MiB, then ${after.rssMib} MiB`);
  assert.equal(plane.table.cooldownUntil[0], 0);
});

/** An HTTPS server of HTTP/1.1 under the name of `who`. */
async function startTlsNode(
  t: TestContext,
  who: Parameters<typeof identity>[0],
): Promise<{ url: string; calls: number }> {
  const server = createServer(identity(who), (request, response) => {
    request.resume();
    node.calls += 1;
    response.setHeader("content-type", "application/json").end(chatAnswer(who));
  });
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const node = { url: `https://127.0.0.1:${port}`, calls: 0 };
  return node;
}

test("F08: over HTTP/1.1 what one node trusts opens no other node, and a stranger never sees a prompt", async (t) => {
  const [known, stranger, skipped] = [
    await startTlsNode(t, "server"),
    await startTlsNode(t, "stranger"),
    await startTlsNode(t, "stranger"),
  ];
  const none = { ca: null, cert: null, key: null, serverName: null, skipVerify: false };
  const plane = await startPlane([
    { id: "n0", url: known.url, family: "F0", tls: { ...none, ca: pem("ca") } },
    { id: "n1", url: stranger.url, family: "F1", tls: { ...none, ca: pem("ca") } },
    { id: "n2", url: skipped.url, family: "F2", tls: { ...none, skipVerify: true } },
    { id: "n3", url: known.url, family: "F3" },
  ]);
  t.after(() => plane.stop());
  const nodeFor = async (family: string): Promise<string | undefined> => {
    const response = await chat(plane.url, {}, { headers: { "x-zml-accelerator": family } });
    await response.text();
    return routingOf(response.headers)?.node;
  };
  assert.equal(await nodeFor("F0"), "n0");
  assert.equal(await nodeFor("F1"), "n0", "the stranger is left out");
  assert.equal(await nodeFor("F2"), "n2", "skip-verify is this node's own");
  assert.equal(await nodeFor("F3"), "n0", "the authority of one node is no other's");
  assert.equal(stranger.calls, 0);
  await plane.settled();
});
