import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { createInstance } from "./admin-app.ts";
import { json, KEYS, problemOf, startAdmin } from "./testing/admin-fixture.ts";

/** Sends bytes as they are and gives everything that comes back until the other side closes. */
async function raw(port: number, text: string | Buffer): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  let answer = "";
  socket.setEncoding("latin1").on("data", (part: string) => {
    answer += part;
  });
  socket.write(text);
  await once(socket, "close");
  return answer;
}

const get = (headers: string, path = "/admin/v1/fleet") =>
  `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${headers}\r\n`;

test("keys of any shape but that of one key are a 401, never another answer", async (t) => {
  const { number } = await startAdmin(t);
  const cases: readonly (readonly [string, string])[] = [
    ["no header", ""],
    ["empty", "authorization: \r\n"],
    ["scheme alone", "authorization: Bearer\r\n"],
    ["length 0", "authorization: Bearer \r\n"],
    ["one character less", "authorization: Bearer ops-ke\r\n"],
    ["one character more", "authorization: Bearer ops-keyy\r\n"],
    ["another scheme", "authorization: Basic ops-key\r\n"],
    ["two keys", "authorization: Bearer ops-key ops-key\r\n"],
    ["non-ASCII", "authorization: Bearer ops-k\xe9y\r\n"],
    ["64 KB", `authorization: Bearer ${"k".repeat(64 * 1024)}\r\n`],
    ["doubled, both right", "authorization: Bearer ops-key\r\nauthorization: Bearer ops-key\r\n"],
    ["doubled, right and wrong", "authorization: Bearer ops-key\r\nAuthorization: Bearer app-key\r\n"],
  ];
  for (const [what, headers] of cases) {
    const answer = await raw(number, Buffer.from(get(headers), "latin1"));
    assert.match(answer, /^HTTP\/1\.1 401 /, what);
    assert.match(answer, /www-authenticate: Bearer/i, what);
    assert.match(answer, /content-type: application\/problem\+json/i, what);
    assert.doesNotMatch(answer, /ops-k/, "no answer repeats a key");
  }
  assert.match(await raw(number, get("authorization: bearer ops-key\r\n")), /^HTTP\/1\.1 200 /, "schemes have no case");
});

test("a key that has expired is a 401; without a key of scope admin the loopback port is open", async (t) => {
  const closed = await startAdmin(t, { keys: { old: { ...(KEYS["ops-key"] as object), expiresAtMs: 1 } as never } });
  assert.equal((await problemOf(await closed.ask("/admin/v1/fleet", { key: null }))).code, "missing_api_key");
  assert.equal((await problemOf(await closed.ask("/admin/v1/fleet", { key: "old" }))).code, "invalid_api_key");
  const { "app-key": app, "tenant-reader-key": reader } = KEYS;
  const open = await startAdmin(t, { keys: { "app-key": app as never, "tenant-reader-key": reader as never } });
  assert.equal((await open.ask("/admin/v1/fleet", { key: null })).status, 200);
  // a key that is presented counts: whoever sends one wants to be its holder
  assert.equal((await problemOf(await open.ask("/admin/v1/fleet", { key: "typo" }))).code, "invalid_api_key");
  assert.equal(
    (await problemOf(await open.ask("/admin/v1/fleet", { key: "tenant-reader-key" }))).code,
    "operator_only",
  );
});

