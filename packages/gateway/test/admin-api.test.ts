/** The admin API of a running gateway: what it does to the fleet, and what it tells of it. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { decodeDecisionId } from "../src/decision-id.ts";
import { chat, decisionOf, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

const KEYS = `keys:
  - { name: ops, value_env: OPS, scopes: [admin, infer] }
  - { name: tenant, value_env: TENANT, account: tenant, scopes: [admin, infer] }
accounts: [{ name: tenant }]
`;
const env = { OPS: "ops-secret", TENANT: "tenant-secret" };

interface Answer {
  readonly status: number;
  readonly etag: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: tests read what they expect
  readonly body: any;
}

/** A gateway with one node, and who asks it. */
async function start(t: TestContext, rest = "") {
  const fake = await fakeNode(t);
  const nodes = `nodes:\n  - { id: a, url: "${fake.url}", family: H100, shared_with: [tenant] }\n`;
  const started = await startOn(t, `${PORTS}${KEYS}${nodes}${rest}`, { env });
  const { gateway } = started;
  const ask = async (
    method: string,
    path: string,
    body?: unknown,
    key = "ops-secret",
    headers = {},
  ): Promise<Answer> => {
    const response = await fetch(`${gateway.adminUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, etag: response.headers.get("etag"), body: text === "" ? null : JSON.parse(text) };
  };
  const say = (init: { key?: string; policy?: string } = {}) =>
    chat(
      gateway,
      {},
      {
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${init.key ?? "ops-secret"}`,
          ...(init.policy === undefined ? {} : { "x-zml-policy": init.policy }),
        },
      },
    );
  return { ...started, ask, say };
}

test("a policy that is put routes the next request, and is gone for the one after it is deleted", async (t) => {
  const { ask, say } = await start(t);
  assert.equal((await say({ policy: "batch" })).status, 400, "there is none yet");
  const spec = { accelerator_preference: [{ family: "H100", priority: 1 }], cost_priority: "latency" };
  const made = await ask("PUT", "/admin/v1/policies/batch", { spec });
  assert.deepEqual([made.status, made.body.action, made.body.is_acknowledged], [201, "created", true]);
  const response = await say({ policy: "batch" });
  assert.equal(response.status, 200);
  await response.text();
  const listed = await ask("GET", "/admin/v1/policies?owner=api");
  assert.deepEqual(
    listed.body.items.map(({ name }: { name: string }) => name),
    ["batch"],
  );
  const wrong = await ask("PUT", "/admin/v1/policies/batch", { spec: { ...spec, cost_priority: "cheap" } });
  assert.deepEqual([wrong.status, wrong.body.errors[0].path], [422, "spec.cost_priority"]);
  const stale = await ask("DELETE", "/admin/v1/policies/batch", undefined, "ops-secret", { "if-match": '"0"' });
  assert.equal(stale.status, 412);
  const ifMatch = { "if-match": made.etag ?? "" };
  assert.equal((await ask("DELETE", "/admin/v1/policies/batch", undefined, "ops-secret", ifMatch)).status, 200);
  assert.equal((await say({ policy: "batch" })).status, 400);
});

test("what the file declares is read-only, and says so", async (t) => {
  const { ask } = await start(t);
  const node = await ask("GET", "/admin/v1/nodes/a");
  assert.equal(node.body.owner, "file");
  const put = await ask("PUT", "/admin/v1/nodes/a", { spec: { ...node.body.spec, family: "MI300X" } });
  assert.deepEqual([put.status, put.body.code], [409, "owned_by_file"]);
});

test("a node in an operator's cooldown gets no request until that is cleared", async (t) => {
  const { ask, say, gateway } = await start(t);
  await (await say()).text();
  const cooled = await ask("POST", "/admin/v1/nodes/a/cooldown", { seconds: 3600 });
  assert.equal(cooled.status, 200);
  assert.ok(cooled.body.cooldown_remaining_ms > 3_500_000);
  assert.equal((await say()).status, 503);
  assert.equal(gateway.stats().fleet.nodes[0]?.state, "cooling_down");
  const cleared = await ask("POST", "/admin/v1/nodes/a/clear-cooldown", {});
  assert.equal(cleared.body.cooldown_remaining_ms, null);
  assert.equal((await say()).status, 200);
  assert.equal((await ask("POST", "/admin/v1/nodes/none/cooldown", { seconds: 1 })).status, 404);
  assert.equal((await ask("POST", "/admin/v1/nodes/a/cooldown", { seconds: -1 })).status, 400);
});

