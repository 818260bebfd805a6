/** Keys that the gateway makes: shown once, kept as keyed hashes, rotated with overlap. */

import assert from "node:assert/strict";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { fakeNode, folder, PORTS, startOn } from "./control-fixture.ts";
import { done, OPS, refused } from "./objects-fixture.ts";

/** Status of a request with this key. */
async function statusWith(gateway: Gateway, key: string): Promise<number> {
  const response = await fetch(`${gateway.dataUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], max_tokens: 2 }),
  });
  await response.text();
  return response.status;
}

const withNode = (url: string) => `${PORTS}nodes: [{ id: a, url: "${url}", family: H100, models: [m] }]\n`;

test("a key is told once, opens the data port at once and after a restart, and its value is in no file", async (t) => {
  const fake = await fakeNode(t);
  const storeFolder = folder(t);
  const first = await startOn(t, withNode(fake.url), { storeFolder });
  const { objects } = first.gateway;
  const made = done(await objects.mintKey("default", "app", { scopes: ["infer"] }, OPS));
  const secret = made.secret ?? "";
  assert.match(secret, /^zml_[A-Za-z0-9_-]{43}$/);
  assert.equal(await statusWith(first.gateway, secret), 200);
  assert.equal(await statusWith(first.gateway, `${secret.slice(0, -1)}!`), 401);
  assert.equal(
    JSON.stringify([objects.list("key", null), objects.exportYaml(), first.log.lines]).includes(secret),
    false,
  );
  await first.gateway.stop();
  for (const file of ["zml.sqlite", "pepper"]) {
    assert.equal(readFileSync(join(storeFolder, file)).includes(secret), false);
  }
  assert.equal(statSync(join(storeFolder, "pepper")).mode & 0o777, 0o600);
  const second = await startOn(t, withNode(fake.url), { storeFolder });
  assert.equal(await statusWith(second.gateway, secret), 200);
  done(await second.gateway.objects.remove("key", "default", "app", UNCONDITIONAL, OPS));
  done(await second.gateway.objects.mintKey("default", "other", {}, OPS));
  assert.equal(await statusWith(second.gateway, secret), 401);
});

test("while a key is rotated both values open the port, then the new one alone", async (t) => {
  const fake = await fakeNode(t);
  const { gateway } = await startOn(t, withNode(fake.url), { storeFolder: folder(t) });
  const { objects } = gateway;
  const one = done(await objects.mintKey("default", "app", {}, OPS)).secret ?? "";
  const two = done(await objects.rotateKey("default", "app", { overlapMs: 3_600_000 }, OPS)).secret ?? "";
  assert.deepEqual([await statusWith(gateway, one), await statusWith(gateway, two)], [200, 200]);
  const three = done(await objects.rotateKey("default", "app", { overlapMs: 0 }, OPS)).secret ?? "";
  assert.deepEqual(
    [await statusWith(gateway, one), await statusWith(gateway, two), await statusWith(gateway, three)],
    [401, 401, 200],
  );
  const rows = await objects.listAudit({ account: null, kind: "key", name: null, beforeId: null, limit: 10 });
  assert.deepEqual(
    rows.map(({ action }) => action),
    ["rotated", "rotated", "created"],
  );
  const changed = done(await objects.put("key", "default", "app", { models: ["m"] }, UNCONDITIONAL, OPS));
  assert.equal(changed.action, "updated");
  assert.equal(await statusWith(gateway, three), 200, "what a key may do changes without its value");
});

test("keys that are there, that the file has, that are none or wrong are refused", async (t) => {
  const text = `${PORTS}keys: [{ name: ours, value_env: OURS }]\n`;
  const { gateway } = await startOn(t, text, { storeFolder: folder(t), env: { OURS: "s" } });
  const { objects } = gateway;
  done(await objects.mintKey("default", "app", {}, OPS));
  assert.match(refused(await objects.mintKey("default", "app", {}, OPS), "precondition_failed"), /is there already/);
  refused(await objects.mintKey("default", "ours", {}, OPS), "owned_by_file");
  refused(await objects.rotateKey("default", "ours", { overlapMs: 0 }, OPS), "owned_by_file");
  refused(await objects.rotateKey("default", "nobody", { overlapMs: 0 }, OPS), "not_found");
  refused(await objects.put("key", "default", "nobody", {}, UNCONDITIONAL, OPS), "not_found");
  // neither whether there is such a variable nor whose value it holds is told
  for (const variable of ["OURS", "NOT_SET"]) {
    const own = await objects.mintKey("default", "x", { value_env: variable }, OPS);
    assert.equal(refused(own, "invalid"), 'value_env: unknown key "value_env"');
  }
  assert.match(
    refused(await objects.mintKey("default", "x", { scopes: ["all"] }, OPS), "invalid"),
    /^scopes\.0: expected/,
  );
  assert.match(refused(await objects.mintKey("nobody", "x", {}, OPS), "invalid"), /no account "nobody"/);
  assert.deepEqual(
    objects.list("key", null).map(({ name }) => name),
    ["app", "ours"],
  );
});

test("no file locks operators out of the admin port either", async (t) => {
  const env = { OPS_KEY: "ops-secret", TENANT_KEY: "tenant-secret" };
  const accounts = "accounts: [{ name: research }]\n";
  const tenant = "{ name: t, account: research, value_env: TENANT_KEY, scopes: [admin] }";
  const ops = "{ name: o, value_env: OPS_KEY, scopes: [admin] }";
  const { gateway, write } = await startOn(t, `${PORTS}${accounts}`, { env, storeFolder: folder(t) });
  write(`${PORTS}${accounts}keys: [${tenant}]\n`);
  const refusedFile = await gateway.reload();
  assert.ok(refusedFile.kind === "refused", JSON.stringify(refusedFile));
  assert.match(refusedFile.problems.join("\n"), /operators would be locked out.*give default one in the file/);
  assert.equal(gateway.objects.get("key", "research", "t"), null);
  write(`${PORTS}${accounts}keys: [${tenant}, ${ops}]\n`);
  assert.equal((await gateway.reload()).kind, "applied");
  write(`${PORTS}${accounts}keys: [${tenant}]\n`);
  assert.equal((await gateway.reload()).kind, "refused");
  done(await gateway.objects.mintKey("default", "ops", { scopes: ["admin"] }, OPS));
  assert.equal((await gateway.reload()).kind, "applied", "a key that the gateway made is one of theirs too");
});

test("no change of keys locks operators out of the admin port: other accounts' admin keys come after one of theirs", async (t) => {
  const { gateway } = await startOn(t, `${PORTS}accounts: [{ name: acme }]\n`, { storeFolder: folder(t) });
  const { objects, adminUrl } = gateway;
  const status = async (key: string) =>
    (await fetch(`${adminUrl}/admin/v1/status`, key === "" ? {} : { headers: { authorization: `Bearer ${key}` } }))
      .status;
  const admin = { scopes: ["admin"] };
  assert.match(
    refused(await objects.mintKey("acme", "theirs", admin, OPS), "invalid"),
    /operators would be locked out/,
  );
  assert.equal(await status(""), 200, "it is as open as it was");
  const own = done(await objects.mintKey("default", "ours", admin, OPS)).secret ?? "";
  done(await objects.mintKey("acme", "theirs", admin, OPS));
  refused(await objects.remove("key", "default", "ours", UNCONDITIONAL, OPS), "invalid");
  refused(await objects.put("key", "default", "ours", { scopes: ["read"] }, UNCONDITIONAL, OPS), "invalid");
  const prune = { isDryRun: true, prune: true, actor: OPS };
  refused(await objects.apply({ keys: [{ name: "theirs", account: "acme", ...admin }] }, prune), "invalid");
  assert.deepEqual([await status(own), await status("")], [200, 401]);
  done(await objects.remove("key", "acme", "theirs", UNCONDITIONAL, OPS));
  done(await objects.remove("key", "default", "ours", UNCONDITIONAL, OPS));
});

test("a gateway whose keys have lost their pepper does not start, and says what to put back", async (t) => {
  const storeFolder = folder(t);
  const first = await startOn(t, PORTS, { storeFolder });
  done(await first.gateway.objects.mintKey("default", "app", {}, OPS));
  await first.gateway.stop();
  const path = join(storeFolder, "pepper");
  const pepper = readFileSync(path);
  writeFileSync(path, Buffer.alloc(32, 1));
  await assert.rejects(
    startOn(t, PORTS, { storeFolder }),
    /has 1 keys, and the file pepper .* is another one .*backup/,
  );
  rmSync(path);
  await assert.rejects(startOn(t, PORTS, { storeFolder }), /the file pepper .* is missing: put the file of the backup/);
  writeFileSync(path, "short");
  await assert.rejects(startOn(t, PORTS, { storeFolder }), /pepper has 5 bytes, and the pepper of the store has 32/);
  writeFileSync(path, pepper);
  await startOn(t, PORTS, { storeFolder });
});
