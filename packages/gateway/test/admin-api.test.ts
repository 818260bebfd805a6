/** The admin API of a running gateway: what it does to the fleet, and what it tells of it. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { readConfig } from "../src/config/read-config.ts";
import { chat, decisionOf, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

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
    ids.unshift(decisionOf(response));
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
  const listed = seen.map(({ decision }) => decision);
  const told = ids.filter((id) => listed.includes(id));
  assert.deepEqual(listed.toSorted(), told.toSorted(), "by the ids that callers were told");
  // the clocks of two threads may be some ms apart: the order is that of each worker
  for (const worker of ["7000", "7001"]) {
    const own = (id: string) => id.split("-")[2] === worker;
    assert.deepEqual(listed.filter(own), told.filter(own), "newest first");
  }
  assert.ok(listed.length >= 15, "as many as the rings remember, less the tenant's");
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

test("a part of a file is tried, applied as one version, and in the audit with who did it", async (t) => {
  const { ask, gateway } = await start(t);
  const file = {
    policies: [{ name: "batch", cost_priority: "cost" }],
    models: [{ name: "m", policy: "batch" }],
  };
  const tried = await ask("POST", "/admin/v1/apply?dry_run=true", file);
  assert.deepEqual([tried.status, tried.body.version, tried.body.changes.length], [200, null, 2]);
  assert.equal((await ask("GET", "/admin/v1/policies/batch")).status, 404, "nothing was done");
  const stale = await ask("POST", "/admin/v1/apply", file, "ops-secret", { "if-match": '"another-plan"' });
  assert.deepEqual([stale.status, stale.body.code], [412, "precondition_failed"]);
  const applied = await ask("POST", "/admin/v1/apply", file, "ops-secret", { "if-match": tried.etag ?? "" });
  assert.deepEqual([applied.status, applied.body.is_acknowledged], [200, true]);
  assert.deepEqual(applied.body.changes, tried.body.changes);
  const wrong = await ask("POST", "/admin/v1/apply", { policies: [{ name: "p" }, { name: "q", cost_priority: "x" }] });
  assert.deepEqual([wrong.status, wrong.body.errors[0].path], [422, "policies[1].cost_priority"]);
  assert.equal((await ask("GET", "/admin/v1/policies/p")).status, 404, "all of it or nothing");
  const yaml = await fetch(`${gateway.adminUrl}/admin/v1/apply`, {
    method: "POST",
    headers: { authorization: "Bearer ops-secret", "content-type": "application/yaml" },
    body: "policies:\n  - { name: yaml, cost_priority: cost }\n",
  });
  assert.equal(yaml.status, 200, await yaml.text());
  const audit = await ask("GET", "/admin/v1/audit?kind=policy&limit=1");
  assert.deepEqual([audit.body.items[0].name, audit.body.items[0].actor.name], ["yaml", "ops"]);
  const older = await ask("GET", `/admin/v1/audit?kind=policy&limit=5&cursor=${audit.body.next_cursor}`);
  assert.deepEqual(
    older.body.items.map(({ name, action }: Record<string, string>) => [name, action]),
    [["batch", "created"]],
  );
  const foreign = await ask("GET", "/admin/v1/audit", undefined, "tenant-secret");
  assert.deepEqual(foreign.body.items, []);
});

test("an account's audit tells of its nodes what it may see of them, and not where they are", async (t) => {
  const { ask } = await start(t);
  const spec = { url: "http://10.9.8.7:8000", family: "H100", gpus: 2 };
  assert.equal((await ask("PUT", "/admin/v1/nodes/theirs?account=tenant", { spec })).status, 201);
  await ask("PUT", "/admin/v1/nodes/theirs?account=tenant", { spec: { ...spec, url: "http://10.9.8.6:8000" } });
  await ask("POST", "/admin/v1/nodes/theirs/drain?account=tenant", {});
  const told = await ask("GET", "/admin/v1/audit?kind=node", undefined, "tenant-secret");
  assert.deepEqual(
    told.body.items.map(({ before, after }: Record<string, unknown>) => [before, after]),
    [
      [{ draining: false }, { draining: true }],
      [
        { family: "H100", gpus: 2 },
        { family: "H100", gpus: 2 },
      ],
      [null, { family: "H100", gpus: 2 }],
    ],
  );
  const all = await ask("GET", "/admin/v1/audit?kind=node&limit=1");
  assert.equal(all.body.items.length, 1);
  assert.match(JSON.stringify((await ask("GET", "/admin/v1/audit?kind=node")).body), /10\.9\.8\.6/, "operators see it");
});

test("a whole file is tried with the line of everything that is wrong, or with what it would change", async (t) => {
  const { gateway } = await start(t);
  const dryRun = async (text: string) => {
    const response = await fetch(`${gateway.adminUrl}/admin/v1/configuration/dry-run`, {
      method: "POST",
      headers: { authorization: "Bearer ops-secret", "content-type": "application/yaml" },
      body: text,
    });
    assert.equal(response.status, 200);
    // biome-ignore lint/suspicious/noExplicitAny: the test reads what it expects
    return (await response.json()) as any;
  };
  const broken = await dryRun(`${PORTS}nodes:\n  - { id: a, family: H100 }\npolcies: []\n`);
  assert.deepEqual(
    broken.errors.map(({ line, path }: { line: number; path: string }) => [line, path]),
    [
      [4, "nodes[0].url"],
      [5, "polcies"],
    ],
  );
  const good = await dryRun(`${PORTS}${KEYS}timeouts: { idle_ms: 5000 }\n`);
  assert.deepEqual(good.errors, []);
  assert.ok(good.sections.includes("timeouts"));
  assert.deepEqual(
    good.changes.map(({ kind, name, action }: Record<string, string>) => [kind, name, action]),
    [["node", "a", "deleted"]],
  );
  assert.equal(gateway.stats().fleet.nodes.length, 1, "nothing was done");
});

test("a key that the API makes opens the data port, its old value for the overlap, and neither is shown again", async (t) => {
  const { ask, say } = await start(t);
  const made = await ask("POST", "/admin/v1/keys", { name: "app", spec: { scopes: ["infer"] } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { secret } = made.body;
  assert.match(secret, /^zml_/);
  assert.equal((await say({ key: secret })).status, 200);
  const rotated = await ask("POST", "/admin/v1/keys/app/rotate", { overlap_seconds: 600 });
  assert.notEqual(rotated.body.secret, secret);
  for (const key of [secret, rotated.body.secret]) assert.equal((await say({ key })).status, 200);
  const shown = JSON.stringify([
    (await ask("GET", "/admin/v1/keys")).body,
    (await ask("GET", "/admin/v1/audit")).body,
    (await ask("GET", "/admin/v1/keys/app")).body,
  ]);
  assert.ok(!shown.includes(secret) && !shown.includes(rotated.body.secret));
  assert.equal((await ask("GET", "/admin/v1/fleet", undefined, secret)).status, 403, "not the admin port");
  assert.equal((await ask("DELETE", "/admin/v1/keys/app")).status, 200);
  assert.equal((await say({ key: rotated.body.secret })).status, 401);
});

test("a drained node gets no request, also after a reload, until it is undrained", async (t) => {
  const { ask, say, write, path } = await start(t);
  const drained = await ask("POST", "/admin/v1/nodes/a/drain", {});
  assert.deepEqual([drained.status, drained.body.is_draining], [200, true]);
  assert.equal((await say()).status, 503);
  write(`${readFileSync(path, "utf8")}timeouts: { idle_ms: 5000 }\n`);
  assert.equal((await ask("POST", "/admin/v1/reload", {})).body.kind, "applied");
  assert.equal((await say()).status, 503);
  assert.equal((await ask("POST", "/admin/v1/nodes/a/undrain", {})).body.is_draining, false);
  assert.equal((await say()).status, 200);
  const { items } = (await ask("GET", "/admin/v1/audit?name=a")).body;
  assert.deepEqual(
    items.map(({ action }: { action: string }) => action),
    ["undrained", "drained"],
  );
});

test("the configuration is exported as a file that reads, and the store is copied to a path that was free", async (t) => {
  const fake = await fakeNode(t);
  const place = folder(t);
  const text = `${PORTS}nodes:\n  - { id: a, url: "${fake.url}", family: H100 }\n`;
  const { gateway } = await startOn(t, text, { storeFolder: join(place, "store") });
  const post = (path: string, body: unknown) =>
    fetch(`${gateway.adminUrl}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  await post("/admin/v1/apply", { policies: [{ name: "batch", cost_priority: "cost" }] });
  const exported = await fetch(`${gateway.adminUrl}/admin/v1/configuration`);
  assert.equal(exported.headers.get("content-type"), "application/yaml");
  const { config, errors } = readConfig(await exported.text(), { fileName: "zml.yaml", env: {} });
  assert.deepEqual([errors, config?.policies[0]?.name, config?.nodes[0]?.id], [[], "batch", "a"]);
  const asJson = await fetch(`${gateway.adminUrl}/admin/v1/configuration`, { headers: { accept: "application/json" } });
  assert.equal(((await asJson.json()) as { policies: { name: string }[] }).policies[0]?.name, "batch");
  const path = join(place, "copy.sqlite");
  const copied = await post("/admin/v1/store/backup", { path });
  assert.equal(copied.status, 201, await copied.text());
  assert.ok(existsSync(path));
  assert.equal((await post("/admin/v1/store/backup", { path })).status, 422, "nothing is overwritten");
  assert.equal((await post("/admin/v1/store/backup", { path: "copy.sqlite" })).status, 400);
});

test("ten thousand nodes with many keys each fit into one request", async (t) => {
  const { ask, gateway } = await start(t);
  const nodes = Array.from({ length: 10_000 }, (_, index) => ({
    id: `cluster-${index % 16}/namespace-of-a-team/pod-${index}`,
    url: `http://10.${index >> 14}.${(index >> 7) & 127}.${(index & 127) + 1}:8000/a/path/prefix`,
    family: "MI300X",
    display_name: `node ${index} of a rack with a long name, row ${index % 40}`,
    engine: "vllm",
    gpus: 8,
    cost: { usd_per_gpu_hour: 1.99 },
    models: ["llama3-70b", { name: "big", upstream_model: "org/big", context_tokens: 131_072 }, "a-third-model"],
    max_in_flight: 320,
    max_connections: 512,
    http_version: "1.1",
    timeouts: { connect_ms: 2000, first_byte_ms: 600_000, first_token_ms: 600_000, idle_ms: 120_000 },
    health: { poll_interval_ms: 3_600_000, timeout_ms: 4000, unhealthy_after: 2, healthy_after: 1 },
    failover: { cooldown_ms: 30_000 },
  }));
  const size = JSON.stringify({ nodes }).length;
  assert.ok(size > 5 * 2 ** 20 && size < 16 * 2 ** 20, `${size} bytes`);
  const tried = await ask("POST", "/admin/v1/apply?dry_run=true", { nodes });
  assert.equal(tried.status, 200, JSON.stringify(tried.body).slice(0, 500));
  assert.equal(tried.body.changes.length, 10_000);
  assert.equal(gateway.stats().fleet.nodes.length, 1);
});

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