test("decisions are listed newest first, page by page, by what they were, each account's own", async (t) => {
  const { ask, say, gateway } = await start(t, "evidence: { ring_records: 16 }\nworkers: 2\n");
  const ids: string[] = [];
  for (let index = 0; index < 20; index++) {
    const response = await say();
    ids.unshift(placeOf(decisionOf(response)));
    await response.text();
  }
  const [foreign] = [await say({ key: "tenant-secret" })];
  await foreign.text();
  await until("every outcome is recorded", () => gateway.explain(decisionOf(foreign))?.outcome.kind === "success");
  const seen: { decision: string; request: { account: string } }[] = [];
  let path = "/admin/v1/decisions?limit=3&account=default";
  for (;;) {
    const { body } = await ask("GET", path);
    seen.push(...body.items);
    if (body.next_cursor === null) break;
    path = `/admin/v1/decisions?limit=3&account=default&cursor=${body.next_cursor}`;
  }
  const places = seen.map(({ decision }) => placeOf(decision));
  assert.deepEqual(
    places,
    ids.filter((place) => places.includes(place)),
    "newest first",
  );
  assert.ok(places.length >= 15, "as many as the rings remember, less the tenant's");
  const [first] = seen;
  assert.equal((await ask("GET", `/admin/v1/decisions/${first?.decision}`)).body.decision, first?.decision);
  const count = async (query: string) => (await ask("GET", `/admin/v1/decisions?limit=500&${query}`)).body.items.length;
  assert.equal(await count("node=none"), 0);
  assert.ok((await count("node=a&policy=zml-default&model=m")) >= 16);
  assert.equal(await count("redispatched=true"), 0);
  assert.equal(await count("slower_than_ms=3600000"), 0);
  assert.equal(await count("reason=queue_saturated"), 0);
  const own = await ask("GET", "/admin/v1/decisions", undefined, "tenant-secret");
  assert.deepEqual(
    own.body.items.map((item: { request: { account: string } }) => item.request.account),
    ["tenant"],
  );
  assert.equal(own.body.items[0].choice.url, null, "where the node is, is the operator's");
  const other = await ask("GET", `/admin/v1/decisions/${first?.decision}`, undefined, "tenant-secret");
  assert.equal(other.status, 404);
});

/** What leads to a record: ids of the list have another random tail than those of the header. */
function placeOf(id: string): string {
  const place = decodeDecisionId(id);
  return `${place?.worker}/${place?.sequence}`;
}

test("status, reload and metrics tell what the gateway does", async (t) => {
  const { ask, write, path, gateway } = await start(t);
  const { body: status } = await ask("GET", "/admin/v1/status");
  assert.equal(status.is_ready, true);
  assert.equal(status.reloads.last, null);
  assert.equal(status.store.state, "none");
  assert.deepEqual(status.objects.find(({ kind }: { kind: string }) => kind === "node")?.owners, {
    file: 1,
    api: 0,
    discovery: 0,
  });
  assert.equal((await ask("POST", "/admin/v1/reload", {})).body.kind, "unchanged");
  write(`${PORTS}nodes: broken\n`);
  const refused = await ask("POST", "/admin/v1/reload", {});
  assert.deepEqual([refused.status, refused.body.code], [422, "configuration_refused"]);
  assert.match(refused.body.errors[0].message, new RegExp(`${path}:3:\\d+`));
  const { reloads } = (await ask("GET", "/admin/v1/status")).body;
  assert.deepEqual([reloads.refused, reloads.last.kind, reloads.last.problems.length], [1, "refused", 1]);
  const metrics = await fetch(`${gateway.adminUrl}/metrics`, { headers: { authorization: "Bearer ops-secret" } });
  assert.match(metrics.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  assert.match(await metrics.text(), /^zml_configuration_reloads_total\{result="refused"\} 1$/m);
});
