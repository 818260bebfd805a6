/** `zml get`, `apply`, `diff`, `delete` and `keys` against an admin port that refuses, pages and loses races. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type ApplyOptions, apply, diff } from "./apply.ts";
import { deleteObject } from "./delete.ts";
import { durationMs, momentMs } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";
import { type GetOptions, getObjects } from "./get.ts";
import { createKey, rotateKey } from "./keys.ts";
import { kindOf } from "./object-kinds.ts";
import { type Canned, cannedAdmin, object, problem } from "./testing/canned-admin.ts";
import { keptTerminal } from "./testing/kept-terminal.ts";

const NOW_MS = Date.UTC(2026, 0, 1);

const CHAT = object("policy", "chat", {
  accelerator_preference: [
    { family: "H100", priority: 2 },
    { family: "MI300X", priority: 1 },
    { family: "L40S", priority: 2 },
  ],
  cost_priority: "cost",
  latency_target_ms: 2000,
});

function get(admin: string, more: Partial<GetOptions> = {}): GetOptions {
  return { admin, kind: "policy", json: false, yaml: false, wide: false, ...more };
}

function fileOf(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-apply-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "part.yaml"), text);
  return join(folder, "part.yaml");
}

function applying(admin: string, file: string, more: Partial<ApplyOptions> = {}): ApplyOptions {
  return { admin, file, prune: false, json: false, full: false, dryRun: false, yes: false, ...more };
}

const PART = "policies:\n  - name: chat\n    cost_priority: cheap\n";

/** Answers of apply: what a dry run and what the real one says. */
function applied(changes: readonly object[], real: Partial<Record<string, unknown>> = {}) {
  return (question: string, { url }: { url: string }): Canned | undefined => {
    if (question !== "POST /admin/v1/apply") return undefined;
    const plan = { changes, version: null, is_acknowledged: true, warnings: [] };
    return { body: url.includes("dry_run=true") ? plan : { ...plan, version: 7, ...real } };
  };
}

const CHANGE = {
  kind: "policy",
  account: "default",
  name: "chat",
  action: "updated",
  fields: [{ path: "cost_priority", before: "balanced", after: "cost" }],
};

test("get follows the pages to their end, and shows a chain by its tiers", async (t) => {
  const second = object("policy", "接客", {}, { account: "acme" });
  const admin = await cannedAdmin(t, (_, { url }) =>
    url.includes("cursor=more")
      ? { body: { items: [second], next_cursor: null } }
      : { body: { items: [CHAT], next_cursor: "more" } },
  );
  const terminal = keptTerminal();
  assert.equal(await getObjects(terminal, get(admin.url), null), EXIT.ok);
  const [head = "", first = "", next = "", count] = terminal.stdout().split("\n");
  assert.match(first, /^chat +default +MI300X, then H100 or L40S +cost +2000 ms +no +api/);
  assert.match(next, /^接客 +acme +all, as registered/);
  // a wide character takes two columns of a terminal
  assert.equal(next.indexOf("acme") + 2, head.indexOf("ACCOUNT"));
  assert.equal(count, "2 policies");
  const json = keptTerminal();
  await getObjects(json, get(admin.url, { json: true }), null);
  assert.equal((JSON.parse(json.stdout()) as { items: unknown[] }).items.length, 2);
});

test("get shows of a policy what is in force, whether its spec says it or not", async (t) => {
  const items = [
    object("policy", "chat", { queue_on_saturation: true }),
    object("policy", "own", { queue_on_saturation: true, max_queue_ms: 500, cost_priority: "latency" }),
  ];
  const admin = await cannedAdmin(t, () => ({ body: { items, next_cursor: null } }));
  const terminal = keptTerminal();
  await getObjects(terminal, get(admin.url), null);
  assert.match(terminal.stdout(), /^chat .* balanced +– +up to 30000 ms /m);
  assert.match(terminal.stdout(), /^own .* latency +– +up to 500 ms /m);
});

test("get --yaml prints what apply takes, with the account where it is not the default one", async (t) => {
  const admin = await cannedAdmin(t, () => ({
    body: object("price_feed", "spot", { name: "spot", provider: "aws" }),
  }));
  const terminal = keptTerminal();
  await getObjects(terminal, get(admin.url, { kind: "price_feed", name: "spot", yaml: true }), null);
  assert.equal(terminal.stdout(), "prices:\n  feeds:\n    - name: spot\n      provider: aws\n");
  const other = await cannedAdmin(t, () => ({ body: object("node", "a", { family: "H100" }, { account: "acme" }) }));
  const second = keptTerminal();
  await getObjects(second, get(other.url, { kind: "node", name: "a", yaml: true }), null);
  assert.equal(second.stdout(), "nodes:\n  - id: a\n    account: acme\n    family: H100\n");
});

