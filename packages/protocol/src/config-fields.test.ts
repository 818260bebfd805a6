import assert from "node:assert/strict";
import { test } from "node:test";
import { formatListen, isLoopback, isModelName, parseListen, whyNotNodeUrl } from "./config-fields.ts";

test("a listen address is HOST:PORT with IPv6 in brackets", () => {
  assert.deepEqual(parseListen("127.0.0.1:8080"), { host: "127.0.0.1", port: 8080 });
  assert.deepEqual(parseListen("[::1]:0"), { host: "::1", port: 0 });
  assert.deepEqual(parseListen("zml.internal:65535"), { host: "zml.internal", port: 65_535 });
});

test("what is no listen address is refused", () => {
  for (const text of [
    "",
    "8080",
    ":8080",
    "*:8080",
    "::1:8080",
    "[::1]",
    "[::1:8080",
    "[127.0.0.1]:1",
    "[::g]:1",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:8080/",
    "256.0.0.1:80",
    "127.0.1:80",
    "http://127.0.0.1:80",
    "a b:80",
    "127.0.0.1:8080\n",
  ]) {
    assert.equal(parseListen(text), null, JSON.stringify(text));
  }
});

test("an address is written as it is read", () => {
  for (const text of ["127.0.0.1:8080", "[::1]:0", "localhost:1"]) {
    const address = parseListen(text);
    assert.ok(address !== null);
    assert.equal(formatListen(address), text);
  }
});

test("only addresses of this machine are loopback", () => {
  for (const host of [
    "127.0.0.1",
    "127.9.9.9",
    "localhost",
    "LOCALHOST",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
  ]) {
    assert.equal(isLoopback(host), true, host);
  }
  for (const host of [
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "127.example.com",
    "localhost.example.com",
    "::ffff:10.0.0.1",
    "fe80::1",
  ]) {
    assert.equal(isLoopback(host), false, host);
  }
});

test("a node's URL is an origin and at most a path prefix", () => {
  for (const url of ["http://10.0.0.21:8000", "https://node.example/serve/a", "http://[::1]:8000/"]) {
    assert.equal(whyNotNodeUrl(url), null, url);
  }
  const refused: [string, RegExp][] = [
    ["10.0.0.21:8000", /expected a URL such as/],
    ["localhost:8000", /write http:\/\/localhost:8000/],
    ["ftp://h", /scheme "ftp"/],
    ["http://u@h", /credentials/],
    ["http://u:p@h", /credentials/],
    ["http://h/?a=1", /query/],
    ["http://h/#a", /fragment/],
    ["", /expected a URL/],
  ];
  for (const [url, reason] of refused) assert.match(whyNotNodeUrl(url) ?? "", reason, url);
});

test("a model name is 1 to 256 bytes of UTF-8 without control characters", () => {
  assert.equal(isModelName("Qwen/Qwen3-8B (né)"), true);
  assert.equal(isModelName("é".repeat(128)), true);
  for (const name of ["", "é".repeat(129), "a\u0000", "a\u007f", "a\u0085", "\ud800"]) {
    assert.equal(isModelName(name), false, JSON.stringify(name));
  }
});
