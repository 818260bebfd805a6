/** Who gets in: keys as callers send them, well and badly, over both versions of HTTP. */

import assert from "node:assert/strict";
import { connect } from "node:http2";
import { after, before, describe, test } from "node:test";
import { FRAME, FrameClient } from "./h2-frames.ts";
import { FIXTURE_MODEL, type FixtureKey, fixtureKeys, type PlaneFixture, startPlane } from "./plane-fixture.ts";
import { ask, chatBody, post } from "./raw-client.ts";
import { healthy, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const SECRET = `zml_${"k".repeat(43)}`;
const OTHER = `zml_${"o".repeat(43)}`;

let node: ScriptedNode;
let plane: PlaneFixture;

before(async () => {
  node = await startScriptedNode(healthy("a"));
  plane = await startPlane([{ id: "a", url: node.url }], { keys: keysOf() });
});

after(async () => {
  await plane.stop();
  await node.stop();
});

function keysOf(): FixtureKey[] {
  return [
    { name: "app", value: SECRET },
    { name: "other", value: OTHER },
    { name: "reader", value: "zml_reader", scopes: ["read"] },
    { name: "old", value: "zml_old", expiresAtMs: Date.parse("2020-01-01T00:00:00Z") },
    { name: "one-model", value: "zml_one-model", models: ["other-model", "third-model"] },
    { name: "no-models", value: "zml_no-models", models: [] },
    { name: "one-policy", value: "zml_one-policy", policies: ["zml-default"] },
  ];
}

type Fields = readonly (readonly [string, string])[];

const BAD: [name: string, fields: Fields, code: string, says: RegExp][] = [
  ["no key", [], "missing_api_key", /authorization: Bearer KEY/],
  ["a key of length 0", [["authorization", "Bearer "]], "missing_api_key", /no API key/],
  ["the scheme alone", [["authorization", "Bearer"]], "missing_api_key", /no API key/],
  ["an empty x-api-key", [["x-api-key", ""]], "missing_api_key", /no API key/],
  ["a key one shorter", [["authorization", `Bearer ${SECRET.slice(1)}`]], "invalid_api_key", /not known/],
  ["a key one longer", [["authorization", `Bearer ${SECRET}k`]], "invalid_api_key", /not known/],
  ["a key with its last character changed", [["x-api-key", `${SECRET.slice(0, -1)}x`]], "invalid_api_key", /not known/],
  ["a key of 4 KB", [["authorization", `Bearer ${"z".repeat(4096)}`]], "invalid_api_key", /not known/],
  ["a key that is not ASCII", [["authorization", "Bearer zml_\xe9\xff"]], "invalid_api_key", /can't be read/],
  ["an x-api-key that is not ASCII", [["x-api-key", "zml_\xc3\xa9"]], "invalid_api_key", /can't be read/],
  ["a key with a space", [["authorization", `Bearer ${SECRET} ${SECRET}`]], "invalid_api_key", /can't be read/],
  ["two keys in one field", [["x-api-key", `${SECRET}, ${SECRET}`]], "invalid_api_key", /can't be read/],
  ["another scheme", [["authorization", `Basic ${SECRET}`]], "missing_api_key", /no API key/],
  ["a scheme that only begins like it", [["authorization", `Bearers ${SECRET}`]], "missing_api_key", /no API key/],
  ["no scheme", [["authorization", SECRET]], "missing_api_key", /no API key/],
  [
    "two good keys",
    [
      ["authorization", `Bearer ${SECRET}`],
      ["x-api-key", OTHER],
    ],
    "invalid_api_key",
    /several/,
  ],
  [
    "a doubled field",
    [
      ["authorization", `Bearer ${SECRET}`],
      ["authorization", `Bearer ${SECRET}`],
    ],
    "invalid_api_key",
    /several/,
  ],
  [
    "a doubled field, the first one empty",
    [
      ["authorization", ""],
      ["authorization", `Bearer ${SECRET}`],
    ],
    "invalid_api_key",
    /several/,
  ],
  [
    "a doubled x-api-key",
    [
      ["x-api-key", SECRET],
      ["x-api-key", SECRET],
    ],
    "invalid_api_key",
    /several/,
  ],
  [
    "a doubled field, written differently",
    [
      ["Authorization", `Bearer ${SECRET}`],
      ["AUTHORIZATION", "Bearer no"],
    ],
    "invalid_api_key",
    /several/,
  ],
  ["a key that expired", [["authorization", "Bearer zml_old"]], "expired_api_key", /"old" expired at 2020-01-01/],
  ["a name that objects inherit", [["authorization", "Bearer __proto__"]], "invalid_api_key", /not known/],
];

function headBytes(fields: Fields, path = "/v1/chat/completions", body = chatBody()): Buffer {
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${lines}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]);
}

describe("M04: a key that is none", () => {
  for (const [name, fields, code, says] of BAD) {
    test(`over HTTP/1.1, ${name} is a 401 ${code} that repeats no key`, async () => {
      const calls = node.calls.length;
      for (const path of ["/v1/chat/completions", "/v1/messages"]) {
        const answer = await ask(plane.port, headBytes(fields, path));
        const text = answer.body.toString();
        assert.equal(answer.status, 401, text);
        const { error } = JSON.parse(text) as { error: { code: string; type: string; message: string } };
        assert.deepEqual([error.code, error.type], [code, "authentication_error"]);
        assert.match(error.message, says);
        assert.doesNotMatch(text, /zml_|k{8}|z{8}/);
      }
      assert.equal(node.calls.length, calls, "no node hears of it");
      await plane.settled();
    });

    test(`over HTTP/2, ${name} is a 401 too`, async () => {
      const client = await FrameClient.open(plane.port);
      const lower = fields.map(([field, value]) => [field.toLowerCase(), value] as const);
      client.post(1, chatBody(), lower);
      await client.answered(1);
      const body = client.frames.filter(({ type, stream }) => type === FRAME.data && stream === 1);
      const text = Buffer.concat(body.map(({ payload }) => payload)).toString();
      assert.equal((JSON.parse(text) as { error: { code: string } }).error.code, code, text);
      client.close();
      await plane.settled();
    });
  }

  test("a key of 64 KB is refused as a key, over both versions, and the gateway serves on", async () => {
    const huge = "x".repeat(64 * 1024);
    assert.equal((await ask(plane.port, headBytes([["authorization", `Bearer ${huge}`]]))).status, 401);
    assert.equal((await ask(plane.port, headBytes([["x-api-key", huge]]))).status, 401);
    const session = connect(plane.url, { maxSendHeaderBlockLength: 2 ** 20 });
    const stream = session.request({ ":method": "POST", ":path": "/v1/chat/completions", "x-api-key": huge });
    stream.end(chatBody());
    const status = await new Promise((resolve) => stream.on("response", (head) => resolve(head[":status"])));
    assert.equal(status, 401);
    session.destroy();
    assert.equal((await ask(plane.port, post(chatBody(), { "x-api-key": SECRET }))).status, 200);
    await plane.settled();
  });

  test("the same key in both fields opens the door, and an authorization for somebody in between shuts none", async () => {
    for (const authorization of [`bearer ${SECRET}`, "Basic eA==", "Bearer"]) {
      const fields = { authorization, "x-api-key": SECRET };
      assert.equal((await ask(plane.port, post(chatBody(), fields))).status, 200);
    }
    await plane.settled();
  });
});

async function refused(key: string, headers: Record<string, string> = {}, body = chatBody()) {
  const answer = await ask(plane.port, post(body, { authorization: `Bearer ${key}`, ...headers }));
  const { error } = JSON.parse(answer.body.toString()) as { error: Record<string, string> };
  await plane.settled();
  return { status: answer.status, code: error["code"], param: error["param"], message: error["message"] ?? "" };
}

async function models(key: string, path = "/v1/models"): Promise<{ status: number; ids: string[] }> {
  const answer = await fetch(`${plane.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await answer.json()) as { data?: { id: string }[] };
  return { status: answer.status, ids: (data ?? []).map(({ id }) => id) };
}

describe("what a key may do", () => {
  test("a key without the scope infer gets 403, on every route that serves it", async () => {
    assert.deepEqual((await refused("zml_reader")).code, "key_scope");
    assert.equal((await models("zml_reader")).status, 403);
  });

  test("a model that the key may not use is a 403 that says what it may use, and is not listed", async () => {
    const { status, code, param, message } = await refused("zml_one-model");
    assert.deepEqual([status, code, param], [403, "model_not_allowed", "model"]);
    assert.match(message, /the key "one-model" may not use the model "llama3-8b": there are no models that it may use/);
    assert.deepEqual(await models("zml_one-model"), { status: 200, ids: [] });
    assert.equal((await models("zml_one-model", `/v1/models/${FIXTURE_MODEL}`)).status, 404);
    assert.deepEqual((await models(SECRET)).ids, [FIXTURE_MODEL]);
    assert.equal((await refused("zml_no-models")).code, "model_not_allowed");
  });

  test("whether a model exists that the key may not use is not told", async () => {
    const body = chatBody({ model: "no-such-model" });
    assert.equal((await refused("zml_one-model", {}, body)).code, "model_not_allowed");
    assert.equal((await refused("zml_one-model", {}, chatBody({ model: "third-model" }))).code, "model_not_found");
  });

  test("a policy that the key may not run under is a 403, also where the model brings it", async () => {
    const { status, code, param, message } = await refused("zml_one-policy");
    assert.deepEqual([status, code, param], [403, "policy_not_allowed", "policy"]);
    assert.match(message, /the key "one-policy" may not use the policy "p": it may use "zml-default"/);
    const allowed = { authorization: "Bearer zml_one-policy", "x-zml-policy": "zml-default" };
    assert.equal((await ask(plane.port, post(chatBody(), allowed))).status, 200);
    assert.match(
      (await refused("zml_one-policy", { "x-zml-policy": "nope" })).message,
      /the policies are "zml-default"/,
    );
  });

  test("a key that is taken out, or that ends, is refused from the next request on, on open connections too", async () => {
    const call = () => fetch(`${plane.url}/v1/models`, { headers: { "x-api-key": SECRET } });
    assert.equal((await call()).status, 200);
    plane.plane.setKeys(fixtureKeys(keysOf().filter(({ name }) => name !== "app")));
    assert.equal((await call()).status, 401);
    plane.plane.setKeys(fixtureKeys([{ name: "app", value: SECRET, expiresAtMs: Date.now() - 1 }]));
    assert.equal((await call()).status, 401);
    // the last key ended: that is not the same as a gateway without keys
    assert.equal((await fetch(`${plane.url}/v1/models`)).status, 401);
    plane.plane.setKeys(fixtureKeys(keysOf()));
    assert.equal((await call()).status, 200);
  });
});