test("an object that is not there is told with the nearest one, and ends with 5", async (t) => {
  const admin = await cannedAdmin(t, (question) =>
    question === "GET /admin/v1/policies" ? { body: { items: [CHAT], next_cursor: null } } : undefined,
  );
  const terminal = keptTerminal();
  assert.equal(await getObjects(terminal, get(admin.url, { name: "chta" }), null), EXIT.notFound);
  assert.equal(terminal.stderr(), "zml: there is no policy chta: is it chat?\n");
});

test("kinds are known by singular and plural, with - and with _", () => {
  for (const word of ["price-feed", "price_feeds", "Price-Feeds"]) assert.equal(kindOf(word), "price_feed", word);
  assert.equal(kindOf("policies"), "policy");
  assert.equal(kindOf("polcies"), null);
});

test("apply shows what would change before it asks, and only a yes applies it", async (t) => {
  const admin = await cannedAdmin(t, applied([CHANGE]));
  const file = fileOf(t, PART);
  const asked = () => admin.asked.map(({ url }) => url.includes("dry_run=false"));
  for (const [answers, code] of [
    [[], EXIT.usage],
    [["n"], EXIT.failed],
    [[""], EXIT.failed],
  ] as const) {
    const terminal = keptTerminal({ answers });
    assert.equal(await apply(terminal, applying(admin.url, file)), code);
    assert.match(terminal.stdout(), /^~ policy chat\n {4}cost_priority: balanced → cost\n0 to create, 1 to change, /);
    assert.match(terminal.stderr(), /nothing was changed/);
  }
  assert.ok(!asked().includes(true), "nothing was applied");
  const terminal = keptTerminal({ answers: ["y"] });
  assert.equal(await apply(terminal, applying(admin.url, file)), EXIT.ok);
  assert.match(terminal.stdout(), /applied as version 7\n$/);
  assert.deepEqual(admin.asked.at(-1)?.body, { policies: [{ name: "chat", cost_priority: "cheap" }] });
});

test("apply takes standard input, --dry-run applies nothing, and nothing to change asks nobody", async (t) => {
  const admin = await cannedAdmin(t, applied([CHANGE]));
  const dry = keptTerminal({ input: PART });
  assert.equal(await apply(dry, applying(admin.url, "-", { dryRun: true })), EXIT.ok);
  assert.equal(admin.asked.length, 1);
  const same = await cannedAdmin(t, applied([{ ...CHANGE, action: "unchanged", fields: [] }]));
  const terminal = keptTerminal({ input: PART });
  assert.equal(await apply(terminal, applying(same.url, "-")), EXIT.ok);
  assert.equal(terminal.stdout(), "nothing to change: all of it is as it says\n");
  assert.equal(same.asked.length, 1);
});

test("apply --yes --json prints one object, and says aside that a thread has not confirmed it", async (t) => {
  const admin = await cannedAdmin(t, applied([CHANGE], { is_acknowledged: false }));
  const terminal = keptTerminal({ input: PART });
  assert.equal(await apply(terminal, applying(admin.url, "-", { yes: true, json: true })), EXIT.ok);
  const { version, dry_run: isDry } = JSON.parse(terminal.stdout()) as { version: number; dry_run: boolean };
  assert.deepEqual([version, isDry], [7, false]);
  assert.match(terminal.stderr(), /^note: a serving thread has not confirmed it yet/);
});

test("what is wrong with an applied file is told with its lines", async (t) => {
  const errors = [
    { path: "policies[0].cost_priority", message: "expected cost, balanced or latency", hint: "" },
    { path: "policies[0].queue", message: "is no key", hint: "take it out" },
  ];
  const admin = await cannedAdmin(t, () => problem(422, "invalid_object", "2 errors: nothing was applied", errors));
  const file = fileOf(t, PART);
  const terminal = keptTerminal();
  assert.equal(await apply(terminal, applying(admin.url, file)), EXIT.failed);
  const lines = terminal.stderr().replaceAll(file, "F").split("\n");
  assert.deepEqual(lines, [
    "zml: 2 errors: nothing was applied",
    "F:3:20 policies[0].cost_priority: expected cost, balanced or latency",
    "F:2:5 policies[0].queue: is no key: take it out",
    "",
  ]);
});

