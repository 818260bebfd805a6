/** An account sees and spends only what is its own, and what the operator shares with it. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { FakeNode } from "@zml/simulator";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { decisionOf, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const ENV = { RED: "red-key", BLUE: "blue-key" };

function fileOf({ own, common }: { own: FakeNode; common: FakeNode }): string {
  return `${PORTS}workers: 2
accounts: [{ name: red, default_policy: red-only }, { name: blue }]
keys:
  - { name: r, value_env: RED, account: red }
  - { name: b, value_env: BLUE, account: blue }
nodes:
  - { id: own, url: "${own.url}", family: RedFamily, account: red, models: [red-model, m] }
  - { id: common, url: "${common.url}", family: Common, account: default, shared_with: [red, blue], models: [{ name: m, upstream_model: m }, { name: alias, upstream_model: m }] }
policies:
  - { name: red-only, account: red, accelerator_preference: [{ family: RedFamily, priority: 1 }] }
  - { name: secret-policy, account: red }
models:
  - { name: registered, account: red }
`;
}

async function ask(gateway: Gateway, key: string, body: object): Promise<Response> {
  return fetch(`${gateway.dataUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ max_tokens: 8, messages: [{ role: "user", content: "hi" }], ...body }),
  });
}

describe("two accounts and a node that both may use", () => {
  let tenants: { gateway: Gateway };
  const endings: (() => unknown)[] = [];
  const owner = { after: (end: () => unknown) => void endings.unshift(end) };
  before(async () => {
    const own = await fakeNode(owner, { model: "m" });
    const common = await fakeNode(owner, { model: "m", outputTokens: 4000 });
    const { gateway } = await startOn(owner, fileOf({ own, common }), { env: ENV });
    tenants = { gateway };
  });
  after(async () => {
    for (const end of endings) await end();
  });

  test("the list of models is the account's own and what is shared with it", async () => {
    const list = async (key: string) => {
      const answer = await fetch(`${tenants.gateway.dataUrl}/v1/models`, { headers: { "x-api-key": key } });
      return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
    };
    assert.deepEqual(await list(ENV.RED), ["alias", "m", "red-model", "registered"]);
    assert.deepEqual(await list(ENV.BLUE), ["alias", "m"]);
    const other = await fetch(`${tenants.gateway.dataUrl}/v1/models/red-model`, { headers: { "x-api-key": ENV.BLUE } });
    assert.equal(other.status, 404);
  });

  test("errors name what the caller's account has, and nothing of another one", async () => {
    const text = async (body: object) => {
      const answer = await ask(tenants.gateway, ENV.BLUE, body);
      return `${answer.status} ${await answer.text()}`;
    };
    const unknownModel = await text({ model: "red-model" });
    assert.match(unknownModel, /^404 .*the models are \\"alias\\", \\"m\\"/);
    const unknownPolicy = await text({ model: "m", policy: "secret-policy" });
    assert.match(unknownPolicy, /^400 .*the policies are \\"zml-default\\"/);
    const unknownFamily = await text({ model: "m", accelerator: "RedFamily" });
    assert.match(unknownFamily, /^400 .*family_not_found/);
    assert.match(unknownFamily, /the families are \\"Common\\"/);
    for (const seen of [unknownModel, unknownPolicy]) assert.doesNotMatch(seen, /RedFamily|own|registered/);
  });

  test("requests go to the nodes of the account, and the record of each says whose it was", async () => {
    const { gateway } = tenants;
    const red = await ask(gateway, ENV.RED, { model: "m" });
    const blue = await ask(gateway, ENV.BLUE, { model: "alias" });
    assert.deepEqual([red.status, blue.status], [200, 200]);
    assert.match(red.headers.get("x-zml-routing") ?? "", /node="own", policy="red-only"/);
    // an upstream name holds for every account that the node serves
    assert.match(blue.headers.get("x-zml-routing") ?? "", /node="common", policy="zml-default"/);
    assert.deepEqual(
      [red, blue].map((answer) => gateway.explain(decisionOf(answer))?.request.account),
      ["red", "blue"],
    );
    await Promise.all([red.text(), blue.text()]);
  });

  test("what one account puts on a shared node counts for the other's decisions", async () => {
    const { gateway } = tenants;
    const streams = await Promise.all(
      Array.from({ length: 4 }, () => ask(gateway, ENV.BLUE, { model: "m", stream: true, max_tokens: 4000 })),
    );
    const red = await ask(gateway, ENV.RED, { model: "alias", policy: "secret-policy" });
    const depth = Number(/queue_depth=(\d+)/.exec(red.headers.get("x-zml-routing") ?? "")?.[1]);
    assert.ok(depth >= 1, `depth ${depth}`);
    await Promise.all([red, ...streams].map((answer) => answer.text()));
  });
});

test("a node that is no longer shared takes no more requests of the other account", async (t) => {
  const own = await fakeNode(t);
  const common = await fakeNode(t);
  const { gateway, write } = await startOn(t, fileOf({ own, common }), { env: ENV });
  assert.equal((await ask(gateway, ENV.BLUE, { model: "m" })).status, 200);
  write(fileOf({ own, common }).replace("shared_with: [red, blue]", "shared_with: [red]"));
  assert.equal((await gateway.reload()).kind, "applied");
  await until("blue is refused", async () => (await ask(gateway, ENV.BLUE, { model: "m" })).status === 404);
  assert.equal((await ask(gateway, ENV.RED, { model: "alias", policy: "secret-policy" })).status, 200);
});
