import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs, {
  type FSWatcher,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runningSource, sourceConfig } from "../testing/running-source.ts";
import { startFileSource } from "./file-sd.ts";

const HOUR = 3_600_000;
/** A program of the system, where there is one. */
const MAKE_PIPE = "mkfifo";

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "zml-file-sd-"));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const list = (...targets: string[]) => JSON.stringify([{ targets }]);

function watching(t: TestContext, paths: readonly string[], refreshMs = HOUR) {
  const config = sourceConfig(
    `kind: file_sd\npaths: ${JSON.stringify(paths)}\nrefresh_ms: ${refreshMs}\nnode: { family: F }`,
  );
  return runningSource(t, startFileSource, config);
}

/** The watches that are open, from now to the end of the test. */
function countWatches(t: TestContext): ReadonlySet<FSWatcher> {
  const open = new Set<FSWatcher>();
  const { watch } = fs;
  const counted = (path: string, options: object, listener: () => void): FSWatcher => {
    const watcher = watch(path, options, listener);
    const { close } = watcher;
    watcher.close = () => {
      open.delete(watcher);
      close.call(watcher);
    };
    open.add(watcher);
    return watcher;
  };
  Object.assign(fs, { watch: counted });
  syncBuiltinESMExports();
  t.after(() => {
    Object.assign(fs, { watch });
    syncBuiltinESMExports();
  });
  return open;
}

test("a file that is written in place, or replaced, is read again", async (t) => {
  const path = join(folder(t), "nodes.json");
  writeFileSync(path, list("10.0.0.1:1"));
  const running = watching(t, [path]);
  await running.until("it is read", ({ found }) => found !== null);
  writeFileSync(path, list("10.0.0.1:1", "10.0.0.2:1"));
  await running.until("the change is seen", ({ found }) => found?.targets.length === 2);
  writeFileSync(`${path}.new`, list("10.0.0.3:1"));
  renameSync(`${path}.new`, path);
  await running.until("the new file is seen", ({ found }) => found?.targets.length === 1);
  assert.deepEqual(running.keys(), ["10.0.0.3:1"]);
});

test("a folder whose link is swapped, as Kubernetes does with a ConfigMap, is read again", async (t) => {
  const base = folder(t);
  for (const [name, target] of [
    ["..1", "10.0.0.1:1"],
    ["..2", "10.0.0.2:1"],
  ] as const) {
    mkdirSync(join(base, name));
    writeFileSync(join(base, name, "nodes.json"), list(target));
  }
  symlinkSync("..1", join(base, "..data"));
  symlinkSync("..data/nodes.json", join(base, "nodes.json"));
  const running = watching(t, [join(base, "nodes.json")]);
  await running.until("it is read", ({ found }) => found !== null);
  symlinkSync("..2", join(base, "..data_tmp"));
  renameSync(join(base, "..data_tmp"), join(base, "..data"));
  await running.until("the swap is seen", ({ found }) => found?.targets[0]?.host === "10.0.0.2");
});

test("a file that is half written, emptied or gone keeps its list, says so, and counts again once it is whole", async (t) => {
  const path = join(folder(t), "nodes.json");
  writeFileSync(path, list("10.0.0.1:1", "10.0.0.2:1"));
  const running = watching(t, [path], 500);
  await running.until("it is read", ({ found }) => found !== null);
  const keeps = async (what: string, pattern: RegExp) => {
    const { error } = await running.until(what, (look) => pattern.test(look.error ?? ""));
    assert.ok(error?.startsWith(path));
    assert.deepEqual(running.keys(), ["10.0.0.1:1", "10.0.0.2:1"]);
  };
  writeFileSync(path, list("10.0.0.1:1", "10.0.0.2:1").slice(0, 20));
  await keeps("half of it is refused", /no valid JSON, or only the first part/);
  unlinkSync(path);
  await keeps("its absence is told", /the file is not there$/);
  writeFileSync(path, "");
  truncateSync(path, 0);
  await keeps("the empty file is refused", /no valid JSON/);
  writeFileSync(path, "x".repeat(17 * 2 ** 20));
  await keeps("a huge file is not read", /it has 17825792 bytes, at most 16777216 are read/);
  writeFileSync(path, "[]");
  await running.until("an empty list is a list", ({ found, error }) => error === null && found?.targets.length === 0);
});

