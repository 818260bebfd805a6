import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { SILENT_LOG } from "../control/gateway-log.ts";
import { MIGRATIONS } from "./migrations.ts";
import { createOperations, type LearnedNumber, type StoredPrice } from "./operations.ts";
import { Store, type StoreOptions } from "./store.ts";
import { toStoreFault } from "./store-fault.ts";
import { MEMORY } from "./store-messages.ts";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-store-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function open(t: TestContext, folder: string, options: Partial<StoreOptions> = {}): Promise<Store> {
  const store = new Store({ folder, log: SILENT_LOG, ...options });
  t.after(() => store.close());
  await store.open();
  return store;
}

const number = (name: string, value: number): LearnedNumber => ({
  account: "default",
  node: "a",
  url: "http://a",
  family: "H100",
  model: "m",
  name,
  value,
  samples: 3,
  updatedAtMs: 1_000,
});
const price = (key: string, observedAtMs: number, usdPerGpuHour: number): StoredPrice => ({
  key,
  usdPerGpuHour,
  observedAtMs,
  fetchedAtMs: observedAtMs + 5,
  source: "lambda default",
});

const ALL = { skip: 0, limit: 100 };

describe("a store that can't be used", () => {
  it("is refused with both versions when a newer ZML wrote it, and stays as it was", async (t) => {
    const folder = folderOf(t);
    const database = new DatabaseSync(join(folder, "zml.sqlite"));
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length + 7}`);
    database.close();
    const before = readFileSync(join(folder, "zml.sqlite"));
    await assert.rejects(open(t, folder), (error: Error) => {
      assert.equal(error.name, "StartError");
      assert.match(error.message, new RegExp(`version ${MIGRATIONS.length + 7} .* knows ${MIGRATIONS.length}`));
      return true;
    });
    assert.deepEqual(readFileSync(join(folder, "zml.sqlite")).subarray(60, 64), before.subarray(60, 64));
  });

  it("is refused when the file is no database", async (t) => {
    const folder = folderOf(t);
    writeFileSync(join(folder, "zml.sqlite"), "not a database at all, but long enough to have a header".repeat(50));
    await assert.rejects(open(t, folder), /restore a backup/);
  });

  it("starts degraded where the folder can't be made, and says so once", async (t) => {
    const folder = folderOf(t);
    writeFileSync(join(folder, "file"), "");
    const lines: string[] = [];
    const log = { ...SILENT_LOG, error: (_: object, message: string) => void lines.push(message) };
    const store = await open(t, join(folder, "file", "inner"), { log });
    assert.equal(store.status.state, "degraded");
    await assert.rejects(store.call("learned.load", ALL), { name: "StoreFault", kind: "unreachable" });
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /traffic runs on/);
  });

  it("works again by itself once the file can be opened", async (t) => {
    const folder = folderOf(t);
    writeFileSync(join(folder, "inner"), "");
    const store = await open(t, join(folder, "inner"));
    assert.equal(store.status.state, "degraded");
    rmSync(join(folder, "inner"));
    assert.deepEqual(await store.call("learned.load", ALL), []);
    assert.deepEqual(store.status, { state: "ok", reason: null, pending: 0, hasThread: true });
  });

  it("names a full and a read-only disk in its refusals", async (t) => {
    const folder = folderOf(t);
    await (await open(t, folder)).close();
    const path = join(folder, "zml.sqlite");
    const kindOf = (database: DatabaseSync, rows: number): string => {
      t.after(() => database.close());
      const prices = Array.from({ length: rows }, (_, index) => price(`key-${index}`, index, 1));
      try {
        createOperations(database)["prices.append"]({ prices, forgetBeforeMs: 0 });
      } catch (error) {
        return toStoreFault(error, path).kind;
      }
      return "none";
    };
    const full = new DatabaseSync(path);
    full.exec("PRAGMA max_page_count = 10");
    assert.equal(kindOf(full, 10_000), "disk_full");
    assert.equal(kindOf(new DatabaseSync(path, { readOnly: true }), 1), "read_only");
  });

  it("L03: reports a lock that another process holds, keeps nothing of the call, and goes on after it", async (t) => {
    const folder = folderOf(t);
    const store = await open(t, folder);
    const other = new DatabaseSync(join(folder, "zml.sqlite"));
    t.after(() => other.close());
    other.exec("BEGIN IMMEDIATE");
    const save = () => store.call("learned.save", { numbers: [number("x", 1)], forgetBeforeMs: 0 });
    await assert.rejects(save(), { kind: "locked" });
    assert.equal(store.status.state, "degraded");
    other.exec("ROLLBACK");
    await save();
    assert.equal(store.status.state, "ok");
  });

  it("answers its callers by a deadline however slow the disk is", async (t) => {
    const folder = folderOf(t);
    await (await open(t, folder)).close();
    const other = new DatabaseSync(join(folder, "zml.sqlite"));
    t.after(() => other.close());
    // the thread waits two seconds for this lock
    other.exec("BEGIN IMMEDIATE");
    const store = await open(t, folder, { callDeadlineMs: 500 });
    await assert.rejects(store.call("learned.load", ALL), { kind: "timeout" });
    other.exec("ROLLBACK");
  });

  it("refuses calls beyond its bound and after its end", async (t) => {
    const store = await open(t, MEMORY);
    const calls = Array.from({ length: 1_001 }, () => store.call("learned.load", ALL));
    const results = await Promise.allSettled(calls);
    assert.equal(results.filter(({ status }) => status === "rejected").length, 1);
    await store.close();
    await assert.rejects(store.call("learned.load", ALL), { kind: "closed" });
  });
});

describe("the store", () => {
  it("has what was saved after it was closed and opened again", async (t) => {
    const folder = folderOf(t);
    const first = await open(t, folder);
    const save = first.call("learned.save", { numbers: [number("x", 1.5), number("y", 2)], forgetBeforeMs: 0 });
    // what waits is done before the end
    await Promise.all([save, first.close()]);
    const second = await open(t, folder);
    assert.deepEqual(
      (await second.call("learned.load", ALL)).map((row) => ({ ...row })),
      [number("x", 1.5), number("y", 2)],
    );
  });

  it("loads in parts what does not fit into its thread's heap at once, the newest first", async (t) => {
    const store = await open(t, MEMORY);
    const numbers = Array.from({ length: 5 }, (_, index) => ({
      ...number("x", 1),
      node: `n${index}`,
      updatedAtMs: index,
    }));
    await store.call("learned.save", { numbers, forgetBeforeMs: 0 });
    const parts = [];
    for (const skip of [0, 2, 4]) parts.push(await store.call("learned.load", { skip, limit: 2 }));
    assert.deepEqual(
      parts.map((part) => part.map(({ node }) => node)),
      [["n4", "n3"], ["n2", "n1"], ["n0"]],
    );
  });

  it("changes all of a call or nothing", async (t) => {
    const store = await open(t, MEMORY);
    const numbers = [number("x", 1), { ...number("y", 1), value: Number.NaN }];
    await assert.rejects(store.call("learned.save", { numbers, forgetBeforeMs: 0 }));
    assert.deepEqual(await store.call("learned.load", ALL), []);
  });

  it("forgets what is older than asked, but never the price that holds", async (t) => {
    const store = await open(t, MEMORY);
    const prices = [price("k", 100, 1), price("k", 200, 2), price("l", 50, 3)];
    await store.call("prices.append", { prices, forgetBeforeMs: 0 });
    await store.call("prices.append", { prices: [], forgetBeforeMs: 1_000 });
    const rest = (await store.call("prices.latest", null)).map(({ key, usdPerGpuHour }) => [key, usdPerGpuHour]);
    assert.deepEqual(rest, [
      ["k", 2],
      ["l", 3],
    ]);
    const history = await store.call("prices.history", { key: "k", sinceMs: 0, limit: 10 });
    assert.deepEqual(
      history.map(({ observedAtMs }) => observedAtMs),
      [200],
    );
  });

  it("tells a price's newest changes when there are more than asked for, oldest first", async (t) => {
    const store = await open(t, MEMORY);
    const prices = Array.from({ length: 20 }, (_, at) => price("k", at, at));
    await store.call("prices.append", { prices, forgetBeforeMs: 0 });
    const history = await store.call("prices.history", { key: "k", sinceMs: 5, limit: 3 });
    assert.deepEqual(
      history.map(({ observedAtMs }) => observedAtMs),
      [17, 18, 19],
    );
  });

  it("ends its thread while there is nothing to do, and starts it again for the next call", async (t) => {
    const store = await open(t, folderOf(t), { idleMs: 1 });
    for (let round = 0; round < 3; round++) {
      await store.call("learned.save", { numbers: [number(`x${round}`, round)], forgetBeforeMs: 0 });
      assert.equal((await store.call("learned.load", { skip: 0, limit: 10 })).length, round + 1);
      const deadlineMs = performance.now() + 5_000;
      while (store.status.hasThread && performance.now() < deadlineMs) await wait(1);
      assert.equal(store.status.hasThread, false);
    }
    assert.equal(store.status.state, "ok");
  });

  it("copies itself into one file that opens", async (t) => {
    const folder = folderOf(t);
    const store = await open(t, folder);
    await store.call("learned.save", { numbers: [number("x", 1)], forgetBeforeMs: 0 });
    const path = join(folder, "copy.sqlite");
    await store.call("store.backup", { path });
    const copy = new DatabaseSync(path, { readOnly: true });
    t.after(() => copy.close());
    assert.equal(copy.prepare("SELECT count(*) AS n FROM learned").get()?.["n"], 1);
    await assert.rejects(store.call("store.backup", { path }), { name: "StoreFault" });
  });

  it("takes over what a ZML of the first shape wrote, with the origin unknown", async (t) => {
    const folder = folderOf(t);
    const database = new DatabaseSync(join(folder, "zml.sqlite"));
    database.exec(`${MIGRATIONS[0]}; PRAGMA user_version = 1;
      INSERT INTO learned VALUES ('default', 'a', 'http://a', 'm', 'x', 1, 3, 1000);
      INSERT INTO prices VALUES ('k', 100, 105, 2)`);
    database.close();
    const store = await open(t, folder);
    assert.deepEqual(
      (await store.call("learned.load", ALL)).map((row) => ({ ...row })),
      [{ ...number("x", 1), family: "" }],
    );
    assert.deepEqual(
      (await store.call("prices.latest", null)).map((row) => ({ ...row })),
      [{ ...price("k", 100, 2), source: "" }],
    );
  });

  it("runs each step of its shape once, also when two start at once", async (t) => {
    const folder = folderOf(t);
    const stores = await Promise.all([open(t, folder), open(t, folder), open(t, folder)]);
    for (const store of stores) assert.equal(store.status.state, "ok");
  });
});
