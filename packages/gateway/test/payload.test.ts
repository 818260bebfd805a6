import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, describe, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { FIXTURE_MODEL, type FixtureNode, type PlaneFixture, startPlane } from "./plane-fixture.ts";
import { ask, chatBody, post } from "./raw-client.ts";
import {
  answering,
  chatAnswer,
  healthy,
  type NodeScript,
  type ScriptedNode,
  startScriptedNode,
} from "./scripted-node.ts";

const toStop: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of toStop.splice(0)) await each.stop();
});

async function fixture(
  more: Partial<FixtureNode> & { prefix?: string } = {},
  options: { script?: NodeScript; keys?: NonNullable<Parameters<typeof startPlane>[1]>["keys"] } = {},
): Promise<{ node: ScriptedNode; plane: PlaneFixture }> {
  const node = await startScriptedNode(options.script ?? healthy("a"));
  const { prefix = "", ...rest } = more;
  const plane = await startPlane(
    [{ id: "a", url: node.url + prefix, ...rest }],
    options.keys === undefined ? {} : { keys: options.keys },
  );
  toStop.push(plane, node);
  return { node, plane };
}

const sha256 = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");

const ODD = `{ "seed":18446744073709551615 ,"big" : 1e400, "zero":-0,"one":1.0,\t"long":0.1000000000000000055511151231257827,
 "messages":[ {"role":"user","content":"h\\u00e9 \\ud83d\\ude42 漢字 \\/ "} ], "model" :  "${FIXTURE_MODEL}"  ,"nested":{"model":"inner","stream":"x"},
 "tools":[{"id":9007199254740993}] }\n`;

describe("what arrives is what leaves", () => {
  test("I05: odd numbers, spaces and escapes reach the node byte for byte", async () => {
    const { node, plane } = await fixture();
    assert.equal((await ask(plane.port, post(ODD))).status, 200);
    assert.equal(node.calls[0]?.sha256(), sha256(ODD));
    await plane.settled();
  });

  for (const size of [10_000, 300_000, 2_000_000]) {
    test(`a body of ${size} bytes, with a correct length`, async () => {
      const { node, plane } = await fixture();
      const body = chatBody({ x: "é".repeat(size / 2) });
      assert.equal((await ask(plane.port, post(body))).status, 200);
      assert.equal(node.calls[0]?.sha256(), sha256(body));
      assert.equal(node.calls[0]?.headers["content-length"], String(Buffer.byteLength(body)));
      assert.equal(node.calls[0]?.headers["transfer-encoding"], undefined);
      await plane.settled();
    });
  }

  test("I05: an upstream name is spliced in, and nothing else changes", async () => {
    const { node, plane } = await fixture({ upstreamModel: 'org/"big" 模' });
    assert.equal((await ask(plane.port, post(ODD))).status, 200);
    const expected = ODD.replace(`"${FIXTURE_MODEL}"`, JSON.stringify('org/"big" 模'));
    assert.equal(node.calls[0]?.body.toString(), expected);
    assert.equal(node.calls[0]?.headers["content-length"], String(Buffer.byteLength(expected)));
    await plane.settled();
  });

  test("an upstream name is spliced in where the key is escaped", async () => {
    const { node, plane } = await fixture({ upstreamModel: "big" });
    await ask(plane.port, post(`{"mod\\u0065l":"${FIXTURE_MODEL}","n":1}`));
    assert.equal(node.calls[0]?.body.toString(), '{"mod\\u0065l":"big","n":1}');
    await plane.settled();
  });

  test("a second attempt carries the same bytes", async () => {
    const a = await startScriptedNode(answering(500, "{}"));
    const b = await startScriptedNode(healthy("b"));
    const plane = await startPlane([
      { id: "a", url: a.url, family: "H100", upstreamModel: "x" },
      { id: "b", url: b.url, family: "MI300X" },
    ]);
    toStop.push(plane, a, b);
    const body = chatBody({ x: "y".repeat(600_000) });
    assert.equal((await ask(plane.port, post(body))).status, 200);
    assert.equal(a.calls.length, 1);
    assert.equal(b.calls[0]?.sha256(), sha256(body));
    await plane.settled();
  });
});