test("apply of no file, of broken YAML and of a file that holds no mapping asks no gateway", async (t) => {
  const admin = await cannedAdmin(t, applied([]));
  for (const [file, pattern] of [
    ["/nonexistent.yaml", /there is no such file: name a file with -f FILE/],
    [fileOf(t, "policies: [\n"), /part\.yaml:\d+:\d+/],
    [fileOf(t, ""), /holds no objects/],
    [fileOf(t, "- a\n"), /holds no objects/],
  ] as const) {
    const terminal = keptTerminal();
    assert.equal(await apply(terminal, applying(admin.url, file, { yes: true })), EXIT.failed);
    assert.match(terminal.stderr(), pattern);
  }
  assert.equal(admin.asked.length, 0);
});

test("diff ends with 7 when something would change, with 0 otherwise, and never applies", async (t) => {
  const file = fileOf(t, PART);
  const differs = await cannedAdmin(t, applied([CHANGE]));
  assert.equal(await diff(keptTerminal(), applying(differs.url, file)), EXIT.differs);
  const same = await cannedAdmin(t, applied([{ ...CHANGE, action: "unchanged" }]));
  assert.equal(await diff(keptTerminal(), applying(same.url, file, { json: true })), EXIT.ok);
  for (const { url } of [...differs.asked, ...same.asked]) assert.match(url, /dry_run=true/);
});

