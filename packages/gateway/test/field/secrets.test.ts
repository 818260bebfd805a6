/** M: keys, and who may ask what, through a whole gateway. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import type { Gateway } from "../../src/control/gateway-interface.ts";
import { fakeNode, PORTS, startOn } from "../control-fixture.ts";
import { ask, chatBody, post } from "../raw-client.ts";
import { pause } from "./field-fixture.ts";

const dataPort = (gateway: Gateway): number => Number(new URL(gateway.dataUrl).port);

describe("secrets", () => {
  const CLIENT = "canary-client-key-1234567890";
  const ADMIN = "canary-admin-key-1234567890";
  const NODE = "canary-node-key-1234567890";
  const QUERY = "canary-query-key-1234567890";

  test("M02: keys of callers, nodes and URLs are in no answer, log or report, whatever a node repeats", async (t) => {
    const node = await fakeNode(t, { apiKey: NODE });
    const { gateway, log, write } = await startOn(
      t,
      `${PORTS}health: { poll_interval_ms: 100, timeout_ms: 90 }\nkeys:
  - { name: app, value_env: APP, scopes: [infer] }
  - { name: ops, value_env: OPS, scopes: [admin] }
nodes:
  - { id: a, url: "${node.url}", family: F, engine: vllm, models: [m], api_key_env: NODE }
  - { id: c, url: "http://127.0.0.1:1", family: F, engine: vllm, models: [x], api_key_env: NODE }
`,
      { env: { APP: CLIENT, OPS: ADMIN, NODE } },
    );
    const port = dataPort(gateway);
    const seen: string[] = [];
    const call = async (headers: Record<string, string>, path?: string): Promise<number> => {
      const answer = await ask(port, post(chatBody({ model: "m" }), headers, path));
      seen.push(JSON.stringify(answer.headers), answer.body.toString());
      return answer.status;
    };
    const good = { authorization: `Bearer ${CLIENT}` };
    assert.equal(await call(good), 200);
    assert.equal(await call({ authorization: `Bearer ${CLIENT}x` }), 401);
    assert.equal(await call({ "x-api-key": `${CLIENT}y` }), 401);
    assert.equal(await call({ authorization: `Bearer ${ADMIN}` }), 403);
    assert.equal(await call({}, `/v1/nothing?key=${CLIENT}`), 404);
    const echo = JSON.stringify({ error: { message: `Incorrect API key provided: ${NODE} (${NODE.slice(0, 8)}***)` } });
    for (const status of [401, 403, 400, 422, 500, 503]) {
      node.faults.status(status, echo, { "content-type": "application/json" });
      const answered = await call(good);
      assert.ok(answered >= 400, String(answered));
      if (status === 401 || status === 403)
        assert.ok(answered >= 500, "a node's word on our key is none on the caller's");
      await pause(20);
    }
    for (const url of [`http://h/?key=${QUERY}`, `http://user:${QUERY}@h`, `ftp://${QUERY}`]) {
      write(`${PORTS}nodes: [{ id: a, url: "${url}", family: F, api_key_env: ${QUERY} }]\n`);
      await gateway.reload();
    }
    const headers = { authorization: `Bearer ${ADMIN}` };
    for (const path of ["fleet", "prices", "discovery", "decisions/x"]) {
      seen.push(await (await fetch(`${gateway.adminUrl}/admin/v1/${path}`, { headers })).text());
    }
    seen.push(...log.lines.map((line) => JSON.stringify(line)));
    for (const text of seen) assert.doesNotMatch(text, /canary-(client|admin|node|query)-key/);
    const digest = createHash("sha256").update(CLIENT).digest("hex");
    for (const text of seen) assert.ok(!text.includes(digest), "nor a hash of one");
  });

  test("M04: every route of both ports but the probes refuses a caller without a key, and a caller's key opens no admin route", async (t) => {
    const node = await fakeNode(t);
    const { gateway } = await startOn(
      t,
      `${PORTS}keys:
  - { name: app, value_env: APP, scopes: [infer] }
  - { name: ops, value_env: OPS, scopes: [admin] }
nodes: [{ id: a, url: "${node.url}", family: F, models: [m] }]
`,
      { env: { APP: CLIENT, OPS: ADMIN } },
    );
    const routes = [
      "GET /admin/v1/fleet",
      "GET /admin/v1/prices",
      "GET /admin/v1/discovery",
      "GET /admin/v1/decisions/x",
      "DELETE /admin/v1/fleet",
      "GET /admin/v1/nothing",
      "GET /admin/v1/live",
      "GET /metrics",
      "GET /assets/other.js",
    ];
    // a reverse proxy on this machine is no reason to trust whom it forwards
    const ways: Record<string, string>[] = [
      {},
      { "x-forwarded-for": "127.0.0.1" },
      { authorization: `Bearer ${CLIENT}` },
    ];
    for (const route of routes) {
      for (const headers of ways) {
        const [method, path] = route.split(" ");
        const response = await fetch(`${gateway.adminUrl}${path}`, { method: method ?? "GET", headers });
        const expected = headers["authorization"] === undefined ? 401 : 403;
        assert.equal(response.status, expected, route);
      }
    }
    // the pages themselves hold no data, and are how a browser comes to ask for a key
    assert.doesNotMatch(
      await (await fetch(`${gateway.adminUrl}/`)).text(),
      new RegExp(`${node.url}|${ADMIN}|${CLIENT}`),
    );
    for (const path of ["chat/completions", "completions", "responses", "messages", "embeddings", "rerank"]) {
      const answer = await ask(dataPort(gateway), post(chatBody({ model: "m" }), {}, `/v1/${path}`));
      assert.equal(answer.status, 401, path);
    }
    for (const path of ["/v1/models", "/v1/models/m"]) {
      assert.equal((await fetch(`${gateway.dataUrl}${path}`)).status, 401, path);
    }
    for (const base of [gateway.dataUrl, gateway.adminUrl]) {
      for (const probe of ["/healthz", "/readyz"]) assert.equal((await fetch(`${base}${probe}`)).status, 200);
    }
  });
});
