/** Paths on both sides, and the handshake before a body. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, type TestContext, test } from "node:test";
import { chat, PORTS, startOn, until as untilTrue } from "../control-fixture.ts";
import { until } from "../plane-fixture.ts";
import { ask, chatBody, post } from "../raw-client.ts";
import { chatAnswer, chunk, healthy, LAST_CHUNK } from "../scripted-node.ts";
import { startField } from "./field-fixture.ts";

/** A vLLM below a prefix that notes every path it is asked for. */
async function recordingNode(t: TestContext, prefix: string): Promise<{ url: string; paths: Set<string> }> {
  const paths = new Set<string>();
  const server = createServer((request, response) => {
    request.resume();
    paths.add(request.url ?? "");
    const path = (request.url ?? "").slice(prefix.length);
    if (!(request.url ?? "").startsWith(`${prefix}/`)) response.writeHead(404).end();
    else if (path === "/v1/models") response.end('{"data":[{"id":"m"}]}');
    else if (path === "/metrics") response.end("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n");
    else if (path === "/health" || path === "/version") response.end("{}");
    else if (path === "/v1/chat/completions")
      response.setHeader("content-type", "application/json").end(chatAnswer("a"));
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`, paths };
}

for (const [prefix, written] of [
  ["", ["", "/", "/v1", "/v1/"]],
  ["/llm", ["/llm", "/llm/", "/llm/v1", "/llm/v1/"]],
] as const) {
  for (const end of written) {
    test(`I08: polls and traffic of a node written as ${JSON.stringify(end)} meet it below ${JSON.stringify(prefix)}`, async (t) => {
      const { url, paths } = await recordingNode(t, prefix);
      const { gateway } = await startOn(
        t,
        `${PORTS}health: { poll_interval_ms: 100, timeout_ms: 90 }\nnodes:\n  - { id: a, url: "${url}${end}", family: F, engine: vllm }\n`,
      );
      await untilTrue("its model is known", async () =>
        (await (await fetch(`${gateway.dataUrl}/v1/models`)).text()).includes('"m"'),
      );
      assert.equal((await chat(gateway)).status, 200);
      for (const path of paths) {
        assert.ok(path.startsWith(`${prefix}/`), path);
        assert.doesNotMatch(path, /\/\/|v1\/v1|v1\/(metrics|health)/, path);
      }
      for (const path of ["/health", "/metrics", "/v1/models", "/v1/chat/completions"])
        assert.ok(paths.has(prefix + path), path);
    });
  }
}

test("M05: no spelling of a path gets past the key, to a node or to another route", async (t) => {
  const { plane, nodes } = await startField(t, [healthy("a")], {
    keys: [{ name: "app", value: "good-key" }],
  });
  const paths = [
    "/healthz/../v1/chat/completions",
    "/healthz/%2e%2e/v1/chat/completions",
    "/v1/chat/completions/../../healthz",
    "/v1/models/../chat/completions",
    "/v1/models/..%2fchat%2fcompletions",
    "/v1/models//v1/chat/completions",
    "/v1/%63hat/completions",
    "/v1/chat/completions%00",
    "/v1/chat/completions%20",
    "/v1/chat/completions\\",
    "\\v1\\chat\\completions",
    "/v1;x=/chat/completions",
    "/./v1/chat/completions",
    "/v1/chat/../chat/completions",
    "http://127.0.0.1/v1/chat/completions",
    "http://evil.test/v1/chat/completions",
    "https://x/healthz",
    "//evil.test/v1/chat/completions",
    "/v1/chat/completions?../../x",
    "/v1/chat/completions#/../x",
    "/?/v1/chat/completions",
    "/admin/v1/fleet",
    "/metrics",
  ];
  for (const path of paths) {
    const answer = await ask(plane.port, post(chatBody(), {}, path));
    assert.ok([400, 401, 404, 405].includes(answer.status), `${path}: ${answer.status}`);
  }
  assert.equal(nodes[0]?.calls.length, 0);
  const opened = await ask(
    plane.port,
    post(chatBody(), { authorization: "Bearer good-key" }, "/v1/chat/completions?../../x"),
  );
  assert.equal(opened.status, 200);
  assert.equal(nodes[0]?.calls[0]?.requestLine, "POST /v1/chat/completions HTTP/1.1");
});

describe("expect: 100-continue", () => {
  const line = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
  test("G01: before a chunked body, in any case, and twice on one connection", async (t) => {
    const { nodes, caller } = await startField(t, [healthy("a")]);
    const client = await caller();
    for (let each = 0; each < 2; each++) {
      client.send(`${line}Expect: 100-Continue\r\ntransfer-encoding: chunked\r\n\r\n`);
      await until(() => client.text.split("100 Continue").length === each + 2, "the interim answer");
      client.send(chunk(chatBody()) + LAST_CHUNK);
      await until(() => client.answers().length === each + 1, "the answer");
      assert.equal(client.answers()[each]?.status, 200);
    }
    assert.equal(nodes[0]?.calls.length, 2);
    assert.ok(nodes[0]?.calls.every(({ headers }) => headers["expect"] === undefined));
  });

  test("G01: a caller who does not wait for the interim answer is served all the same", async (t) => {
    const { caller } = await startField(t, [healthy("a")]);
    const client = await caller();
    client.send(post(chatBody(), { expect: "100-continue" }));
    assert.equal((await client.answer()).status, 200);
  });

  test("G01: a caller who waits for it while no node has room gets it, and then the refusal", async (t) => {
    const { caller } = await startField(t, [{ script: healthy("a"), maxInFlight: 0 }]);
    const client = await caller();
    const body = chatBody();
    client.send(`${line}expect: 100-continue\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`);
    await client.waitFor("100 Continue");
    client.send(body);
    assert.equal((await client.answer()).status, 503);
  });

  test("G01: an offer to speak another protocol is no reason not to answer in this one", async (t) => {
    const { plane, nodes } = await startField(t, [healthy("a")]);
    const offers: Record<string, string>[] = [
      {
        connection: "Upgrade, HTTP2-Settings",
        upgrade: "h2c",
        "http2-settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
      },
      { connection: "Upgrade", upgrade: "websocket" },
    ];
    for (const offer of offers) assert.equal((await ask(plane.port, post(chatBody(), offer))).status, 200);
    for (const { headers } of nodes[0]?.calls ?? []) {
      assert.equal(headers["upgrade"], undefined);
      assert.equal(headers["http2-settings"], undefined);
    }
  });
});
