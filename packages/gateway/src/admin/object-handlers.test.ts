import assert from "node:assert/strict";
import { test } from "node:test";
import { json, problemOf, startAdmin } from "./testing/admin-fixture.ts";

const POLICY = "/admin/v1/policies/batch";
const put = (value: unknown) => ({ method: "PUT", ...json(value) });

test("two writers on one object: the second is told that it has changed, and nothing of its own is kept", async (t) => {
  const { ask, objects } = await startAdmin(t);
  const made = await ask(POLICY, put({ spec: { cost_priority: "cost" } }));
  assert.equal(made.status, 201);
  assert.equal(made.headers.get("location"), `${POLICY}?account=default`);
  const etag = made.headers.get("etag") ?? "";
  assert.match(etag, /^"[^"]+"$/);
  const ifMatch = (tag: string, value: unknown) => {
    const { headers, ...rest } = put(value);
    return { ...rest, headers: { ...headers, "if-match": tag } };
  };
  const first = await ask(POLICY, ifMatch(etag, { spec: { cost_priority: "latency" } }));
  assert.equal(first.status, 200);
  const second = await problemOf(await ask(POLICY, ifMatch(etag, { spec: { cost_priority: "balanced" } })));
  assert.equal(second.code, "precondition_failed");
  assert.deepEqual(objects.get("policy", "default", "batch")?.spec, { cost_priority: "latency" });
  const now = first.headers.get("etag") ?? "";
  assert.equal((await ask(POLICY, ifMatch(`"other", ${now}`, { spec: {} }))).status, 200, "one of several");
  assert.equal((await problemOf(await ask(POLICY, ifMatch(`W/${now}`, { spec: {} })))).code, "precondition_failed");
  for (const tag of ["unquoted", '"open', '"a" "b"', ","]) {
    assert.equal((await problemOf(await ask(POLICY, ifMatch(tag, { spec: {} })))).code, "invalid_header", tag);
  }
});

test("PUT is idempotent: the same body again changes nothing, and its revision stays", async (t) => {
  const { ask } = await startAdmin(t);
  const [one, two] = [await ask(POLICY, put({ spec: { a: 1 } })), await ask(POLICY, put({ spec: { a: 1 } }))];
  assert.deepEqual([one.status, two.status], [201, 200]);
  assert.equal(two.headers.get("etag"), one.headers.get("etag"));
  assert.equal(((await two.json()) as { action: string }).action, "unchanged");
});

test("what GET answers can be put back whole, but not under another name or account", async (t) => {
  const { ask, objects } = await startAdmin(t);
  objects.add("policy", "default", "batch", { cost_priority: "cost" });
  const got = (await (await ask(POLICY)).json()) as Record<string, unknown>;
  assert.deepEqual(Object.keys(got).sort(), [
    "account",
    "created_at",
    "kind",
    "name",
    "owner",
    "revision",
    "spec",
    "updated_at",
  ]);
  assert.equal((await ask(POLICY, put(got))).status, 200);
  const other = await problemOf(await ask("/admin/v1/policies/other", put(got)));
  assert.deepEqual([other.code, other.errors?.[0]?.path], ["invalid_body", "name"]);
  assert.equal((await problemOf(await ask("/admin/v1/models/batch", put(got)))).code, "invalid_body", "another kind");
});

test("if-none-match: * makes an object only where there is none; a reader is told that nothing changed", async (t) => {
  const { ask } = await startAdmin(t);
  const { headers, ...rest } = put({ spec: {} });
  const make = { ...rest, headers: { ...headers, "if-none-match": "*" } };
  assert.equal((await ask(POLICY, make)).status, 201);
  assert.equal((await problemOf(await ask(POLICY, make))).code, "precondition_failed");
  const etag = (await ask(POLICY)).headers.get("etag") ?? "";
  for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
    const again = await ask(POLICY, { headers: { "if-none-match": tag } });
    assert.deepEqual([again.status, await again.text(), again.headers.get("etag")], [304, "", etag], tag);
  }
  assert.equal((await ask(POLICY, { headers: { "if-none-match": '"other"' } })).status, 200);
});

