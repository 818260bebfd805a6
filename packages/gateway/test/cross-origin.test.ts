/** What pages of other origins may ask and read: preflights, answers, errors, over HTTP/1.1 and HTTP/2. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";
import { connect } from "node:http2";
import { type TestContext, test } from "node:test";
import { fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const KEY = "sk-of-the-application";
const PAGE = "https://app.example.com";
const BODY = JSON.stringify({ model: "m", max_tokens: 4, messages: [{ role: "user", content: "hi" }] });
const PREFLIGHT = {
  origin: PAGE,
  "access-control-request-method": "POST",
  "access-control-request-headers": "authorization,content-type,x-stainless-lang,x-zml-policy",
};

async function start(t: TestContext, origins: string) {
  const node = await fakeNode(t);
  const file = (data: string) => `data: { listen: 127.0.0.1:0${data} }
admin: { listen: 127.0.0.1:0 }
keys: [{ name: app, value_env: APP }]
nodes: [{ id: a, url: "${node.url}", family: H100 }]
`;
  const started = await startOn(t, file(origins), { env: { APP: KEY }, isWatched: true });
  return { ...started, file };
}

async function ask(url: string, method: string, path: string, headers: OutgoingHttpHeaders, body?: string) {
  const call = request(url + path, { method, headers, agent: false }).end(body);
  const [response] = (await once(call, "response")) as [import("node:http").IncomingMessage];
  let text = "";
  for await (const piece of response) text += String(piece);
  return { status: response.statusCode, headers: response.headers, text };
}

function corsOf(headers: IncomingHttpHeaders): string[] {
  return Object.keys(headers)
    .filter((name) => name.startsWith("access-control-") || name === "vary")
    .sort();
}

test("without cors_origins a page gets nothing, and a preflight is a wrong method", async (t) => {
  const { gateway } = await start(t, "");
  const preflight = await ask(gateway.dataUrl, "OPTIONS", "/v1/chat/completions", PREFLIGHT);
  assert.deepEqual([preflight.status, corsOf(preflight.headers)], [405, []]);
  const headers = { origin: PAGE, authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  const answer = await ask(gateway.dataUrl, "POST", "/v1/chat/completions", headers, BODY);
  assert.deepEqual([answer.status, corsOf(answer.headers)], [200, []]);
});

test("an origin that is not listed is told nothing, on preflights, answers and look-alikes", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["${PAGE}"]`);
  const others = ["https://app.example.com.evil.test", "http://app.example.com", `${PAGE}:8443`, "null", "*", ""];
  for (const origin of others) {
    const preflight = await ask(gateway.dataUrl, "OPTIONS", "/v1/models", { ...PREFLIGHT, origin });
    assert.deepEqual([preflight.status, corsOf(preflight.headers)], [405, ["vary"]], origin);
  }
  const answer = await ask(gateway.dataUrl, "GET", "/v1/models", { authorization: `Bearer ${KEY}` });
  assert.deepEqual([answer.status, corsOf(answer.headers)], [200, ["vary"]]);
  assert.equal(answer.headers.vary, "origin");
});

test("a preflight needs no key, and allows the header that will carry it", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["https://other.example", "${PAGE}"]`);
  for (const path of ["/v1/chat/completions", "/v1/embeddings", "/v1/models", "/v1/models/m", "/readyz"]) {
    const { status, headers, text } = await ask(gateway.dataUrl, "OPTIONS", path, PREFLIGHT);
    assert.deepEqual([status, text], [204, ""], path);
    assert.equal(headers["access-control-allow-origin"], PAGE);
    assert.equal(headers["access-control-allow-methods"], "GET, HEAD, POST");
    assert.equal(headers["access-control-allow-headers"], PREFLIGHT["access-control-request-headers"]);
    assert.equal(headers["access-control-max-age"], "7200");
    assert.equal(headers["access-control-allow-credentials"], undefined, "no cookie is ever asked for");
    assert.match(headers.vary ?? "", /^origin, /);
  }
  const nothingAsked = { origin: PAGE, "access-control-request-method": "GET" };
  const bare = await ask(gateway.dataUrl, "OPTIONS", "/v1/models", nothingAsked);
  assert.deepEqual([bare.status, bare.headers["access-control-allow-headers"]], [204, undefined]);
});

test("what is no list of header names is not said back", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["${PAGE}"]`);
  for (const asked of ['x"; drop', "a b", ",", "x".repeat(3000), "<script>"]) {
    const headers = { ...PREFLIGHT, "access-control-request-headers": asked };
    const preflight = await ask(gateway.dataUrl, "OPTIONS", "/v1/models", headers);
    assert.deepEqual([preflight.status, preflight.headers["access-control-allow-headers"]], [204, undefined], asked);
  }
  // an OPTIONS that is no preflight
  const plain = await ask(gateway.dataUrl, "OPTIONS", "/v1/models", { origin: PAGE });
  assert.equal(plain.status, 405);
  assert.equal(plain.headers["access-control-allow-origin"], PAGE);
});

test("a page of a listed origin may read answers, streams and errors, with their routing", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["${PAGE}"]`);
  const known = { origin: PAGE, authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  const cases: [number, string, OutgoingHttpHeaders, string | undefined][] = [
    [200, "/v1/chat/completions", known, BODY],
    [200, "/v1/chat/completions", known, BODY.replace("{", '{"stream":true,')],
    [404, "/v1/chat/completions", known, BODY.replace('"m"', '"none"')],
    [401, "/v1/chat/completions", { ...known, authorization: "Bearer wrong" }, BODY],
    [401, "/v1/models", { origin: PAGE }, undefined],
    [404, "/v1/nothing", known, undefined],
    [200, "/healthz", { origin: PAGE }, undefined],
  ];
  for (const [status, path, headers, body] of cases) {
    const answer = await ask(gateway.dataUrl, body === undefined ? "GET" : "POST", path, headers, body);
    assert.equal(answer.status, status, path);
    assert.equal(answer.headers["access-control-allow-origin"], PAGE, path);
    assert.equal(answer.headers.vary, "origin");
    const exposed = (answer.headers["access-control-expose-headers"] ?? "").split(", ");
    for (const name of ["x-zml-routing", "x-request-id", "retry-after", "x-should-retry"]) {
      assert.ok(exposed.includes(name), name);
    }
    if (body !== undefined) assert.match(answer.headers["x-zml-routing"]?.toString() ?? "", /reason=/);
  }
});

test("`*` lets every page read, whatever else is listed", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["${PAGE}", "*"]`);
  for (const origin of ["https://anywhere.example", "null"]) {
    const preflight = await ask(gateway.dataUrl, "OPTIONS", "/v1/chat/completions", { ...PREFLIGHT, origin });
    assert.deepEqual([preflight.status, preflight.headers["access-control-allow-origin"]], [204, "*"], origin);
    assert.match(preflight.headers["access-control-allow-headers"]?.toString() ?? "", /^authorization,/);
  }
});

test("a changed list holds from the next request on", async (t) => {
  const { gateway, write, file } = await start(t, "");
  write(file(`, cors_origins: ["${PAGE}"]`));
  await until("the page is let in", async () => {
    return (await ask(gateway.dataUrl, "OPTIONS", "/v1/models", PREFLIGHT)).status === 204;
  });
});

test("HTTP/2 says the same", async (t) => {
  const { gateway } = await start(t, `, cors_origins: ["${PAGE}"]`);
  const session = connect(gateway.dataUrl);
  t.after(() => session.destroy());
  const get = async (headers: OutgoingHttpHeaders) => {
    const stream = session.request(headers);
    stream.resume();
    const [head] = (await once(stream, "response")) as [Record<string, string | number>];
    return head;
  };
  const preflight = await get({ ":method": "OPTIONS", ":path": "/v1/models", ...PREFLIGHT });
  assert.equal(preflight[":status"], 204);
  assert.equal(preflight["access-control-allow-origin"], PAGE);
  assert.equal(preflight["access-control-allow-headers"], PREFLIGHT["access-control-request-headers"]);
  const answer = await get({ ":path": "/v1/models", origin: PAGE, authorization: `Bearer ${KEY}` });
  assert.equal(answer[":status"], 200);
  assert.equal(answer["access-control-allow-origin"], PAGE);
});

test("a list that would let nobody in is refused with what to write", async () => {
  const { readConfig } = await import("../src/config/read-config.ts");
  const problems = (origins: string) =>
    readConfig(`${PORTS.replace("0 }", `0, cors_origins: ${origins} }`)}`, { fileName: "zml.yaml", env: {} })
      .errors.map(({ message }) => message)
      .join();
  assert.equal(problems('["https://app.example.com", "http://localhost:3000", "chrome-extension://abcdef", "*"]'), "");
  assert.match(problems('["https://app.example.com/"]'), /write https:\/\/app\.example\.com\)/);
  assert.match(problems('["https://APP.example.com:443/x?y"]'), /write https:\/\/app\.example\.com\)/);
  assert.match(problems('["app.example.com"]'), /expected an origin such as https:\/\/app\.example\.com/);
  assert.match(problems('["null"]'), /expected an origin/);
  assert.match(problems('["file:///index.html"]'), /expected an origin/);
  assert.match(problems('"https://app.example.com"'), /expected a list/);
  assert.doesNotMatch(problems('["https://user:hunter2@app.example.com"]'), /hunter2/);
});
