/** Managed objects through the whole gateway. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Actor, WriteDone, WriteRefusal, WriteResult } from "../src/control/objects/managed-objects.ts";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const OPS: Actor = { kind: "key", name: "ops", account: "default" };

function done(result: WriteResult): WriteDone {
  assert.equal(result.kind, "written", JSON.stringify(result));
  return result as WriteDone;
}

function refused(result: WriteResult, code: WriteRefusal["code"]): string {
  assert.ok(result.kind === "refused", JSON.stringify(result));
  assert.equal(result.code, code);
  return result.problems.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n");
}

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
  assert.match(refused(put, "owned_by_file"), /the policy ours is declared in the configuration file/);
  refused(await objects.remove("policy", "default", "ours", UNCONDITIONAL, OPS), "owned_by_file");
  done(await objects.put("policy", "default", "theirs", {}, UNCONDITIONAL, OPS));
  write(`${PORTS}policies: [{ name: ours }, { name: other }, { name: theirs }]\n`);
  const result = await gateway.reload();
  assert.ok(result.kind === "refused");
  assert.match(result.problems.join("\n"), /zml\.yaml:3:\d+ policies\[2\]\.name: the admin API made the policy theirs/);
  assert.equal(objects.get("policy", "default", "other"), null, "refused as a whole");
});