test("neither probes nor strangers load the app; the first caller with a key does, once", async (t) => {
  const { ask, port } = await startAdmin(t);
  const health = await ask("/healthz", { key: null });
  assert.deepEqual([health.status, await health.json()], [200, { status: "ok" }]);
  assert.equal((await ask("/readyz", { key: null })).status, 200);
  assert.equal((await problemOf(await ask("/healthz", { key: null, method: "POST" }))).code, "method_not_allowed");
  assert.equal((await ask("/admin/v1/fleet", { key: null })).status, 401);
  assert.equal((await ask("/nothing", { key: "app-key" })).status, 403, "not even which paths exist");
  assert.equal(port.hasApp, false);
  const all = await Promise.all(Array.from({ length: 5 }, () => ask("/admin/v1/fleet")));
  assert.deepEqual(
    all.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  assert.equal(port.hasApp, true);
});

test("a route without an access rule cannot be registered", async (t) => {
  const { objects } = await startAdmin(t);
  const app = createInstance({ objects } as never, new WeakMap());
  const handler = async () => ({ secret: true });
  assert.throws(() => app.get("/admin/v1/forgotten", handler), /GET \/admin\/v1\/forgotten names no access rule/);
  assert.throws(
    () => app.route({ method: "POST", url: "/x", config: { access: "everybody" }, handler }),
    /names no access rule/,
  );
  assert.doesNotThrow(() => app.route({ method: "GET", url: "/y", config: { access: "read" }, handler }));
});

test("a page of another site changes nothing on a port that asks for no key", async (t) => {
  const { ask, objects, number } = await startAdmin(t, { keys: {} });
  objects.add("node", "default", "a");
  const drain = "/admin/v1/nodes/a/drain";
  const post = (headers: Record<string, string>) =>
    ask(drain, { method: "POST", body: "{}", headers: { "content-type": "application/json", ...headers } });
  const refused: Record<string, string>[] = [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: `http://127.0.0.1:${number + 1}` },
    { origin: `https://127.0.0.1:1` },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
  ];
  for (const headers of refused) {
    assert.equal((await problemOf(await post(headers))).code, "cross_site", JSON.stringify(headers));
  }
  // what a form or a simple fetch can send without a preflight
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]) {
    const response = await ask(drain, {
      method: "POST",
      body: new Blob(["{}"]),
      headers: type === "" ? {} : { "content-type": type },
    });
    assert.equal((await problemOf(response)).code, "unsupported_media_type", type);
  }
  assert.equal((await problemOf(await ask(drain, { method: "POST" }))).code, "unsupported_media_type", "no body");
  const reply = await ask(drain, { method: "OPTIONS", headers: { origin: "https://evil.example" } });
  assert.equal((await problemOf(reply)).code, "method_not_allowed", "no preflight is granted");
  for (const [name] of reply.headers) assert.doesNotMatch(name, /^access-control/);
  assert.equal(objects.draining.size, 0);
  for (const headers of [{}, { origin: `http://127.0.0.1:${number}` }, { "sec-fetch-site": "same-origin" }]) {
    assert.equal((await post(headers as Record<string, string>)).status, 200, JSON.stringify(headers));
  }
  assert.equal(objects.draining.size, 1);
});