test("DELETE is gone once, and a 404 after that", async (t) => {
  const { ask, objects } = await startAdmin(t);
  objects.add("policy", "default", "batch");
  const gone = await ask(POLICY, { method: "DELETE" });
  assert.equal(gone.status, 200);
  assert.equal(((await gone.json()) as { object: { name: string } }).object.name, "batch");
  assert.equal((await problemOf(await ask(POLICY, { method: "DELETE" }))).code, "not_found");
  assert.equal((await problemOf(await ask(POLICY))).code, "not_found");
});

test("every refusal of the registry is a problem with its status and the field's path", async (t) => {
  const { ask, objects } = await startAdmin(t);
  const codes = {
    invalid: 422,
    not_found: 404,
    precondition_failed: 412,
    owned_by_file: 409,
    owned_by_discovery: 409,
    in_use: 409,
    store_unavailable: 503,
    needs_restart: 409,
  } as const;
  for (const [code, status] of Object.entries(codes) as [keyof typeof codes, number][]) {
    const problems = [{ path: ["accelerator_preference", 0, "family"], message: "there is no H200", hint: null }];
    objects.refusal = { kind: "refused", code, problems };
    const response = await ask(POLICY, put({ spec: {} }));
    const problem = await problemOf(response);
    assert.equal(problem.status, status, code);
    assert.deepEqual(problem.errors, [
      { path: "spec.accelerator_preference[0].family", message: "there is no H200", hint: "" },
    ]);
    assert.equal(response.headers.has("retry-after"), code === "store_unavailable");
  }
});

test("a write that not all workers have is a 202", async (t) => {
  const { ask, objects } = await startAdmin(t);
  objects.isAcknowledged = false;
  const written = await ask(POLICY, put({ spec: {} }));
  assert.equal(written.status, 202);
  assert.equal(((await written.json()) as { is_acknowledged: boolean }).is_acknowledged, false);
  assert.equal((await ask(POLICY, { method: "DELETE" })).status, 202);
});

test("a list is searched by name, account and display name, in any case", async (t) => {
  const { ask, objects } = await startAdmin(t);
  for (let index = 0; index < 300; index++) objects.add("account", "", `team-${index}`, {});
  objects.add("account", "", "x1", { display_name: "Équipe 🙂 <b>Rouge</b>" });
  objects.add("policy", "team-7", "batch", {});
  const found = async (path: string): Promise<string[]> => {
    const { items } = (await (await ask(`/admin/v1/${path}`)).json()) as { items: { name: string }[] };
    return items.map(({ name }) => name);
  };
  assert.deepEqual(await found("accounts?contains=TEAM-29&limit=3"), ["team-29", "team-290", "team-291"]);
  assert.deepEqual(await found(`accounts?contains=${encodeURIComponent("équipe 🙂 <b>")}`), ["x1"]);
  assert.deepEqual(await found("policies?contains=team-7"), ["batch"]);
  assert.deepEqual(await found("policies?contains=team-8"), []);
  assert.equal((await problemOf(await ask("/admin/v1/accounts?contains="))).code, "invalid_query");
});

test("pages cover every object once, also while objects come and go, and a cursor says nothing to others", async (t) => {
  const { ask, objects } = await startAdmin(t);
  for (let index = 0; index < 25; index++) {
    objects.add("model", index % 2 === 0 ? "default" : "tenant", `m${String(index).padStart(2, "0")}`);
  }
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const page = (await (await ask(`/admin/v1/models?limit=4${query}`)).json()) as {
      items: { name: string }[];
      next_cursor: string | null;
    };
    assert.ok(page.items.length <= 4);
    seen.push(...page.items.map(({ name }) => name));
    // before the place: it shows up on no later page
    if (cursor === null) objects.add("model", "default", "a-new-one");
    cursor = page.next_cursor;
  } while (cursor !== null);
  assert.equal(seen.length, 25);
  assert.equal(new Set(seen).size, 25);
  for (const wrong of ["e30", "W10", "____", "WyJhIl0"]) {
    assert.equal((await problemOf(await ask(`/admin/v1/models?cursor=${wrong}`))).code, "invalid_query", wrong);
  }
  for (const wrong of ["limit=0", "limit=1001", "limit=-1", "limit=1e2", "limit=", "limit=1&limit=2", "owner=me"]) {
    assert.equal((await problemOf(await ask(`/admin/v1/models?${wrong}`))).code, "invalid_query", wrong);
  }
  const ofTenant = (await (await ask("/admin/v1/models?account=tenant")).json()) as { items: { account: string }[] };
  assert.deepEqual([...new Set(ofTenant.items.map(({ account }) => account))], ["tenant"]);
});