test("apply sends the tag of what it showed, and says so when somebody else changed it meanwhile", async (t) => {
  const admin = await cannedAdmin(t, (question, { url }) => {
    if (question !== "POST /admin/v1/apply") return undefined;
    if (!url.includes("dry_run=true")) return problem(412, "precondition_failed", "it is not what was shown");
    const plan = { changes: [CHANGE], version: null, is_acknowledged: true, warnings: [] };
    return { body: plan, headers: { etag: '"plan-1"' } };
  });
  const terminal = keptTerminal({ input: PART });
  assert.equal(await apply(terminal, applying(admin.url, "-", { yes: true })), EXIT.conflict);
  assert.equal(admin.asked.at(-1)?.headers["if-match"], '"plan-1"');
  assert.match(terminal.stderr(), /^zml: it is not what was shown \(somebody else changed it meanwhile: run /);
});

test("of a very large change the first hundred objects are shown, and --full shows all", async (t) => {
  const many = Array.from({ length: 150 }, (_, index) => ({ ...CHANGE, name: `p${index}`, fields: [] }));
  const admin = await cannedAdmin(t, applied(many));
  const short = keptTerminal({ input: PART });
  await diff(short, applying(admin.url, "-"));
  assert.match(short.stdout(), /\n… and 50 objects more: --full shows all\n0 to create, 150 to change/);
  const full = keptTerminal({ input: PART });
  await diff(full, applying(admin.url, "-", { full: true }));
  assert.equal(full.stdout().split("\n").length, 152);
});

test("delete takes away what it saw and nothing newer, and says who owns what it can't delete", async (t) => {
  const admin = await cannedAdmin(t, (question) => {
    if (question === "GET /admin/v1/policies/chat") return { body: CHAT, headers: { etag: '"1"' } };
    return problem(412, "precondition_failed", "policy chat has changed: it is at 2");
  });
  const terminal = keptTerminal();
  const options = { admin: admin.url, kind: "policy", name: "chat", json: false } as const;
  assert.equal(await deleteObject(terminal, options), EXIT.conflict);
  assert.equal(admin.asked.at(-1)?.headers["if-match"], '"1"');
  assert.match(
    terminal.stderr(),
    /^zml: policy chat has changed: it is at 2 \(somebody else changed it meanwhile: run /,
  );
  const owned = await cannedAdmin(t, (question) =>
    question.startsWith("GET")
      ? { body: CHAT, headers: { etag: '"1"' } }
      : problem(409, "owned_by_file", "zml.yaml:12 owns policy chat: change it there"),
  );
  const second = keptTerminal();
  assert.equal(await deleteObject(second, { ...options, admin: owned.url }), EXIT.conflict);
  assert.equal(second.stderr(), "zml: zml.yaml:12 owns policy chat: change it there\n");
});

test("a new key is alone on standard output with --quiet, and stands in the object with --json", async (t) => {
  const made = { object: object("key", "app", { scopes: ["infer"] }), secret: "zml_s3cret", version: 3 };
  const admin = await cannedAdmin(t, () => ({ status: 201, body: { ...made, is_acknowledged: true, warnings: [] } }));
  const line = { admin: admin.url, name: "app", json: false, quiet: false };
  const quiet = keptTerminal();
  const asked = { ...line, quiet: true, scope: ["infer", "read"], model: ["m"], policy: ["p"], expires: "90d" };
  assert.equal(await createKey(quiet, { ...asked, limit: ["requests_per_minute=60"] }, NOW_MS), EXIT.ok);
  assert.deepEqual([quiet.stdout(), quiet.stderr()], ["zml_s3cret\n", ""]);
  assert.deepEqual(admin.asked[0]?.body, {
    name: "app",
    spec: {
      scopes: ["infer", "read"],
      models: ["m"],
      policies: ["p"],
      expires_at: "2026-04-01T00:00:00.000Z",
      limits: { requests_per_minute: 60 },
    },
  });
  const json = keptTerminal();
  await createKey(json, { ...line, json: true }, NOW_MS);
  assert.equal((JSON.parse(json.stdout()) as { secret: string }).secret, "zml_s3cret");
  const people = keptTerminal();
  await rotateKey(people, { ...line, overlap: "90m" });
  assert.match(
    people.stdout(),
    /^key app rotated: the old value opens for 90m more; .* shown this once:\n\nzml_s3cret\n$/,
  );
  assert.deepEqual(admin.asked.at(-1)?.body, { overlap_seconds: 5400 });
});

test("an expiry, an overlap and a limit that can't be read are refused before anything is asked", async (t) => {
  const admin = await cannedAdmin(t, () => undefined);
  const line = { admin: admin.url, name: "app", json: false, quiet: false };
  for (const wrong of [{ expires: "tomorrow" }, { expires: "2025-01-01" }, { limit: ["rpm"] }, { limit: ["a=x"] }]) {
    const terminal = keptTerminal();
    assert.equal(await createKey(terminal, { ...line, ...wrong }, NOW_MS), EXIT.usage, JSON.stringify(wrong));
    assert.match(terminal.stderr(), /^zml: --(expires|limit) /);
  }
  assert.equal(await rotateKey(keptTerminal(), { ...line, overlap: "long" }), EXIT.usage);
  assert.equal(admin.asked.length, 0);
});

test("durations and moments are read as they are typed", () => {
  assert.equal(durationMs("1h30m"), 5_400_000);
  assert.equal(durationMs("500ms"), 500);
  assert.equal(durationMs("0s"), 0);
  for (const text of ["", "5", "h", "-1h", "1 h", "1w"]) assert.ok(Number.isNaN(durationMs(text)), text);
  assert.equal(momentMs("2026-01-02", NOW_MS), NOW_MS + 86_400_000);
  assert.equal(momentMs("2026-01-01T01:00:00+01:00", NOW_MS), NOW_MS);
  for (const text of ["2026-13-40", "2026", "Jan 2 2026"]) assert.ok(Number.isNaN(momentMs(text, NOW_MS)), text);
});

test("a key that is missing, wrong or may not is told with the variable that holds it, and ends with 4", async (t) => {
  const admin = await cannedAdmin(t, (_, { headers }) => {
    if (headers.authorization === undefined) return problem(401, "missing_api_key", "a key is needed");
    if (headers.authorization === "Bearer known") return problem(403, "operator_only", "only operators may");
    return problem(401, "invalid_api_key", "the key is not known");
  });
  const ask = async (env: Record<string, string>) => {
    const terminal = keptTerminal({ env });
    assert.equal(await getObjects(terminal, get(admin.url), null), EXIT.denied);
    return terminal.stderr();
  };
  assert.match(await ask({}), /^zml: a key is needed \(put an admin key into ZML_ADMIN_KEY, or /);
  assert.match(
    await ask({ ZML_ADMIN_KEY: "s3cret" }),
    /^zml: the key is not known \(the key is the value of ZML_ADMIN_KEY\)/,
  );
  assert.equal(await ask({ ZML_ADMIN_KEY: "known" }), "zml: only operators may\n");
  const odd = await ask({ ZML_ADMIN_KEY: "schlüssel" });
  assert.match(odd, /^zml: the value of ZML_ADMIN_KEY is no key/);
  assert.doesNotMatch(odd, /schlüssel/);
});
