/** Walks every route of the list with every kind of caller: what a route declares is what holds. A new route is walked by itself. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AccessRule, ADMIN_ROUTES, isAccessRule, type RouteContract, YamlBody } from "@zml/protocol/admin";
import { type AdminFixture, problemOf, startAdmin } from "./testing/admin-fixture.ts";

/** What each caller gets from a route of each rule: `ok`, or the code of the refusal. */
const EXPECTED: Readonly<Record<string, Readonly<Record<AccessRule, string>>>> = {
  "no key": row("missing_api_key"),
  "unknown-key": row("invalid_api_key"),
  "old-key": row("invalid_api_key"),
  "app-key": row("key_scope"),
  "reader-key": { open: "ok", read: "ok", write: "key_scope", operator_read: "ok", operator_write: "key_scope" },
  "ops-key": { open: "ok", read: "ok", write: "ok", operator_read: "ok", operator_write: "ok" },
  "tenant-key": {
    open: "ok",
    read: "ok",
    write: "ok",
    operator_read: "operator_only",
    operator_write: "operator_only",
  },
  "tenant-reader-key": {
    open: "ok",
    read: "ok",
    write: "key_scope",
    operator_read: "operator_only",
    operator_write: "key_scope",
  },
};

function row(refusal: string): Readonly<Record<AccessRule, string>> {
  return { open: "ok", read: refusal, write: refusal, operator_read: refusal, operator_write: refusal };
}

for (const [caller, expected] of Object.entries(EXPECTED)) {
  test(`every route answers ${caller} as its access rule says`, async (t) => {
    const admin = await startAdmin(t);
    for (const route of ADMIN_ROUTES) {
      const response = await call(admin, route, { key: caller === "no key" ? null : caller });
      const what = `${route.method} ${route.path} (${route.access})`;
      const outcome = expected[route.access];
      if (outcome === "ok") {
        assert.ok(![401, 403].includes(response.status), `${what}: ${response.status} ${await response.text()}`);
      } else {
        assert.equal((await problemOf(response)).code, outcome, what);
      }
    }
  });
}

test("no route tells a key of another account anything of the account default, or changes it", async (t) => {
  const admin = await startAdmin(t);
  for (const kind of ["node", "model", "policy", "key"] as const) {
    admin.objects.add(kind, "default", "secret-thing", { note: "only of default" });
  }
  admin.objects.add("account", "", "secret-thing", { note: "only of default" });
  let changes = 0;
  const { rotateKey, mintKey } = admin.objects;
  const counted = <A extends [string, ...unknown[]], R>(write: (...args: A) => R) => {
    return (...args: A): R => {
      if (args[0] === "default") changes += 1;
      return write.apply(admin.objects, args);
    };
  };
  admin.objects.rotateKey = counted(rotateKey);
  admin.objects.mintKey = counted(mintKey);
  for (const key of ["tenant-key", "tenant-reader-key"]) {
    for (const route of ADMIN_ROUTES) {
      for (const account of [undefined, "default"]) {
        if (account !== undefined && !("account" in route.query.shape)) continue;
        const response = await call(admin, route, { key, account, name: "secret-thing" });
        const text = await response.text();
        assert.ok(!text.includes("only of default"), `${route.method} ${route.path} told: ${text}`);
        if (account === undefined) continue;
        assert.equal(response.status, 403, `${route.method} ${route.path}?account=default: ${text}`);
      }
    }
  }
  for (const kind of ["node", "model", "policy", "key"] as const) {
    assert.equal(admin.objects.get(kind, "default", "secret-thing")?.spec["note"], "only of default", kind);
  }
  assert.equal(changes, 0);
});

test("HEAD is GET without its body, on every route that has one", async (t) => {
  const admin = await startAdmin(t);
  for (const route of ADMIN_ROUTES.filter(({ method }) => method === "GET")) {
    const [get, head] = [await call(admin, route, {}), await call(admin, route, {}, "HEAD")];
    assert.equal(head.status, get.status, route.path);
    assert.equal(head.headers.get("content-type"), get.headers.get("content-type"), route.path);
    assert.equal(await head.text(), "");
    await get.body?.cancel();
  }
});

test("every other method is a 405 that names those that a path has", async (t) => {
  const admin = await startAdmin(t);
  for (const { path } of ADMIN_ROUTES) {
    const shape = path.replaceAll(/\{\w+\}/g, "{}");
    const methods = ADMIN_ROUTES.filter((route) => route.path.replaceAll(/\{\w+\}/g, "{}") === shape).map(
      ({ method }) => method,
    );
    for (const method of ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]) {
      if (methods.some((one) => one === method)) continue;
      const response = await admin.ask(fill(path, "x"), { method });
      assert.equal((await problemOf(response)).code, "method_not_allowed", `${method} ${path}`);
      const allow = response.headers.get("allow")?.split(", ") ?? [];
      const all = methods.flatMap((one) => (one === "GET" ? ["GET", "HEAD"] : [one]));
      assert.deepEqual(allow.toSorted(), [...new Set(all)].sort(), `${method} ${path}`);
    }
  }
});

test("a query parameter that a route does not name is refused, everywhere", async (t) => {
  const admin = await startAdmin(t);
  for (const route of ADMIN_ROUTES.filter(({ access }) => access !== "open")) {
    const response = await call(admin, route, { query: "surprise=1" });
    const problem = await problemOf(response);
    assert.equal(problem.code, "invalid_query", `${route.method} ${route.path}`);
    assert.deepEqual(
      problem.errors?.map(({ path }) => path),
      ["surprise"],
    );
  }
});

test("every route names a rule of the list", () => {
  for (const { id, access } of ADMIN_ROUTES) assert.ok(isAccessRule(access), id);
  assert.equal(new Set(ADMIN_ROUTES.map(({ id }) => id)).size, ADMIN_ROUTES.length, "ids are unique");
});

interface Call {
  readonly key?: string | null;
  readonly account?: string | undefined;
  readonly name?: string;
  readonly query?: string;
}

function call(
  admin: AdminFixture,
  route: RouteContract,
  options: Call,
  method: string = route.method,
): Promise<Response> {
  const { key, account, name = "x", query } = options;
  const parts = [...(account === undefined ? [] : [`account=${account}`]), ...(query === undefined ? [] : [query])];
  const path = `${fill(route.path, name)}${parts.length === 0 ? "" : `?${parts.join("&")}`}`;
  const body = route.body === null ? {} : bodyFor(route);
  return admin.ask(path, { method, ...(key === undefined ? {} : { key }), ...body });
}

function fill(path: string, name: string): string {
  return path.replaceAll(/\{\w+\}/g, name);
}

/** The first of these that the route takes. */
const BODIES = [
  {},
  { spec: { note: "by a tenant" } },
  { name: "x" },
  { seconds: 1 },
  { path: "/nowhere/copy" },
  { level: "info" },
  { request: { model: "x" } },
  { policies: [{ name: "x" }] },
  new YamlBody("nodes: []\n"),
];

function bodyFor({ id, body }: RouteContract): { headers: Record<string, string>; body: string } {
  const value = BODIES.find((one) => body?.schema.safeParse(one).success === true);
  assert.ok(value !== undefined, `the walk has no body for ${id}: add one to BODIES`);
  return {
    headers: { "content-type": body?.types[0] ?? "" },
    body: value instanceof YamlBody ? value.text : JSON.stringify(value),
  };
}