test("a tenant sees its own objects and the nodes that are shared with it, without where they are", async (t) => {
  const { ask, objects } = await startAdmin(t);
  const spec = { url: "http://10.0.0.1:8000", family: "H100", api_key_env: "NODE_KEY", tls: { ca_file: "/etc/ca" } };
  objects.add("node", "default", "private", spec);
  objects.add("node", "default", "shared", { ...spec, shared_with: ["tenant"] });
  objects.add("node", "default", "for-all", { ...spec, shared_with: ["*"] });
  objects.add("node", "tenant", "own", spec);
  objects.add("account", "", "tenant", { default_policy: null });
  objects.add("account", "", "other", { default_policy: null });
  const names = async (path: string, key: string) => {
    const { items } = (await (await ask(path, { key })).json()) as { items: { name: string; spec: object }[] };
    return items.map(({ name }) => name);
  };
  assert.deepEqual(await names("/admin/v1/nodes", "tenant-key"), ["for-all", "shared", "own"]);
  assert.deepEqual(await names("/admin/v1/nodes", "ops-key"), ["for-all", "private", "shared", "own"]);
  assert.deepEqual(await names("/admin/v1/accounts", "tenant-key"), ["tenant"]);
  for (const name of ["shared", "own", "for-all"]) {
    const text = await (await ask(`/admin/v1/nodes/${name}`, { key: "tenant-key" })).text();
    assert.match(text, /"family":"H100"/);
    assert.doesNotMatch(text, /10\.0\.0\.1|NODE_KEY|ca_file/);
  }
  assert.equal((await problemOf(await ask("/admin/v1/nodes/private", { key: "tenant-key" }))).code, "not_found");
  assert.equal((await problemOf(await ask("/admin/v1/accounts/other", { key: "tenant-key" }))).code, "not_found");
});

test("a tenant's writes go to its own account, whatever they leave out", async (t) => {
  const { ask, objects } = await startAdmin(t);
  assert.equal((await ask(POLICY, { key: "tenant-key", ...put({ spec: {} }) })).status, 201);
  assert.notEqual(objects.get("policy", "tenant", "batch"), null);
  const minted = await ask("/admin/v1/keys", { key: "tenant-key", method: "POST", ...json({ name: "app" }) });
  assert.equal(minted.status, 201);
  assert.equal(objects.list("key", "tenant").length, 1);
  const foreign = await ask("/admin/v1/keys", {
    key: "tenant-key",
    method: "POST",
    ...json({ name: "app", account: "default" }),
  });
  assert.equal((await problemOf(foreign)).code, "other_account");
});

test("a key's value is shown when it is made and when it is rotated, and at no other time", async (t) => {
  const { ask } = await startAdmin(t);
  const made = await ask("/admin/v1/keys", { method: "POST", ...json({ name: "app", spec: { scopes: ["infer"] } }) });
  assert.equal(made.status, 201);
  assert.equal(((await made.json()) as { secret: string }).secret, "zml_made");
  assert.doesNotMatch(await (await ask("/admin/v1/keys/app")).text(), /zml_/);
  const rotated = await ask("/admin/v1/keys/app/rotate", { method: "POST", ...json({ overlap_seconds: 60 }) });
  assert.equal(((await rotated.json()) as { secret: string }).secret, "zml_rotated");
  assert.doesNotMatch(await (await ask("/admin/v1/keys")).text(), /zml_/);
});

test("names with a slash, and models with any text, are found by their percent-encoded path", async (t) => {
  const { ask, objects } = await startAdmin(t);
  for (const [collection, kind, name] of [
    ["nodes", "node", "kubernetes/ns/pod-1:8000"],
    ["models", "model", "meta-llama/Llama 3 ☃ 70%"],
    ["models", "model", "x".repeat(256)],
  ] as const) {
    objects.add(kind, "default", name);
    const response = await ask(`/admin/v1/${collection}/${encodeURIComponent(name)}`);
    assert.equal(((await response.json()) as { name: string }).name, name);
  }
  assert.equal((await problemOf(await ask(`/admin/v1/models/${"x".repeat(257)}`))).code, "invalid_path");
  assert.equal((await problemOf(await ask("/admin/v1/policies/%20"))).code, "invalid_path");
});