describe("G02: headers pass by allow-list", () => {
  test("credentials and everything else of the caller's stay here", async () => {
    const { node, plane } = await fixture({ apiKey: "node-key" }, { keys: [{ name: "app", value: "caller-key" }] });
    const answer = await ask(
      plane.port,
      post(chatBody(), {
        authorization: "Bearer caller-key",
        cookie: "canary=1",
        "x-api-key": "caller-key",
        "x-forwarded-for": "1.2.3.4",
        "x-zml-policy": "p",
        connection: "keep-alive, x-hop, authorization, content-length",
        "x-hop": "canary",
        te: "trailers",
        "proxy-authorization": "canary",
        "user-agent": "canary",
        accept: "application/json",
        "openai-beta": "assistants=v2",
        "anthropic-version": "2023-06-01",
        tracestate: "a=b",
      }),
    );
    assert.equal(answer.status, 200);
    const headers = node.calls[0]?.headers ?? {};
    assert.deepEqual(Object.keys(headers).sort(), [
      "accept",
      "accept-encoding",
      "anthropic-version",
      "authorization",
      "connection",
      "content-length",
      "content-type",
      "host",
      "openai-beta",
      "traceparent",
      "tracestate",
      "x-request-id",
      "x-zml-routing",
    ]);
    assert.equal(headers["authorization"], "Bearer node-key");
    assert.equal(headers["connection"], "keep-alive");
    assert.equal(headers["accept-encoding"], "identity");
    assert.equal(headers["host"], `127.0.0.1:${node.port}`);
    assert.doesNotMatch(JSON.stringify(headers), /canary|caller-key/);
    const routing = decodeRoutingHeader(headers["x-zml-routing"] ?? "");
    assert.equal(routing?.node, "a");
    assert.equal(routing?.queueDepth, 0);
    assert.equal(routing?.attempt, 1);
    assert.match(routing?.decision ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    await plane.settled();
  });

  test("without a key of the node's none is sent", async () => {
    const { node, plane } = await fixture();
    await ask(plane.port, post(chatBody(), { authorization: "Bearer caller-key" }));
    assert.equal(node.calls[0]?.headers["authorization"], undefined);
    await plane.settled();
  });

  test("of the node's headers the caller gets those that are meant for it", async () => {
    const { plane } = await fixture(
      {},
      {
        script: answering(200, chatAnswer("a"), {
          "set-cookie": "canary=1",
          server: "canary",
          "x-internal": "canary",
          connection: "keep-alive, x-hop",
          "x-hop": "canary",
          "www-authenticate": "canary",
          "x-zml-routing": 'node="canary"',
          "x-request-id": "canary",
          "openai-processing-ms": "12",
          "content-language": "en",
        }),
      },
    );
    const { headers } = await ask(plane.port, post(chatBody(), { "x-request-id": "mine" }));
    assert.doesNotMatch(JSON.stringify(headers), /canary/);
    assert.equal(headers["openai-processing-ms"], "12");
    assert.equal(headers["content-language"], "en");
    assert.equal(headers["x-request-id"], "mine");
    assert.equal(decodeRoutingHeader(headers["x-zml-routing"] ?? "")?.node, "a");
    await plane.settled();
  });

  test("the request's id and trace are honoured, sent on and returned", async () => {
    const { node, plane } = await fixture();
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const { headers } = await ask(plane.port, post(chatBody(), { "x-request-id": "req-1", traceparent }));
    assert.equal(headers["x-request-id"], "req-1");
    assert.equal(headers["traceparent"], traceparent);
    assert.equal(node.calls[0]?.headers["x-request-id"], "req-1");
    assert.equal(node.calls[0]?.headers["traceparent"], traceparent);
    await plane.settled();
  });

  test("an id or trace that can't be one is replaced", async () => {
    const { node, plane } = await fixture();
    for (const [id, traceparent] of [
      ["has space", "garbage"],
      ["x".repeat(200), "00-00000000000000000000000000000000-b7ad6b7169203331-01"],
    ] as const) {
      const { headers } = await ask(plane.port, post(chatBody(), { "x-request-id": id, traceparent }));
      assert.match(headers["x-request-id"] ?? "", /^[0-9a-f]{32}$/);
      assert.match(headers["traceparent"] ?? "", /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01$/);
      assert.equal(node.calls.at(-1)?.headers["x-request-id"], headers["x-request-id"]);
    }
    await plane.settled();
  });
});

describe("I08: the path on the node is ours", () => {
  for (const [prefix, path] of [
    ["", "/v1/chat/completions"],
    ["/v1", "/v1/chat/completions"],
    ["/llm", "/llm/v1/chat/completions"],
    ["/llm/v4", "/llm/v4/chat/completions"],
    ["/llm?key=1", "/llm/v1/chat/completions?key=1"],
  ] as const) {
    test(`a base URL that ends in ${JSON.stringify(prefix)}`, async () => {
      const { node, plane } = await fixture({ prefix });
      assert.equal((await ask(plane.port, post(chatBody(), {}, "/v1/chat/completions?evil=../"))).status, 200);
      assert.equal(node.calls[0]?.requestLine, `POST ${path} HTTP/1.1`);
      await plane.settled();
    });
  }

  test("every routed endpoint has its own", async () => {
    const { node, plane } = await fixture();
    for (const path of ["completions", "responses", "messages", "embeddings", "rerank"]) {
      await ask(plane.port, post(chatBody(), {}, `/v1/${path}`));
      assert.equal(node.calls.at(-1)?.requestLine, `POST /v1/${path} HTTP/1.1`);
    }
    await plane.settled();
  });
});
