/** Managed objects through the whole gateway. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../src/config/read-config.ts";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";
import { done, OPS, refused } from "./objects-fixture.ts";

test("a node and a policy that the API makes serve the next request, and are there after a restart", async (t) => {
  const fake = await fakeNode(t);
  const storeFolder = folder(t);
  const first = await startOn(t, PORTS, { storeFolder });
  const { objects } = first.gateway;
  const policy = done(await objects.put("policy", "default", "fast", { cost_priority: "latency" }, UNCONDITIONAL, OPS));
  assert.equal(policy.action, "created");
  assert.equal(policy.isAcknowledged, true);
  done(await objects.put("model", "default", "m", { policy: "fast" }, UNCONDITIONAL, OPS));
  const node = { url: fake.url, family: "H100", models: ["m"] };
  done(await objects.put("node", "default", "a", node, UNCONDITIONAL, OPS));
  await until("the new node serves", async () => (await chat(first.gateway)).status === 200);
  const answer = await chat(first.gateway);
  assert.match(answer.headers.get("x-zml-routing") ?? "", /policy="fast"/);
  await answer.text();
  const before = objects.list("node", null);
  await first.gateway.stop();

  const second = await startOn(t, PORTS, { storeFolder });
  assert.deepEqual(second.gateway.objects.list("node", null), before);
  const again = await chat(second.gateway);
  assert.equal(again.status, 200);
  assert.match(again.headers.get("x-zml-routing") ?? "", /policy="fast"/);
  await again.text();
});

test("of two writers that read the same revision the second is refused, and what the first wrote stays", async (t) => {
  const { gateway } = await startOn(t, PORTS, { storeFolder: folder(t) });
  const { objects } = gateway;
  const made = done(await objects.put("policy", "default", "p", {}, UNCONDITIONAL, OPS));
  const condition = { ifMatch: [made.object?.revision ?? ""], ifNoneMatch: null };
  const [one, two] = await Promise.all([
    objects.put("policy", "default", "p", { latency_target_ms: 1 }, condition, OPS),
    objects.put("policy", "default", "p", { latency_target_ms: 2 }, condition, OPS),
  ]);
  assert.equal(done(one).action, "updated");
  assert.match(refused(two, "precondition_failed"), /the policy p was changed since/);
  assert.deepEqual(objects.get("policy", "default", "p")?.spec, { latency_target_ms: 1 });
  const anew = await objects.put("policy", "default", "p", {}, { ifMatch: null, ifNoneMatch: "*" }, OPS);
  assert.match(refused(anew, "precondition_failed"), /the policy p is there already/);
});

test("what is wrong with an object is told with the object's own path, and changes nothing", async (t) => {
  const { gateway } = await startOn(t, PORTS, { storeFolder: folder(t) });
  const { objects } = gateway;
  const put = (spec: Record<string, unknown>) => objects.put("policy", "default", "p", spec, UNCONDITIONAL, OPS);
  assert.match(refused(await put({ cost_priority: "cheap" }), "invalid"), /^cost_priority: expected one of/);
  assert.match(refused(await put({ costs: 1 }), "invalid"), /^costs: unknown key "costs"/);
  assert.match(refused(await put({ name: "q" }), "invalid"), /^name: expected p, as the address says/);
  const twice = [
    { family: "H100", priority: 1 },
    { family: "H100", priority: 2 },
  ];
  assert.match(
    refused(await put({ accelerator_preference: twice }), "invalid"),
    /^accelerator_preference\.1\.family: accelerator_preference\[0\]\.family of the policy p and .*both declare the family/,
  );
  const model = await objects.put("model", "default", "m", { policy: "nobody" }, UNCONDITIONAL, OPS);
  assert.match(refused(model, "invalid"), /^policy: there is no policy "nobody"/);
  assert.deepEqual(objects.list("policy", null), []);
  assert.deepEqual(objects.list("model", null), []);
});

test("a policy that a model uses is not deleted, and who uses it is named", async (t) => {
  const { gateway } = await startOn(t, PORTS, { storeFolder: folder(t) });
  const { objects } = gateway;
  done(await objects.put("policy", "default", "p", {}, UNCONDITIONAL, OPS));
  done(await objects.put("model", "default", "m", { policy: "p" }, UNCONDITIONAL, OPS));
  const inUse = refused(await objects.remove("policy", "default", "p", UNCONDITIONAL, OPS), "in_use");
  assert.match(inUse, /the policy p is in use: model m \(of the API\), policy: there is no policy "p"/);
  assert.equal(done(await objects.remove("model", "default", "m", UNCONDITIONAL, OPS)).action, "deleted");
  assert.equal(done(await objects.remove("policy", "default", "p", UNCONDITIONAL, OPS)).action, "deleted");
  assert.match(refused(await objects.remove("policy", "default", "p", UNCONDITIONAL, OPS), "not_found"), /no policy p/);
});

test("what the file declares is not the API's to change, and the file can't take what the API made", async (t) => {
  const { gateway, write } = await startOn(t, `${PORTS}policies: [{ name: ours }]\n`, { storeFolder: folder(t) });
  const { objects } = gateway;
  assert.equal(objects.get("policy", "default", "ours")?.owner, "file");
  const put = await objects.put("policy", "default", "ours", {}, UNCONDITIONAL, OPS);
  assert.match(refused(put, "owned_by_file"), /the policy ours is declared in \S+zml\.yaml:\d+/);
  refused(await objects.remove("policy", "default", "ours", UNCONDITIONAL, OPS), "owned_by_file");
  done(await objects.put("policy", "default", "theirs", {}, UNCONDITIONAL, OPS));
  write(`${PORTS}policies: [{ name: ours }, { name: other }, { name: theirs }]\n`);
  const result = await gateway.reload();
  assert.ok(result.kind === "refused");
  assert.match(result.problems.join("\n"), /zml\.yaml:3:\d+ policies\[2\]\.name: the admin API made the policy theirs/);
  assert.equal(objects.get("policy", "default", "other"), null, "refused as a whole");
});

test("where the file is, is told to operators only", async (t) => {
  const text = `${PORTS}accounts: [{ name: research }]\npolicies: [{ name: ours, account: research }]\n`;
  const { gateway, path } = await startOn(t, text, { storeFolder: folder(t) });
  const { objects } = gateway;
  const tenant = { kind: "key", name: "r", account: "research" } as const;
  const asked = (actor: typeof OPS) => objects.put("policy", "research", "ours", {}, UNCONDITIONAL, actor);
  assert.ok(refused(await asked(OPS), "owned_by_file").includes(path));
  assert.equal(
    refused(await asked(tenant), "owned_by_file"),
    ": the policy ours of the account research is declared in the configuration file",
  );
  // a refusal that names what the file says otherwise
  done(await objects.put("policy", "research", "theirs", {}, UNCONDITIONAL, OPS));
  const model = { models: [{ name: "m", account: "research", policy: "theirs" }] };
  assert.equal((await objects.apply(model, { isDryRun: false, prune: false, actor: OPS })).kind, "applied");
  const inUse = refused(await objects.remove("policy", "research", "theirs", UNCONDITIONAL, tenant), "in_use");
  assert.ok(!inUse.includes(path), inUse);
});

test("a part of a file is applied as one version, shown before, and nothing of it when something is wrong", async (t) => {
  const { gateway } = await startOn(t, `${PORTS}policies: [{ name: ours }]\n`, { storeFolder: folder(t) });
  const { objects } = gateway;
  const part = {
    policies: [{ name: "ours" }, { name: "fast", cost_priority: "latency" }],
    models: [{ name: "m", policy: "fast" }],
  };
  const options = { isDryRun: false, prune: false, actor: OPS };
  const dry = await objects.apply(part, { ...options, isDryRun: true });
  assert.ok(dry.kind === "applied" && dry.version === null, JSON.stringify(dry));
  assert.deepEqual(
    dry.changes.map(({ action, kind, name }) => [action, kind, name]),
    [
      ["created", "model", "m"],
      ["created", "policy", "fast"],
    ],
  );
  assert.equal(objects.get("policy", "default", "fast"), null);
  const shown = [dry.planTag ?? ""];
  const other = done(await objects.put("policy", "default", "fast", {}, UNCONDITIONAL, OPS));
  const stale = await objects.apply(part, { ...options, ifMatch: shown });
  assert.match(refused(stale, "precondition_failed"), /not what was shown/);
  assert.equal(objects.get("policy", "default", "fast")?.revision, other.object?.revision);
  done(await objects.remove("policy", "default", "fast", UNCONDITIONAL, OPS));
  const applied = await objects.apply(part, { ...options, ifMatch: shown });
  assert.ok(applied.kind === "applied" && applied.isAcknowledged);
  const repeated = await objects.apply(part, { ...options, ifMatch: shown });
  assert.ok(repeated.kind === "applied" && repeated.changes.length === 0, "it is so already");
  const again = await objects.apply(part, options);
  assert.ok(again.kind === "applied" && again.changes.length === 0 && again.version === applied.version);

  const wrong = {
    policies: [{ name: "slow" }, { name: "bad", cost_priority: "cheap" }],
    models: [{ name: "n", policy: "x" }],
  };
  const refusal = refused(await objects.apply(wrong, options), "invalid");
  assert.match(refusal, /^policies\.1\.cost_priority: expected one of/m);
  assert.match(refusal, /^models\.0\.policy: there is no policy "x"/m);
  assert.equal(objects.get("policy", "default", "slow"), null);
  assert.match(
    refused(await objects.apply({ limits: {} }, options), "invalid"),
    /^limits: limits is no list of objects/,
  );
  const twice = { policies: [{ name: "p" }, { name: "p" }] };
  assert.match(refused(await objects.apply(twice, options), "invalid"), /^policies\.1: the policy p is there twice/);
  const theirs = { policies: [{ name: "ours", cost_priority: "cost" }] };
  assert.match(
    refused(await objects.apply(theirs, options), "owned_by_file"),
    /^policies\.0: the policy ours is declared/,
  );
  const nameless = { nodes: [{ url: "http://10.0.0.1" }, "x"] };
  assert.match(
    refused(await objects.apply(nameless, options), "invalid"),
    /nodes\.0\.id: .*\nnodes\.1: expected a mapping/,
  );

  const update = { policies: [{ name: "fast", latency_target_ms: 5, cost_priority: "latency" }] };
  const pruned = await objects.apply(update, { ...options, prune: true });
  assert.ok(pruned.kind === "applied");
  assert.deepEqual(pruned.changes, [
    {
      ...{ kind: "policy", account: "default", name: "fast", action: "updated" },
      fields: [{ path: "latency_target_ms", before: undefined, after: 5 }],
    },
  ]);
  const models = await objects.apply({ models: [] }, { ...options, prune: true });
  assert.ok(models.kind === "applied");
  assert.deepEqual(
    models.changes.map(({ action, name }) => [action, name]),
    [["deleted", "m"]],
  );
});

test("who changed what, from which value to which, is in the store and in the log, also for the file", async (t) => {
  const storeFolder = folder(t);
  const { gateway, log, write } = await startOn(t, PORTS, { storeFolder });
  const { objects } = gateway;
  done(await objects.put("policy", "default", "p", { latency_target_ms: 1 }, UNCONDITIONAL, OPS));
  const changed = done(await objects.put("policy", "default", "p", { latency_target_ms: 2 }, UNCONDITIONAL, OPS));
  write(`${PORTS}accounts: [{ name: team }]\n`);
  assert.equal((await gateway.reload()).kind, "applied");
  const all = { account: null, kind: null, name: null, beforeId: null, limit: 10 };
  const rows = await objects.listAudit(all);
  assert.deepEqual(
    rows.map(({ actor, action, kind, name, before, after }) => ({ by: actor.name, action, kind, name, before, after })),
    [
      { by: "zml.yaml", action: "created", kind: "account", name: "team", before: null, after: {} },
      {
        ...{ by: "ops", action: "updated", kind: "policy", name: "p" },
        ...{ before: { latency_target_ms: 1 }, after: { latency_target_ms: 2 } },
      },
      { by: "ops", action: "created", kind: "policy", name: "p", before: null, after: { latency_target_ms: 1 } },
    ],
  );
  assert.equal(rows[1]?.version, changed.version);
  const page = await objects.listAudit({ ...all, kind: "policy", beforeId: rows[1]?.id ?? 0, limit: 1 });
  assert.deepEqual(
    page.map(({ id }) => id),
    [rows[2]?.id],
  );
  assert.ok(
    log.has("info", /audit .*"name":"ops".*"action":"updated".*"path":"latency_target_ms","before":1,"after":2/),
  );
  await gateway.stop();
  const second = await startOn(t, PORTS, { storeFolder });
  assert.equal((await second.gateway.objects.listAudit(all)).length, 3);
});

test("a drained node gets no request, whoever owns it, through a reload and a restart", async (t) => {
  const [one, two] = [await fakeNode(t), await fakeNode(t)];
  const text = `${PORTS}nodes: [{ id: a, url: "${one.url}", family: H100 }, { id: b, url: "${two.url}", family: H100 }]\n`;
  const storeFolder = folder(t);
  const first = await startOn(t, text, { storeFolder });
  const nodeOf = async (gateway: typeof first.gateway) => {
    const response = await chat(gateway);
    await response.text();
    return /node="(.)"/.exec(response.headers.get("x-zml-routing") ?? "")?.[1];
  };
  const nodesOf = async (gateway: typeof first.gateway) => {
    const nodes = new Set<string | undefined>();
    for (let time = 0; time < 8; time++) nodes.add(await nodeOf(gateway));
    return [...nodes].sort();
  };
  refused(await first.gateway.objects.setDraining("default", "nobody", true, OPS), "not_found");
  assert.equal((await first.gateway.objects.setDraining("default", "a", true, OPS)).kind, "written");
  assert.deepEqual(await nodesOf(first.gateway), ["b"]);
  first.write(text.replace("nodes:", "policies: [{ name: p }]\nnodes:"));
  assert.equal((await first.gateway.reload()).kind, "applied");
  assert.deepEqual(await nodesOf(first.gateway), ["b"]);
  await first.gateway.stop();

  const second = await startOn(t, text, { storeFolder });
  assert.deepEqual(await nodesOf(second.gateway), ["b"]);
  assert.equal((await second.gateway.objects.setDraining("default", "a", false, OPS)).kind, "written");
  assert.deepEqual(await nodesOf(second.gateway), ["a", "b"]);
  const [undrained, drained] = await second.gateway.objects.listAudit({
    ...{ account: "default", kind: "node", name: "a", beforeId: null, limit: 10 },
  });
  assert.deepEqual([undrained?.action, drained?.action], ["undrained", "drained"]);
});

test("the whole configuration can be written as a file that says the same", async (t) => {
  const { gateway } = await startOn(t, `${PORTS}policies: [{ name: ours }]\n`, { storeFolder: folder(t) });
  const { objects } = gateway;
  done(await objects.put("account", "", "team", {}, UNCONDITIONAL, OPS));
  done(await objects.put("policy", "team", "fast", { cost_priority: "latency" }, UNCONDITIONAL, OPS));
  done(await objects.put("price_feed", "", "own", { provider: "file", path: "prices.csv" }, UNCONDITIONAL, OPS));
  const { secret = "" } = done(await objects.mintKey("team", "app", { scopes: ["infer"] }, OPS));
  const text = objects.exportYaml();
  assert.ok(!text.includes(secret));
  assert.match(text, /^# \{"name":"app","account":"team","scopes":\["infer"\]\}$/m);
  const { config, errors } = readConfig(text, { fileName: "zml.yaml", env: {} });
  assert.deepEqual(errors, []);
  assert.deepEqual(
    config?.policies.map(({ account, name }) => [account, name]),
    [
      ["default", "ours"],
      ["team", "fast"],
    ],
  );
  assert.deepEqual(
    config?.prices.feeds.map(({ name }) => name),
    ["own"],
  );
});

test("what another file would change is told, and so is what would stand in its way", async (t) => {
  const { gateway } = await startOn(t, `${PORTS}policies: [{ name: p }]\n`, { storeFolder: folder(t) });
  const { objects } = gateway;
  done(await objects.put("model", "default", "m", { policy: "p" }, UNCONDITIONAL, OPS));
  const next = await objects.diffFile(
    `${PORTS}workers: 3\npolicies: [{ name: p, cost_priority: cost }, { name: q }]\n`,
  );
  assert.deepEqual(next.errors, []);
  assert.match(next.needsRestart.join(), /workers changed/);
  assert.deepEqual(
    next.changes.map(({ action, name, fields }) => [action, name, fields.length]),
    [
      ["updated", "p", 1],
      ["created", "q", 0],
    ],
  );
  const without = await objects.diffFile(PORTS);
  assert.match(without.errors.map(({ message }) => message).join(), /the model m of the API: there is no policy "p"/);
  const broken = await objects.diffFile(`${PORTS}policies: [{ nam: p }]\n`);
  assert.equal(broken.errors[0]?.line, 3);
  const taken = await objects.diffFile(`${PORTS}policies: [{ name: p }]\nmodels:\n  - { name: m }\n`);
  assert.deepEqual(
    taken.errors.map(({ line, path }) => [line, path]),
    [[5, "models[0].name"]],
  );
});

test("ten thousand nodes are one apply and one version, and requests run meanwhile", async (t) => {
  const fake = await fakeNode(t);
  const text = `${PORTS}health: { poll_interval_ms: 3600000 }\nnodes: [{ id: a, url: "${fake.url}", family: H100 }]\n`;
  const { gateway } = await startOn(t, text, { storeFolder: folder(t) });
  const { objects } = gateway;
  const url = (index: number) => `http://127.1.${Math.floor(index / 200)}.${(index % 200) + 1}:9`;
  const nodes = Array.from({ length: 10_000 }, (_, index) => ({ id: `n${index}`, url: url(index), family: "MI300X" }));
  const options = { isDryRun: false, prune: false, actor: OPS };
  const applying = objects.apply({ nodes }, options);
  let served = 0;
  const isApplied = applying.then(() => true);
  do {
    const response = await chat(gateway);
    assert.equal(response.status, 200);
    await response.text();
    served += 1;
  } while (!(await Promise.race([isApplied, Promise.resolve(false)])));
  const applied = await applying;
  assert.ok(applied.kind === "applied" && applied.changes.length === 10_000, JSON.stringify(applied).slice(0, 200));
  assert.ok(served > 1);
  assert.equal(objects.list("node", null).length, 10_001);
  const again = await objects.apply({ nodes }, options);
  assert.ok(again.kind === "applied" && again.changes.length === 0);
});

test("a policy of families that nobody has, with gaps and ties, is taken, with a warning", async (t) => {
  const { gateway } = await startOn(t, PORTS, { storeFolder: folder(t) });
  const chain = [
    { family: "H100", priority: 7 },
    { family: "MI300X", priority: 7 },
    { family: "B200", priority: 900 },
  ];
  const spec = { accelerator_preference: chain };
  const put = done(await gateway.objects.put("policy", "default", "p", spec, UNCONDITIONAL, OPS));
  assert.match(put.warnings.join("\n"), /p: accelerator_preference\[2\]\.family: no node has the family "B200"/);
});
