/** F: connections to nodes and of callers. */

import assert from "node:assert/strict";
import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { describe, test } from "node:test";
import { chat, until } from "../plane-fixture.ts";
import { ask, chatBody, post } from "../raw-client.ts";
import { chatAnswer, healthy, type NodeScript, plain } from "../scripted-node.ts";
import { isLong, longForm, pause, startField } from "./field-fixture.ts";

/** Closes its connection after so long without a request, as servers do; what comes after that is not run. */
function closingIdle(executed: string[], idleMs: number): NodeScript {
  return (call, index) => {
    if (call.socket.writableEnded) return;
    executed.push(JSON.parse(call.body.toString()).user as string);
    healthy("a")(call, index);
    const timer = setTimeout(() => call.fin(), idleMs);
    call.socket.once("data", () => clearTimeout(timer));
  };
}

describe("connections to nodes", () => {
  test(
    "F01: requests around the moment at which the node closes idle connections: no error, nothing twice",
    longForm,
    async (t) => {
      const idleMs = isLong ? 1000 : 100;
      const endMs = performance.now() + (isLong ? 600_000 : 4000);
      const executed: string[] = [];
      const { plane, nodes } = await startField(t, [closingIdle(executed, idleMs), healthy("b")]);
      let sent = 0;
      while (performance.now() < endMs) {
        const response = await chat(plane.url, { user: String(sent), stream: sent % 2 === 0 });
        assert.equal(response.status, 200);
        await response.text();
        sent += 1;
        await pause(idleMs * (0.95 + (sent % 11) / 100));
      }
      assert.equal(new Set(executed).size, sent, "each ran");
      assert.equal(executed.length, sent, "none ran twice");
      assert.equal(nodes[1]?.calls.length, 0, "none was a failure of the node");
    },
  );

  test("F01: a node that says how long it keeps connections is asked on none that it has closed", async (t) => {
    const { plane, nodes } = await startField(t, [
      (call) => call.write(plain(200, chatAnswer("a"), { "keep-alive": "timeout=1" })),
    ]);
    for (let each = 0; each < 5; each++) {
      await (await chat(plane.url)).text();
      await plane.settled();
    }
    assert.equal(nodes[0]?.connections, 5, "a second less a margin of one is no time to keep it");
  });

  test("F06: of a name with three addresses at most max_connections sockets are open", async (t) => {
    const real = dns.lookup;
    const addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map((address) => ({ address, family: 4 }));
    let lookups = 0;
    const lookup = (_name: string, _options: unknown, callback: (error: null, all: unknown) => void): void => {
      // another order each time, as resolvers do
      lookups += 1;
      const first = lookups % 3;
      setImmediate(() => callback(null, [...addresses.slice(first), ...addresses.slice(0, first)]));
    };
    Object.assign(dns, { lookup });
    syncBuiltinESMExports();
    t.after(() => {
      Object.assign(dns, { lookup: real });
      syncBuiltinESMExports();
    });
    const node = await startAnyAddress();
    t.after(() => node.stop());
    const { plane, caller } = await startField(t, [
      { script: () => {}, url: `http://three.test:${node.port}`, maxConnections: 4 },
    ]);
    const callers = await Promise.all(Array.from({ length: 20 }, () => caller()));
    for (const client of callers) client.send(post(chatBody()));
    await until(() => plane.inFlight() === 20 && node.calls() === 4, "four at the node, the others waiting");
    await pause(100);
    assert.equal(node.most(), 4);
    node.answer();
    for (const client of callers) assert.equal((await client.answer()).status, 200);
    assert.ok(lookups >= 1);
    assert.equal(node.most(), 4);
  });
});

/** A server on every loopback address that holds its answers back until told. */
async function startAnyAddress() {
  const { createServer } = await import("node:http");
  let isOpen = false;
  let calls = 0;
  let open = 0;
  let most = 0;
  const held: (() => void)[] = [];
  const server = createServer((request, response) => {
    request.resume();
    calls += 1;
    const answer = (): void => void response.setHeader("content-type", "application/json").end(chatAnswer("a"));
    if (isOpen) answer();
    else held.push(answer);
  });
  server.on("connection", (socket) => {
    open += 1;
    most = Math.max(most, open);
    socket.on("close", () => {
      open -= 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    calls: () => calls,
    most: () => most,
    answer() {
      isOpen = true;
      for (const each of held.splice(0)) each();
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("connections of callers", () => {
  test("F03: idle ones outlive the head limit many times, and 60 s by default", longForm, async (t) => {
    const { plane, caller } = await startField(
      t,
      [healthy("a")],
      isLong ? {} : { file: { data: { head_ms: 100, keep_alive_ms: 5000 } } },
    );
    assert.ok(isLong ? plane.plane.settings.data.keepAliveMs > 60_000 : true);
    const client = await caller();
    for (let each = 0; each < 3; each++) {
      client.send(post(chatBody({ stream: each === 1 })));
      await until(() => client.answers().length === each + 1, "the answer");
      await pause(isLong ? 4900 + each * 100 : 700);
    }
    if (isLong) {
      await pause(60_000);
      client.send(post(chatBody()));
      await until(() => client.answers().length === 4, "the answer after 60 s");
    }
    assert.equal(client.isClosed, false);
  });

  test("F03: by default they are kept for longer than proxies in front keep theirs", async (t) => {
    const { plane } = await startField(t, [healthy("a")]);
    assert.ok(plane.plane.settings.data.keepAliveMs >= 65_000);
    // the close is announced to callers that read it
    const answer = await ask(plane.port, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert.match(answer.headers["keep-alive"] ?? "", /timeout=(6[5-9]|7\d)/);
  });

  test("F03: a stray CR LF between requests is no request, and costs no connection", async (t) => {
    const { caller } = await startField(t, [healthy("a")]);
    const client = await caller();
    client.send(post(chatBody()));
    await until(() => client.answers().length === 1);
    client.send("\r\n");
    await pause(50);
    client.send(post(chatBody()));
    await until(() => client.answers().length === 2);
  });
});
