import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { ConfigurationError, ZML } from "./index.ts";
import { readSettings } from "./settings.ts";
import { VERSION } from "./version.ts";

function refused(options: Record<string, unknown>): string {
  try {
    new ZML(options);
  } catch (error) {
    assert.ok(error instanceof ConfigurationError, String(error));
    return error.message;
  }
  return assert.fail(`${JSON.stringify(options)} was taken`);
}

test("a base URL that can't be one is refused when the client is made, with what to give", () => {
  for (const baseUrl of ["", " ", "localhost:8080", "ftp://x", "http://", "http:// x", "//x", "/v1", 7, {}, "ws://x"]) {
    assert.match(refused({ baseUrl }), /baseUrl .*: give baseUrl as http:\/\/127\.0\.0\.1:8080 or https:\/\/HOST/);
  }
  assert.match(refused({ adminUrl: "x" }), /adminUrl .*: give adminUrl as http:\/\/127\.0\.0\.1:8081/);
  assert.match(refused({ baseUrl: "http://x?api-version=1" }), /has a query/);
  assert.match(refused({ baseUrl: "http://x/#a" }), /fragment/);
});

test("a password in a base URL is refused and not shown", () => {
  for (const baseUrl of ["http://user:hunter2@x", "http://hunter2@x", "user:hunter2@x y", "http://user:hunter2@"]) {
    assert.doesNotMatch(refused({ baseUrl }), /hunter2/);
  }
});

test("each spelling of a base URL is the same, and a path prefix is kept", () => {
  const read = (baseUrl: string): string => readSettings({ baseUrl }).data.url;
  for (const end of ["", "/", "/v1", "/v1/", "//", "/v1//"]) assert.equal(read(`http://x:1${end}`), "http://x:1");
  assert.equal(read(" HTTPS://X/llm/v1 "), "https://x/llm");
  assert.equal(read("http://x/v1/llm"), "http://x/v1/llm");
  assert.equal(read("http://[::1]:8080/"), "http://[::1]:8080");
  assert.equal(read("http://x/my-v1"), "http://x/my-v1");
});

test("a key that fits in no header is refused and not shown, an empty one is none", () => {
  for (const apiKey of ["hunter2\n", "hunter 2", "hünter2", 7, {}]) {
    assert.doesNotMatch(refused({ apiKey }), /h.nter/);
  }
  assert.match(refused({ adminKey: "a\n" }), /^adminKey is no key/);
  assert.equal("authorization" in readSettings({ apiKey: "" }).data.headers, false);
});

test("numbers out of range are refused", () => {
  for (const timeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, "5", null]) {
    assert.match(refused({ timeoutMs }), /timeoutMs .*milliseconds/);
  }
  for (const maxRetries of [-1, 0.5, Number.NaN, "1"]) assert.match(refused({ maxRetries }), /maxRetries/);
  assert.match(refused({ headers: { "x y": "1" } }), /no name of a header/);
  assert.match(refused({ headers: { secret: "hunter2\r\n" } }), /^(?!.*hunter2)headers\["secret"\] is no value/);
});

test("the environment stands in for what is not given", (t) => {
  const names = { ZML_BASE_URL: "http://e/v1", ZML_API_KEY: "ek", ZML_ADMIN_URL: "http://ea", ZML_ADMIN_KEY: "eak" };
  const before = { ...process.env };
  t.after(() => {
    for (const name of Object.keys(names)) delete process.env[name];
    Object.assign(process.env, before);
  });
  Object.assign(process.env, names);
  const settings = readSettings({});
  assert.deepEqual([settings.data.url, settings.admin.url], ["http://e", "http://ea"]);
  assert.deepEqual([settings.data.key, settings.admin.key], ["ek", "eak"]);
  const given = readSettings({ baseUrl: "http://g", apiKey: "gk" });
  assert.deepEqual([given.data.url, given.data.key, given.admin.url], ["http://g", "gk", "http://ea"]);
  process.env["ZML_BASE_URL"] = "nonsense";
  assert.match(refused({}), /^ZML_BASE_URL is no URL: "nonsense"/);
  process.env["ZML_BASE_URL"] = "";
  assert.match(refused({}), /ZML_BASE_URL/);
});

test("an environment that may not be read is none", (t) => {
  const { process: real } = globalThis;
  t.after(() => {
    globalThis.process = real;
  });
  const closed = {
    get env(): never {
      throw new Error("requires env access");
    },
  };
  globalThis.process = closed as unknown as typeof real;
  const { url } = readSettings({}).data;
  globalThis.process = real;
  assert.equal(url, "http://127.0.0.1:8080");
});

test("keys go to their own port only, and headers of the application to both", () => {
  const { data, admin } = readSettings({ apiKey: "a", adminKey: "b", headers: { "X-Team": "t", Skip: undefined } });
  assert.equal(data.headers["authorization"], "Bearer a");
  assert.equal(admin.headers["authorization"], "Bearer b");
  assert.deepEqual([data.headers["x-team"], admin.headers["x-team"], "skip" in data.headers], ["t", "t", false]);
  const own = readSettings({ headers: { Authorization: "Basic x" } });
  assert.equal(own.data.headers["authorization"], "Basic x");
  assert.equal("authorization" in own.admin.headers, false);
});

test("headers may be a Headers, a Map or pairs, and nothing that would be left out in silence", () => {
  const pairs: [string, string][] = [["X-Team", "t"]];
  for (const headers of [new Headers(pairs), new Map(pairs), pairs, Object.fromEntries(pairs)]) {
    assert.equal(readSettings({ headers }).data.headers["x-team"], "t");
  }
  for (const headers of ["x-team: t", ["x-team"], [["x-team", "t", "u"]], [[1, "t"]], 7]) {
    assert.match(refused({ headers }), /^headers (is|has) /, JSON.stringify(headers));
  }
});

test("the user agent names the client, but in a browser", (t) => {
  assert.equal(readSettings({}).data.headers["user-agent"], `zml-js/${VERSION}`);
  const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  t.after(() => {
    if (navigator !== undefined) Object.defineProperty(globalThis, "navigator", navigator);
  });
  Object.defineProperty(globalThis, "navigator", { value: { userAgent: "Mozilla/5.0 (X11)" }, configurable: true });
  assert.equal("user-agent" in readSettings({}).data.headers, false);
});

test("no print of a client shows its keys", () => {
  const client = new ZML({ apiKey: "hunter2", adminKey: "hunter3", headers: { cookie: "hunter4" } });
  assert.doesNotMatch(inspect(client, { depth: 9, showHidden: true }) + JSON.stringify(client), /hunter/);
});

test("where there is no fetch, the error says what to do", (t) => {
  const { fetch } = globalThis;
  t.after(() => {
    globalThis.fetch = fetch;
  });
  // @ts-expect-error an old runtime
  globalThis.fetch = undefined;
  assert.match(refused({}), /no fetch: give the option fetch/);
});