test("a file that can't be read at the start is no list, and is read when it comes", async (t) => {
  const path = join(folder(t), "later", "nodes.json");
  const running = watching(t, [path], 300);
  const { found, error } = await running.until("it looked", () => true);
  assert.equal(found, null);
  assert.equal(error, `${path}: the file is not there`);
  mkdirSync(join(path, ".."));
  writeFileSync(path, list("10.0.0.1:1"));
  await running.until("it is read", (look) => look.found !== null && look.error === null);
});

test("of several files a bad one keeps its own list, and the others change", async (t) => {
  const base = folder(t);
  writeFileSync(join(base, "a.json"), list("10.0.0.1:1"));
  writeFileSync(join(base, "b.yml"), "- targets: ['10.0.0.2:1']\n");
  writeFileSync(join(base, "c.txt"), "no list");
  const running = watching(t, [join(base, "*.json"), join(base, "?.yml")]);
  await running.until("both are read", ({ found }) => found?.targets.length === 2);
  writeFileSync(join(base, "a.json"), "{");
  await running.until("the bad one is told", ({ error }) => error !== null);
  writeFileSync(join(base, "b.yml"), "- targets: ['10.0.0.3:1']\n");
  await running.until(
    "the good one changes",
    ({ found }) => found?.targets.some(({ host }) => host === "10.0.0.3") === true,
  );
  assert.deepEqual(running.keys(), ["10.0.0.1:1", "10.0.0.3:1"]);
});

test("a file that goes takes its list along while others match its pattern; when none does, the last list stays", async (t) => {
  const base = folder(t);
  writeFileSync(join(base, "a.json"), list("10.0.0.1:1"));
  writeFileSync(join(base, "b.json"), list("10.0.0.2:1"));
  const running = watching(t, [join(base, "*.json")]);
  await running.until("both are read", ({ found }) => found?.targets.length === 2);
  unlinkSync(join(base, "a.json"));
  await running.until("one went", ({ found }) => found?.targets.length === 1);
  unlinkSync(join(base, "b.json"));
  const { error } = await running.until("the last one went", (look) => look.error !== null);
  assert.match(error ?? "", /no file has such a name; an empty list is a file with \[\]/);
  assert.deepEqual(running.keys(), ["10.0.0.2:1"]);
  rmSync(base, { recursive: true });
  await running.until("the folder went", (look) => look.error?.includes("the folder is not there") === true);
  assert.deepEqual(running.keys(), ["10.0.0.2:1"]);
});

test("a change that no watch tells of is seen at refresh_ms", async (t) => {
  const base = folder(t);
  const elsewhere = folder(t);
  writeFileSync(join(elsewhere, "nodes.json"), list("10.0.0.1:1"));
  symlinkSync(join(elsewhere, "nodes.json"), join(base, "nodes.json"));
  // nothing happens in the folder that is watched
  const running = watching(t, [join(base, "nodes.json")], 200);
  await running.until("it is read", ({ found }) => found !== null);
  writeFileSync(join(elsewhere, "nodes.json"), list("10.0.0.2:1"));
  await running.until("the change is seen", ({ found }) => found?.targets[0]?.host === "10.0.0.2");
});

test("however often it changes, a folder has one watch, and none after the end", async (t) => {
  const path = join(folder(t), "nodes.json");
  const open = countWatches(t);
  writeFileSync(path, list("10.0.0.0:1"));
  utimesSync(path, 1, 0);
  const running = watching(t, [path]);
  for (let index = 1; index <= 5; index++) {
    writeFileSync(path, list(`10.0.0.${index}:1`));
    // old, so that it is taken at once and no look runs when the next change comes
    utimesSync(path, 1, index);
    await running.until("the change is seen", ({ found }) => found?.targets[0]?.host === `10.0.0.${index}`);
  }
  assert.ok(open.size <= 1, `${open.size} watches`);
  await running.stop();
  assert.equal(open.size, 0);
});

test("a pipe in place of a file holds nothing up", async (t) => {
  const path = join(folder(t), "nodes.json");
  const made = spawnSync(MAKE_PIPE, [path]);
  if (made.status !== 0) {
    t.skip("this system has no mkfifo");
    return;
  }
  const { found, error } = await watching(t, [path]).until("it looked", () => true);
  assert.equal(found, null);
  assert.equal(error, `${path}: it is no file`);
});

test("a file that says to come from the future is read all the same", async (t) => {
  const path = join(folder(t), "nodes.json");
  writeFileSync(path, list("10.0.0.1:1"));
  const later = new Date(Date.now() + 86_400_000);
  utimesSync(path, later, later);
  const running = watching(t, [path]);
  await running.until("it is read", ({ found }) => found !== null);
});