test("a name that was pointed at this machine gets nothing from a port that asks for no key", async (t) => {
  const open = await startAdmin(t, { keys: {} });
  const status = async (port: number, host: string, path = "/admin/v1/fleet") => {
    const answer = await raw(port, `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    return Number(answer.slice(9, 12));
  };
  const strange = [
    "evil.example",
    "evil.example:8081",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.1",
    "[2001:db8::1]:80",
    "",
    "a b",
    "localhost@evil",
    "0.0.0.0",
  ];
  for (const host of strange) assert.equal(await status(open.number, host), 403, host);
  for (const host of ["localhost", "LOCALHOST:8081", "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]:8081"]) {
    assert.equal(await status(open.number, host), 200, host);
  }
  assert.equal(await status(open.number, "evil.example", "/healthz"), 200, "probes tell nothing");
  const withKeys = await startAdmin(t);
  const answer = await raw(
    withKeys.number,
    "GET /admin/v1/fleet HTTP/1.1\r\nhost: zml.example\r\nauthorization: Bearer ops-key\r\nconnection: close\r\n\r\n",
  );
  assert.match(answer, /^HTTP\/1\.1 200 /, "with a key the name does not matter");
  const allowed = await startAdmin(t, { keys: {}, allowUnauthenticated: true });
  assert.equal(await status(allowed.number, "zml.example"), 200, "the operator said that anybody may");
});

test("no answer lets a page read, keep, guess or frame it", async (t) => {
  const { ask } = await startAdmin(t);
  for (const path of ["/admin/v1/fleet", "/nothing", "/healthz"]) {
    const { headers } = await ask(path, { headers: { origin: "https://evil.example" } });
    assert.equal(headers.get("access-control-allow-origin"), null);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("cache-control"), "no-store");
    assert.equal(headers.get("cross-origin-resource-policy"), "same-origin");
    assert.match(headers.get("content-security-policy") ?? "", /frame-ancestors 'none'/);
  }
});

test("whatever is no HTTP is answered with a problem, and never with silence or a 5xx", async (t) => {
  const { number } = await startAdmin(t, { limits: { requestMs: 300 } });
  const key = "authorization: Bearer ops-key\r\n";
  const cases: readonly (readonly [string, string, number])[] = [
    ["no HTTP", "nonsense\r\n\r\n", 400],
    ["no host", `GET /admin/v1/fleet HTTP/1.1\r\nconnection: close\r\n${key}\r\n`, 400],
    ["two hosts", `GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n${key}\r\n`, 400],
    ["a head of 200 KB", get(`x: ${"x".repeat(200 * 1024)}\r\n`), 431],
    ["an expectation", get(`${key}expect: 200-maybe\r\n`), 417],
    ["a bad percent-encoding", get(key, "/admin/v1/policies/%zz"), 400],
    ["a name that is longer than any", get(key, `/admin/v1/policies/${"x".repeat(2_000)}`), 400],
    ["bytes that are no UTF-8", get(key, "/admin/v1/policies/%ff"), 400],
    [
      "a body that never comes",
      `POST /admin/v1/reload HTTP/1.1\r\nhost: x\r\n${key}content-type: application/json\r\ncontent-length: 10\r\n\r\n{`,
      408,
    ],
    ["a head that never ends", "GET /admin/v1/fleet HTTP/1.1\r\nhost: x\r\n", 408],
  ];
  for (const [what, text, status] of cases) {
    const answer = await raw(number, text);
    assert.equal(Number(answer.slice(9, 12)), status, `${what}: ${answer.slice(0, 300)}`);
    assert.match(answer, /content-type: application\/problem\+json/i, what);
    assert.match(answer, /"request_id":"[^"]+"/, what);
  }
});

test("bodies are bounded, strictly UTF-8 and JSON, and no error repeats them", async (t) => {
  const { ask } = await startAdmin(t, { limits: { bodyBytes: 4096 } });
  const send = (
    body: string | Uint8Array<ArrayBuffer>,
    headers: Record<string, string> = { "content-type": "application/json" },
  ) => ask("/admin/v1/apply", { method: "POST", body, headers });
  const secret = "zml_very-secret";
  const cases: readonly (readonly [string, Response, string])[] = [
    ["not JSON", await send(`{"a": ${secret}`), "invalid_json"],
    ["empty", await send(""), "invalid_json"],
    ["white space", await send("  "), "invalid_json"],
    ["not UTF-8", await send(new Uint8Array([0x7b, 0xff, 0x7d])), "invalid_json"],
    ["a prototype", await send(`{"__proto__": {"x": "${secret}"}}`), "invalid_json"],
    ["a list", await send(`["${secret}"]`), "invalid_body"],
    ["a text that is YAML", await send('"policies: []"'), "invalid_body"],
    ["a text", await send(`"${secret}"`), "invalid_body"],
    ["nothing", await send("null"), "invalid_body"],
    ["too large", await send(`{"a":"${"x".repeat(5000)}"}`), "body_too_large"],
    [
      "compressed",
      await send("{}", { "content-type": "application/json", "content-encoding": "gzip" }),
      "unsupported_media_type",
    ],
    ["another type", await send("<a/>", { "content-type": "application/xml" }), "unsupported_media_type"],
    ["no type at all", await send(new Uint8Array([1]), {}), "unsupported_media_type"],
    ["broken YAML", await send(`a: [${secret}`, { "content-type": "application/yaml" }), "invalid_yaml"],
    ["YAML that is a list", await send("- a\n", { "content-type": "application/yaml" }), "invalid_body"],
  ];
  for (const [what, response, code] of cases) {
    const problem = await problemOf(response);
    assert.equal(problem.code, code, what);
    assert.doesNotMatch(JSON.stringify(problem), /very-secret/, what);
  }
  assert.equal((await send(`{"a":"${"x".repeat(3000)}"}`)).status, 200);
  for (const type of ["application/yaml", "application/x-yaml", "text/yaml; charset=utf-8"]) {
    assert.equal((await send("policies: []\n", { "content-type": type })).status, 200, type);
  }
});

test("the limit of bodies follows the configuration without a restart", async (t) => {
  const { ask, limits, port } = await startAdmin(t, { limits: { bodyBytes: 2048 } });
  const body = () => ({ method: "POST", ...json({ a: "x".repeat(4000) }) });
  const refused = await problemOf(await ask("/admin/v1/apply", body()));
  assert.match(refused.detail, /larger than 2048 bytes: send less, or raise admin\.body_bytes/);
  limits.bodyBytes = 8192;
  port.applyLimits();
  assert.equal((await ask("/admin/v1/apply", body())).status, 200);
});

test("connections over the limit are closed, and the others are served", async (t) => {
  const { number, ask } = await startAdmin(t, { limits: { connections: 2 } });
  const kept = [connect(number, "127.0.0.1"), connect(number, "127.0.0.1")];
  await Promise.all(kept.map((socket) => once(socket, "connect")));
  t.after(() => kept.map((socket) => socket.destroy()));
  // both have been accepted once the second of them answers
  kept[1]?.write(get("authorization: Bearer ops-key\r\n").replace("close", "keep-alive"));
  await once(kept[1] as never, "data");
  assert.equal(await raw(number, get("")), "");
  kept[0]?.destroy();
  await once(kept[0] as never, "close");
  kept[1]?.destroy();
  await once(kept[1] as never, "close");
  assert.equal((await ask("/readyz")).status, 200);
});

test("what fails inside is a 500 that names the request and nothing of the cause", async (t) => {
  const lines: { fields: object; message: string }[] = [];
  const log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields: object, message: string) => void lines.push({ fields, message }),
  };
  const fleet = () => {
    throw new Error("zml_secret in a stack");
  };
  const { ask } = await startAdmin(t, { sources: { fleet, log } });
  const response = await ask("/admin/v1/fleet", { headers: { "x-request-id": "my-request" } });
  const problem = await problemOf(response);
  assert.equal(problem.code, "internal_error");
  assert.equal(problem.request_id, "my-request");
  assert.doesNotMatch(JSON.stringify(problem), /secret|stack/);
  assert.match(JSON.stringify(lines), /my-request.*zml_secret/);
});
