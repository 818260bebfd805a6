/** Managed objects and a store that fails, crashes, or is somebody else's. */

import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";
import { done, OPS, refused } from "./objects-fixture.ts";

const policy = (latency: number) => ({ latency_target_ms: latency });

test("while another process holds the store changes are refused and traffic runs, then they are made", async (t) => {
  const fake = await fakeNode(t);
  const storeFolder = folder(t);
  const text = `${PORTS}nodes: [{ id: a, url: "${fake.url}", family: H100, models: [m] }]\n`;
  const { gateway, log } = await startOn(t, text, { storeFolder });
  const { objects } = gateway;
  done(await objects.put("policy", "default", "p", policy(1), UNCONDITIONAL, OPS));
  const other = new DatabaseSync(join(storeFolder, "zml.sqlite"));
  t.after(() => other.close());
  other.exec("BEGIN IMMEDIATE");
  const put = await objects.put("policy", "default", "p", policy(2), UNCONDITIONAL, OPS);
  assert.match(refused(put, "store_unavailable"), /the store .* can't be used \(database is locked\)/);
  const response = await chat(gateway);
  assert.equal(response.status, 200);
  await response.text();
  assert.deepEqual(objects.get("policy", "default", "p")?.spec, policy(1));
  assert.ok(log.has("error", /database is locked.*traffic runs on/));
  other.exec("ROLLBACK");
  done(await objects.put("policy", "default", "p", policy(2), UNCONDITIONAL, OPS));
});

test("what was kept and not yet in force when the process died is in force after the next start", async (t) => {
  const storeFolder = folder(t);
  const first = await startOn(t, PORTS, { storeFolder });
  done(await first.gateway.objects.put("policy", "default", "p", policy(1), UNCONDITIONAL, OPS));
  await first.gateway.stop();
  // as a process leaves it that died between the two
  const database = new DatabaseSync(join(storeFolder, "zml.sqlite"));
  database.exec(`UPDATE counters SET value = value + 1;
    INSERT INTO objects VALUES ('model', 'default', 'm', '{"policy":"p"}', 2, 1, 1)`);
  database.close();
  const { gateway } = await startOn(t, PORTS, { storeFolder });
  assert.equal(gateway.objects.get("model", "default", "m")?.revision, "2");
  const inUse = await gateway.objects.remove("policy", "default", "p", UNCONDITIONAL, OPS);
  assert.match(refused(inUse, "in_use"), /model m/);
});

test("a change that another gateway made in the same store is seen before the next one, and not written over", async (t) => {
  const storeFolder = folder(t);
  const [one, two] = [await startOn(t, PORTS, { storeFolder }), await startOn(t, PORTS, { storeFolder })];
  done(await one.gateway.objects.put("policy", "default", "p", policy(1), UNCONDITIONAL, OPS));
  const blind = await two.gateway.objects.put(
    "policy",
    "default",
    "p",
    policy(2),
    { ifMatch: null, ifNoneMatch: "*" },
    OPS,
  );
  assert.match(refused(blind, "store_unavailable"), /another writer changed the objects/);
  const again = await two.gateway.objects.put(
    "policy",
    "default",
    "p",
    policy(2),
    { ifMatch: null, ifNoneMatch: "*" },
    OPS,
  );
  assert.match(refused(again, "precondition_failed"), /is there already/);
  assert.deepEqual(two.gateway.objects.get("policy", "default", "p")?.spec, policy(1));
});

test("a store that closes in the middle of a write leaves all of it or nothing", async (t) => {
  const storeFolder = folder(t);
  const node = "nodes: [{ id: a, url: http://127.0.0.1:1, family: H100, models: [m] }]\n";
  const first = await startOn(t, `${PORTS}${node}`, { storeFolder });
  const { objects } = first.gateway;
  const part = { policies: Array.from({ length: 500 }, (_, index) => ({ name: `p${index}` })) };
  const [applied] = await Promise.all([
    objects.apply(part, { isDryRun: false, prune: false, actor: OPS }),
    first.gateway.stop(0),
  ]);
  const after = await objects.put("policy", "default", "late", {}, UNCONDITIONAL, OPS);
  refused(after, "store_unavailable");
  refused(await objects.mintKey("default", "k", {}, OPS), "store_unavailable");
  refused(await objects.setDraining("default", "a", true, OPS), "store_unavailable");
  const second = await startOn(t, PORTS, { storeFolder });
  const kept = second.gateway.objects.list("policy", null).length;
  assert.ok(kept === 0 || kept === 500, `${kept} of 500`);
  if (applied.kind === "applied") assert.equal(kept, 500);
});

test("a store that can't be read at the start leaves the file in force, and what it holds comes when it can", async (t) => {
  const storeFolder = folder(t);
  const first = await startOn(t, PORTS, { storeFolder });
  done(await first.gateway.objects.put("policy", "default", "p", policy(1), UNCONDITIONAL, OPS));
  const { secret = "" } = done(await first.gateway.objects.mintKey("default", "app", {}, OPS));
  await first.gateway.stop();
  const other = new DatabaseSync(join(storeFolder, "zml.sqlite"));
  t.after(() => other.close());
  // a lock that even readers wait for
  other.exec("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
  const { gateway, log } = await startOn(t, `${PORTS}policies: [{ name: ours }]\n`, { storeFolder });
  assert.ok(log.has("error", /can't be loaded: only the file is in force/));
  assert.equal(gateway.objects.get("policy", "default", "p"), null);
  const status = async (headers: Record<string, string> = {}) =>
    (await fetch(`${gateway.dataUrl}/v1/models`, { headers })).status;
  assert.equal(await status(), 401, "there are keys, and nobody knows which");
  const put = await gateway.objects.put("policy", "default", "p", policy(2), UNCONDITIONAL, OPS);
  refused(put, "store_unavailable");
  other.exec("ROLLBACK");
  const again = await gateway.objects.put("policy", "default", "q", {}, UNCONDITIONAL, OPS);
  done(again);
  assert.deepEqual(gateway.objects.get("policy", "default", "p")?.spec, policy(1), "not lost, and not written over");
  assert.deepEqual([await status(), await status({ authorization: `Bearer ${secret}` })], [401, 200]);
});

test("a file that takes the name of what the API made does not start, and both places are named", async (t) => {
  const storeFolder = folder(t);
  const first = await startOn(t, PORTS, { storeFolder });
  done(await first.gateway.objects.put("policy", "default", "p", {}, UNCONDITIONAL, OPS));
  await first.gateway.stop();
  const text = `${PORTS}policies: [{ name: p }]\n`;
  await assert.rejects(
    startOn(t, text, { storeFolder }),
    /don't fit together; nothing is lost.*\n.*zml\.yaml:3:\d+ policies\[0\]\.name: the admin API made the policy p already, at 20/,
  );
});

test("a store written by a newer ZML is refused at the start, with both versions", async (t) => {
  const storeFolder = folder(t);
  const database = new DatabaseSync(join(storeFolder, "zml.sqlite"));
  database.exec("PRAGMA user_version = 99");
  database.close();
  await assert.rejects(
    startOn(t, PORTS, { storeFolder }),
    /has version 99 and this ZML knows \d+: start the newer ZML/,
  );
});

test("where no store can be made changes are refused, and the file is served", async (t) => {
  const fake = await fakeNode(t);
  const blocked = join(folder(t), "blocked");
  writeFileSync(blocked, "");
  const text = `${PORTS}nodes: [{ id: a, url: "${fake.url}", family: H100, models: [m] }]\n`;
  const { gateway } = await startOn(t, text, { storeFolder: join(blocked, "store") });
  const put = await gateway.objects.put("policy", "default", "p", {}, UNCONDITIONAL, OPS);
  assert.match(refused(put, "store_unavailable"), /the store .* can't be used/);
  refused(await gateway.objects.mintKey("default", "k", {}, OPS), "store_unavailable");
  refused(await gateway.objects.setDraining("default", "a", true, OPS), "store_unavailable");
  const response = await chat(gateway);
  assert.equal(response.status, 200);
  await response.text();
});

test("a copy of a running store opens with its keys, and is not written over another file", async (t) => {
  const storeFolder = folder(t);
  const { gateway } = await startOn(t, PORTS, { storeFolder });
  done(await gateway.objects.mintKey("default", "app", {}, OPS));
  const copy = join(folder(t), "copy.sqlite");
  const { bytes } = await gateway.objects.backup(copy);
  assert.ok(bytes > 0);
  assert.deepEqual(readFileSync(`${copy}.pepper`), readFileSync(join(storeFolder, "pepper")));
  await assert.rejects(gateway.objects.backup(copy), /is there already: name a new one/);
  await gateway.stop();
  const other = folder(t);
  writeFileSync(join(other, "zml.sqlite"), readFileSync(copy));
  writeFileSync(join(other, "pepper"), readFileSync(`${copy}.pepper`));
  const restored = await startOn(t, PORTS, { storeFolder: other });
  assert.deepEqual(
    restored.gateway.objects.list("key", null).map(({ name }) => name),
    ["app"],
  );
});

test("without a store what the API makes lives as long as the process", async (t) => {
  const { gateway, path } = await startOn(t, PORTS);
  done(await gateway.objects.put("policy", "default", "p", {}, UNCONDITIONAL, OPS));
  done(await gateway.objects.mintKey("default", "k", {}, OPS));
  assert.equal(
    (await gateway.objects.listAudit({ account: null, kind: null, name: null, beforeId: null, limit: 9 })).length,
    2,
  );
  await until("the gateway stops", async () => (await gateway.stop(0)).isClean);
  rmSync(path);
});
