import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { SILENT_LOG } from "../control/gateway-log.ts";
import { DecisionDatabase } from "../evidence/kept/decision-database.ts";
import { restoreStore } from "./restore-store.ts";
import { Store } from "./store.ts";

// what a system gives that takes no rights away by itself
const umask = process.umask(0);
after(() => process.umask(umask));

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-private-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const modeOf = (...path: string[]): string => (statSync(join(...path)).mode & 0o777).toString(8);

async function opened(t: TestContext, folder: string) {
  const lines: { fields: object; message: string }[] = [];
  const log = { ...SILENT_LOG, warn: (fields: object, message: string) => void lines.push({ fields, message }) };
  const store = new Store({ folder, log });
  t.after(() => store.close());
  await store.open();
  return { store, lines };
}

const LEARNED = { account: "default", node: "a", url: "http://a", family: "H100", model: "m", name: "x" };
const SAVED = { numbers: [{ ...LEARNED, value: 1, samples: 1, updatedAtMs: 1 }], forgetBeforeMs: 0 };

describe("files that others could use", () => {
  it("are taken from them at the start, which is told once", async (t) => {
    const folder = folderOf(t);
    chmodSync(folder, 0o755);
    const { store } = await opened(t, folder);
    await store.close();
    new DecisionDatabase(join(folder, "decisions.sqlite")).close();
    writeFileSync(join(folder, "pepper"), "");
    writeFileSync(join(folder, "notes"), "");
    chmodSync(join(folder, "zml.sqlite"), 0o644);
    chmodSync(join(folder, "decisions.sqlite"), 0o660);
    chmodSync(join(folder, "pepper"), 0o604);
    const second = await opened(t, folder);
    for (const file of ["zml.sqlite", "decisions.sqlite", "pepper"]) assert.equal(modeOf(folder, file), "600", file);
    assert.equal(modeOf(folder, "notes"), "666", "a file that is none of the store's");
    assert.equal(modeOf(folder), "755", "a folder that was there");
    assert.deepEqual(second.lines, [
      {
        fields: { folder, files: ["zml.sqlite", "decisions.sqlite", "pepper"] },
        message: "others could read files of the store; from now on only this user can",
      },
    ]);
    await second.store.close();
    assert.deepEqual((await opened(t, folder)).lines, []);
  });

  it("stay as they are behind a link, and where they are somebody else's", async (t) => {
    const folder = folderOf(t);
    const elsewhere = join(folder, "elsewhere");
    writeFileSync(elsewhere, "");
    symlinkSync(elsewhere, join(folder, "pepper"));
    const isRoot = process.getuid?.() === 0;
    if (isRoot) {
      writeFileSync(join(folder, "decisions.sqlite"), "");
      chownSync(join(folder, "decisions.sqlite"), 12_345, 12_345);
    }
    assert.deepEqual((await opened(t, folder)).lines, []);
    assert.equal(modeOf(elsewhere), "666");
    if (isRoot) assert.equal(modeOf(folder, "decisions.sqlite"), "666");
  });

  it("don't come out of a backup that others could read", async (t) => {
    const folder = folderOf(t);
    const { store } = await opened(t, join(folder, "first"));
    const backup = join(folder, "copy");
    await store.call("store.backup", { path: backup });
    const decisions = new DecisionDatabase(join(folder, "first", "decisions.sqlite"));
    await decisions.backup(`${backup}.decisions`);
    decisions.close();
    writeFileSync(`${backup}.pepper`, Buffer.alloc(32));
    for (const end of ["", ".decisions", ".pepper"]) chmodSync(`${backup}${end}`, 0o644);
    const restored = join(folder, "deep", "second");
    restoreStore({ backup, folder: restored, force: false });
    for (const file of ["zml.sqlite", "decisions.sqlite", "pepper"]) assert.equal(modeOf(restored, file), "600", file);
    assert.equal(modeOf(restored), "700");
    assert.equal(modeOf(folder, "deep"), "700");
  });
});

describe("a store that is new", () => {
  it("is for this user alone, with all that SQLite makes beside it", async (t) => {
    const folder = join(folderOf(t), "store");
    const { store, lines } = await opened(t, folder);
    await store.call("learned.save", SAVED);
    const decisions = new DecisionDatabase(join(folder, "decisions.sqlite"));
    t.after(() => decisions.close());
    decisions.addRun({ originMs: 1, tail: 1 });
    assert.equal(modeOf(folder), "700");
    for (const file of ["zml.sqlite", "decisions.sqlite"]) {
      for (const end of ["", "-wal", "-shm"]) assert.equal(modeOf(folder, `${file}${end}`), "600", `${file}${end}`);
    }
    assert.deepEqual(lines, []);
  });

  it("has backups for this user alone, and a copy that fails leaves no file", async (t) => {
    const folder = folderOf(t);
    const { store } = await opened(t, join(folder, "store"));
    await store.call("store.backup", { path: join(folder, "copy") });
    const decisions = new DecisionDatabase(join(folder, "decisions.sqlite"));
    await decisions.backup(join(folder, "copy.decisions"));
    assert.equal(modeOf(folder, "copy"), "600");
    assert.equal(modeOf(folder, "copy.decisions"), "600");
    await assert.rejects(decisions.backup(join(folder, "copy.decisions")), /is there already: name a new one/);
    await assert.rejects(store.call("store.backup", { path: join(folder, "copy") }), /is there already/);
    decisions.close();
    await assert.rejects(decisions.backup(join(folder, "late")), /not open/);
    assert.throws(() => statSync(join(folder, "late")), { code: "ENOENT" });
    mkdirSync(join(folder, "taken"));
    await assert.rejects(store.call("store.backup", { path: join(folder, "taken") }), /is there already/);
  });
});
