/** A backup put in the place of a store. */

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { storeRestore } from "../src/commands/store-restore.ts";
import { keptTerminal } from "../src/commands/testing/kept-terminal.ts";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { folder, PORTS, startOn } from "./control-fixture.ts";
import { done, OPS } from "./objects-fixture.ts";

/** A gateway with a key and a policy, and a copy of its store. */
async function backedUp(t: TestContext) {
  const home = folder(t);
  const storeFolder = join(home, "zml-data");
  const config = join(home, "zml.yaml");
  writeFileSync(config, PORTS);
  const { gateway } = await startOn(t, PORTS, { storeFolder });
  done(await gateway.objects.mintKey("default", "app", {}, OPS));
  done(await gateway.objects.put("policy", "default", "kept", {}, UNCONDITIONAL, OPS));
  const backup = join(home, "copy.sqlite");
  await gateway.objects.backup(backup);
  const restore = async (options: { force?: boolean; path?: string; json?: boolean } = {}) => {
    const terminal = keptTerminal();
    const code = await storeRestore(terminal, { path: backup, config, force: false, json: false, ...options });
    return { code, text: `${terminal.stdout()}${terminal.stderr()}` };
  };
  return { gateway, storeFolder, backup, restore };
}

test("a backup brings back objects and keys, over a store only with --force, and never under a gateway", async (t) => {
  const { gateway, storeFolder, restore } = await backedUp(t);
  done(await gateway.objects.put("policy", "default", "later", {}, UNCONDITIONAL, OPS));
  const inUse = await restore({ force: true });
  assert.equal(inUse.code, 6, inUse.text);
  assert.match(inUse.text, /is in use: stop the gateway first/);
  await gateway.stop();
  const refusal = await restore();
  assert.equal(refusal.code, 1);
  assert.match(refusal.text, /there is a store at .* already: restore with --force/);
  const restored = await restore({ force: true });
  assert.equal(restored.code, 0, restored.text);
  assert.match(restored.text, /restored .*zml-data: 2 objects, version \d+/);
  assert.equal(statSync(join(storeFolder, "pepper")).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(storeFolder).sort(), ["pepper", "zml.sqlite"]);
  const { gateway: second } = await startOn(t, PORTS, { storeFolder });
  assert.deepEqual(
    second.objects.list("policy", null).map(({ name }) => name),
    ["kept"],
  );
  const put = done(await second.objects.put("policy", "default", "new", {}, UNCONDITIONAL, OPS));
  assert.ok(Number(put.object?.revision) > 4, "a revision that the lost changes had is not used again");
});

test("a backup goes to a place that has no store, and tells it to scripts", async (t) => {
  const { gateway, storeFolder, restore } = await backedUp(t);
  await gateway.stop();
  rmSync(storeFolder, { recursive: true });
  const { code, text } = await restore({ json: true });
  assert.equal(code, 0, text);
  const { version: _, ...rest } = JSON.parse(text) as { version: number };
  assert.deepEqual(rest, { folder: storeFolder, objects: 2, has_pepper: true, has_decisions: false });
});

test("what is no backup of this ZML's is refused, and the store stays as it is", async (t) => {
  const { gateway, storeFolder, backup, restore } = await backedUp(t);
  await gateway.stop();
  const before = readFileSync(join(storeFolder, "zml.sqlite"));
  const other = join(dirname(backup), "other");
  const refused = async (pattern: RegExp, path = other) => {
    const { code, text } = await restore({ force: true, path });
    assert.equal(code, 1, text);
    assert.match(text, pattern);
    assert.deepEqual(readFileSync(join(storeFolder, "zml.sqlite")), before);
    assert.equal(existsSync(join(storeFolder, "zml.sqlite.restoring")), false);
  };
  await refused(/no such file/i);
  writeFileSync(other, "a text");
  await refused(/can't be used|no store of ZML/);
  rmSync(other);
  new DatabaseSync(other).close();
  await refused(/is no store of ZML/);
  const newer = new DatabaseSync(other);
  newer.exec("PRAGMA user_version = 99; CREATE TABLE t (x)");
  newer.close();
  await refused(/has version 99 and this ZML knows \d+: restore it with the newer ZML/);
  rmSync(`${backup}.pepper`);
  rmSync(join(storeFolder, "pepper"));
  await refused(/the backup has 1 keys, and .*copy\.sqlite\.pepper, without which .* is missing/, backup);
});
