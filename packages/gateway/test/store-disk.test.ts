/**
 * Disks that take no writes: full, failing, read-only. A file system of a few pages is really full, where this user may
 * mount one; a limit on the size of files stops every write the same way everywhere. Nobody is above the rights of a folder
 * here: as root, the gateway runs without the capability to be.
 */

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { UNCONDITIONAL } from "../src/control/objects/managed-objects.ts";
import { openDatabase } from "../src/store/open-database.ts";
import { toStoreFault } from "../src/store/store-fault.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";
import { done, OPS, refused } from "./objects-fixture.ts";

const ZML = fileURLToPath(new URL("../bin/zml.mjs", import.meta.url));
const IS_ROOT = process.getuid?.() === 0;

/** Whether a program runs here. */
function runs(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}

/** A folder whose rights the test takes away; it goes with the test all the same. */
function lockable(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "zml-disk-"));
  t.after(() => {
    spawnSync("chmod", ["-R", "u+rwX", path]);
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}

const policy = (latency: number) => ({ latency_target_ms: latency });

test("a database that may not grow is a full disk, and what to do is said", (t) => {
  const path = join(folder(t), "zml.sqlite");
  const database = openDatabase(path);
  t.after(() => database.close());
  const { page_count: pages } = database.prepare("PRAGMA page_count").get() as { page_count: number };
  database.exec(`PRAGMA max_page_count = ${pages}`);
  assert.throws(
    () => database.exec("CREATE TABLE more (text TEXT); INSERT INTO more VALUES (hex(zeroblob(1000000)))"),
    (error) => {
      const { kind, message } = toStoreFault(error, path);
      assert.equal(kind, "disk_full");
      assert.match(message, /zml\.sqlite can't be used \(database or disk is full\): free some space$/);
      return true;
    },
  );
});

test("on a full disk changes are refused and traffic runs, and with room they are made again", async (t) => {
  const storeFolder = join(folder(t), "disk");
  mkdirSync(storeFolder);
  if (!IS_ROOT || !runs("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", storeFolder)) {
    t.skip("no file system may be mounted here; the other tests of this file stand in");
    return;
  }
  const unmount = () => runs("umount", "-l", storeFolder);
  try {
    const fake = await fakeNode(t);
    const text = `${PORTS}nodes: [{ id: a, url: "${fake.url}", family: H100, models: [m] }]\n`;
    const { gateway, log } = await startOn(t, text, { storeFolder });
    const { objects } = gateway;
    done(await objects.put("policy", "default", "p", policy(1), UNCONDITIONAL, OPS));
    fill(join(storeFolder, "filler"));
    let last = await objects.put("policy", "default", "p", policy(2), UNCONDITIONAL, OPS);
    // pages that the database still had to itself
    for (let next = 3; last.kind === "written" && next < 2_000; next += 1) {
      last = await objects.put("policy", "default", "p", policy(next), UNCONDITIONAL, OPS);
    }
    assert.match(refused(last, "store_unavailable"), /\(database or disk is full\): free some space/);
    const before = objects.get("policy", "default", "p")?.spec;
    assert.equal((await chat(gateway)).status, 200);
    assert.ok(log.has("error", /disk is full.*traffic runs on/));
    rmSync(join(storeFolder, "filler"));
    assert.deepEqual(objects.get("policy", "default", "p")?.spec, before, "what was refused is not in force");
    done(await objects.put("policy", "default", "p", policy(9_999), UNCONDITIONAL, OPS));
    assert.ok(log.has("info", /the store works again/));
    await gateway.stop(0);
  } finally {
    unmount();
  }
});

/** Takes all the room that there is. */
function fill(path: string): void {
  for (const bytes of [65_536, 4_096, 512]) {
    try {
      for (let index = 0; index < 4_096; index += 1) writeFileSync(path, Buffer.alloc(bytes), { flag: "a" });
    } catch {
      // this much no longer fits
    }
  }
}

test("a disk that refuses writes under a running gateway stops changes alone, until it takes them again", async (t) => {
  if (!runs("prlimit", "--version")) {
    t.skip("prlimit (util-linux) is not installed: install util-linux");
    return;
  }
  const { child, ask } = await serve(t, { folder: folder(t) });
  const limit = (size: string) => assert.ok(runs("prlimit", "--pid", String(child.pid), `--fsize=${size}:unlimited`));
  assert.equal((await ask.put("p", policy(1))).status, 201);
  limit("0");
  const stopped = await ask.put("p", policy(2));
  assert.equal(stopped.status, 503, stopped.text);
  assert.match(stopped.text, /disk I\/O error.*limits of this process/);
  assert.equal((await ask.chat()).status, 200);
  assert.match((await ask.get("status")).text, /"state":"degraded"/);
  limit("unlimited");
  assert.equal((await ask.put("p", policy(2))).status, 200);
  assert.match((await ask.get("status")).text, /"state":"ok"/);
});

test("a gateway that starts on a read-only disk knows the keys that it made, and is not open", async (t) => {
  const home = lockable(t);
  const store = join(home, "zml-data");
  const first = await serve(t, { folder: home });
  assert.equal((await first.ask.put("p", policy(1))).status, 201);
  assert.equal((await first.ask.post("keys", { name: "app", spec: { scopes: ["infer", "admin"] } })).status, 201);
  await stop(first.child);
  const setRights = (isWritable: boolean) => {
    chmodSync(join(store, "zml.sqlite"), isWritable ? 0o600 : 0o400);
    chmodSync(store, isWritable ? 0o700 : 0o500);
  };
  setRights(false);
  const { child, ask, said } = await serve(t, { folder: home, isBound: true });
  assert.equal((await ask.chat()).status, 401, "the keys that it made are known");
  assert.equal((await ask.get("policies/p")).status, 401);
  setRights(true);
  await stop(child);
  assert.match(said(), /zml ready/);
});

test("on a read-only disk nothing is changed, traffic runs, and it goes on by itself when the disk is writable", async (t) => {
  const home = lockable(t);
  const store = join(home, "zml-data");
  const first = await serve(t, { folder: home });
  assert.equal((await first.ask.put("p", policy(1))).status, 201);
  await stop(first.child);
  chmodSync(join(store, "zml.sqlite"), 0o400);
  chmodSync(store, 0o500);
  const { ask, said } = await serve(t, { folder: home, isBound: true });
  assert.match((await ask.get("policies/p")).text, /"latency_target_ms":1/, "what the store holds is in force");
  const refusedPut = await ask.put("p", policy(2));
  assert.equal(refusedPut.status, 503, refusedPut.text);
  assert.match(refusedPut.text, /readonly database.*let this user write there/);
  assert.equal((await ask.chat()).status, 200);
  await until("the log says it", () => /readonly database.*traffic runs on/.test(said()));
  chmodSync(store, 0o700);
  chmodSync(join(store, "zml.sqlite"), 0o600);
  assert.equal((await ask.put("p", policy(2))).status, 200);
});

test("a gateway whose store can't be made on a read-only disk serves the file and refuses changes", async (t) => {
  const home = lockable(t);
  const closed = join(home, "closed");
  mkdirSync(closed, { mode: 0o500 });
  const { ask } = await serve(t, { folder: home, store: "closed/zml-data", isBound: true });
  assert.equal((await ask.chat()).status, 200);
  const put = await ask.put("p", policy(1));
  assert.equal(put.status, 503, put.text);
  assert.match(put.text, /EACCES.*this user may write there/);
});

interface Answer {
  readonly status: number;
  readonly text: string;
}

/**
 * `zml serve` in a process of its own.
 *
 * @param isBound by the rights of files, also as root
 */
async function serve(
  t: TestContext,
  { folder: home, store = "zml-data", isBound = false }: { folder: string; store?: string; isBound?: boolean },
) {
  const fake = await fakeNode(t);
  const path = join(home, "zml.yaml");
  const node = `{ id: a, url: "${fake.url}", family: H100, models: [m] }`;
  writeFileSync(path, `${PORTS}store: { path: ${store} }\nnodes: [${node}]\n`);
  const command = [process.execPath, ZML, "serve", "-c", path];
  if (isBound && IS_ROOT) command.unshift("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--");
  const [program = "", ...args] = command;
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => stop(child));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
    });
  }
  await until("it is ready", () => {
    assert.equal(child.exitCode, null, text);
    return /zml ready/.test(text);
  });
  const [, data = "", admin = ""] = /zml ready data=(\S+) admin=(\S+)/.exec(text) ?? [];
  const call = async (method: string, url: string, body?: object): Promise<Answer> => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return { status: response.status, text: await response.text() };
  };
  const ask = {
    get: (what: string) => call("GET", `http://${admin}/admin/v1/${what}`),
    post: (what: string, body: object) => call("POST", `http://${admin}/admin/v1/${what}`, body),
    put: (name: string, spec: object) => call("PUT", `http://${admin}/admin/v1/policies/${name}`, { spec }),
    chat: () =>
      call("POST", `http://${data}/v1/chat/completions`, { model: "m", messages: [{ role: "user", content: "hi" }] }),
  };
  return { child, ask, said: () => text };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const killer = setTimeout(() => child.kill("SIGKILL"), 15_000);
  await once(child, "exit");
  clearTimeout(killer);
}
