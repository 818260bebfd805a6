/** Limits over a whole gateway: several workers, reloads, restarts; and the page about them, run as it is written. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { assertPrinted, onlySnippet } from "../../../scripts/page-snippets.ts";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const ENV = { APP: "app-key", OTHER: "other-key" };

function ask(gateway: Gateway, key: string, body: object = {}): Promise<Response> {
  return fetch(`${gateway.dataUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "m", max_tokens: 8, messages: [{ role: "user", content: "hi" }], ...body }),
  });
}

/** How many of so many requests, some at a time and each on a connection of its own, were admitted. */
async function admitted(gateway: Gateway, key: string, total: number): Promise<number> {
  let started = 0;
  let good = 0;
  const caller = async () => {
    while (started < total) {
      started += 1;
      const answer = await fetch(`${gateway.dataUrl}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}`, connection: "close" },
        body: JSON.stringify({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "hi" }] }),
      });
      await answer.text();
      assert.ok(answer.status === 200 || answer.status === 429, String(answer.status));
      if (answer.status === 200) good += 1;
    }
  };
  await Promise.all(Array.from({ length: 12 }, caller));
  return good;
}

function fileOf(url: string, keyLimits: string, accountLimits = "{}", keys = ""): string {
  return `${PORTS}workers: 3
accounts: [{ name: default, limits: ${accountLimits} }]
keys:
  - { name: app, value_env: APP, limits: ${keyLimits} }
${keys}nodes: [{ id: a, url: "${url}", family: F, models: [m], max_in_flight: 1000, cost: { usd_per_gpu_hour: 3600 } }]
`;
}

test("three workers let exactly the limit through, over all connections, and a changed limit keeps the counts", async (t) => {
  const node = await fakeNode(t);
  const { gateway, write } = await startOn(t, fileOf(node.url, "{ requests_per_minute: 100 }"), { env: ENV });
  assert.equal(await admitted(gateway, ENV.APP, 240), 100);
  write(fileOf(node.url, "{ requests_per_minute: 130 }"));
  assert.equal((await gateway.reload()).kind, "applied");
  const more = await admitted(gateway, ENV.APP, 80);
  assert.ok(more >= 30 && more <= 31, `${more} of the 30 more`);
});

test("the account's limit is that of all its keys together", async (t) => {
  const node = await fakeNode(t);
  const other = "  - { name: other, value_env: OTHER }\n";
  const text = fileOf(node.url, "{}", "{ requests_per_minute: 40 }", other);
  const { gateway } = await startOn(t, text, { env: ENV });
  const [app, rest] = await Promise.all([admitted(gateway, ENV.APP, 60), admitted(gateway, ENV.OTHER, 60)]);
  assert.equal(app + rest, 40);
});

test("a key that is taken out is refused at once, and what runs under it ends in peace", async (t) => {
  const node = await fakeNode(t, { outputTokens: 400, speedUp: 10 });
  const other = "  - { name: other, value_env: OTHER, limits: { concurrent_requests: 1 } }\n";
  const { gateway, write } = await startOn(t, fileOf(node.url, "{}", "{}", other), { env: ENV });
  const stream = await ask(gateway, ENV.OTHER, { stream: true, max_tokens: 400 });
  assert.equal(stream.status, 200);
  assert.equal((await ask(gateway, ENV.OTHER)).status, 429);
  write(fileOf(node.url, "{}"));
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal((await ask(gateway, ENV.OTHER)).status, 401);
  assert.match(await stream.text(), /data: \[DONE\]\n\n$/);
  write(fileOf(node.url, "{}", "{}", other));
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal((await ask(gateway, ENV.OTHER)).status, 200, "its place was given back meanwhile");
});

test("a restart keeps what was spent", async (t) => {
  const node = await fakeNode(t);
  const storeFolder = folder(t);
  const text = fileOf(node.url, "{ budget_usd_per_month: 0.0001 }");
  const first = await startOn(t, text, { env: ENV, storeFolder });
  await until("the budget is used up", async () => (await ask(first.gateway, ENV.APP)).status === 429);
  await first.gateway.stop(1000);
  const second = await startOn(t, text, { env: ENV, storeFolder });
  const refused = await ask(second.gateway, ENV.APP);
  assert.equal(refused.status, 429);
  assert.match(await refused.text(), /insufficient_quota.*|begins anew/);
});

const PAGE = "docs/operations/accounts-and-keys.md";

test("docs: the page about accounts and keys shows what its commands get", async (t) => {
  const env = { SEARCH_KEY: "SEARCH_KEY", BATCH_KEY: "BATCH_KEY", ADS_KEY: "ADS_KEY" };
  const fakes = await Promise.all([fakeNode(t, { model: "llama3-8b" }), fakeNode(t, { model: "llama3-8b" })]);
  let next = 0;
  const file = onlySnippet(PAGE, "yaml", "keys:").code.replaceAll(
    /http:\/\/10\.[\d.]+:\d+/g,
    () => fakes[next++]?.url ?? "",
  );
  assert.equal(next, fakes.length);
  const { gateway } = await startOn(t, `${PORTS}workers: 2\n${file}`, { env });

  const list = onlySnippet(PAGE, "sh", "/v1/models");
  const [, path = "", authorization = ""] = /8080(\S+) -H 'authorization: (.+)'/.exec(list.code) ?? [];
  assertPrinted(list, await (await fetch(`${gateway.dataUrl}${path}`, { headers: { authorization } })).text());

  const calls = onlySnippet(PAGE, "sh", "for i in");
  const [, key = "", body = ""] = /Bearer (\w+)' .* -d '(.+)' -o/.exec(calls.code) ?? [];
  const times = /for i in ([\d ]+);/.exec(calls.code)?.[1]?.split(" ").length ?? 0;
  let last = "";
  for (let time = 0; time < times; time++) last = await (await ask(gateway, key, JSON.parse(body) as object)).text();
  assertPrinted(calls, last);

  // what the page says of the restricted key
  assert.equal((await ask(gateway, "BATCH_KEY", { model: "llama3-8b" })).status, 403);
  const allowed = await ask(gateway, "BATCH_KEY", { model: "llama3-8b", policy: "overnight" });
  assert.deepEqual([allowed.status, allowed.headers.get("x-ratelimit-limit-tokens")], [200, "200000"]);
  assert.equal((await ask(gateway, "ADS_KEY", { model: "llama3-8b", policy: "fast" })).status, 400);
});
