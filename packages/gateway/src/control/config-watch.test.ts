import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FileWatches } from "./config-watch.ts";
import { SILENT_LOG } from "./gateway-log.ts";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zml-watch-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** Watches a file; `looked` resolves when it was looked at that often. */
function watching(t: TestContext, path: string): { looks: boolean[]; looked: (count: number) => Promise<void> } {
  const looks: boolean[] = [];
  let wake = (): void => undefined;
  const looked = async (count: number): Promise<void> => {
    while (looks.length < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  const watches = new FileWatches(async (isFirst) => {
    looks.push(isFirst);
    wake();
  }, SILENT_LOG);
  t.after(() => watches.end());
  watches.follow([path]);
  return { looks, looked };
}

test("a change of a watched file is told from the first look at it, which finds what was read at the start", async (t) => {
  const folder = folderOf(t);
  const path = join(folder, "zml.yaml");
  writeFileSync(path, "nodes: []\n");
  const { looks, looked } = watching(t, path);
  await looked(1);
  // as editors do
  writeFileSync(join(folder, "next.yaml"), "nodes: []\npolicies: []\n");
  renameSync(join(folder, "next.yaml"), path);
  await looked(2);
  assert.deepEqual(looks, [true, false]);
});

/** A mounted ConfigMap: the file is a link into `..data`, which is a link to the folder of one version. */
function mount(folder: string, version: string, text: string): void {
  mkdirSync(join(folder, version));
  writeFileSync(join(folder, version, "zml.yaml"), text);
  symlinkSync(version, join(folder, "..next"));
  renameSync(join(folder, "..next"), join(folder, "..data"));
}

test("the swap of a link as Kubernetes does it is seen, each time", async (t) => {
  const folder = folderOf(t);
  mount(folder, "..1", "nodes: []\n");
  symlinkSync(join("..data", "zml.yaml"), join(folder, "zml.yaml"));
  const { looked } = watching(t, join(folder, "zml.yaml"));
  await looked(1);
  mount(folder, "..2", "policies: []\n");
  rmSync(join(folder, "..1"), { recursive: true });
  await looked(2);
  mount(folder, "..3", "models: []\n");
  await looked(3);
});

test("a file that a link elsewhere leads to is seen to change, and so is the link", async (t) => {
  const [folder, elsewhere] = [folderOf(t), folderOf(t)];
  mount(elsewhere, "..1", "nodes: []\n");
  symlinkSync(join(elsewhere, "..data", "zml.yaml"), join(folder, "zml.yaml"));
  const { looked } = watching(t, join(folder, "zml.yaml"));
  await looked(1);
  writeFileSync(join(elsewhere, "..1", "zml.yaml"), "policies: [{ name: p }]\n");
  await looked(2);
  mount(elsewhere, "..2", "models: []\n");
  await looked(3);
  const other = folderOf(t);
  writeFileSync(join(other, "other.yaml"), "accounts: []\n");
  symlinkSync(join(other, "other.yaml"), join(folder, "next"));
  renameSync(join(folder, "next"), join(folder, "zml.yaml"));
  await looked(4);
  writeFileSync(join(other, "other.yaml"), "accounts: [{ name: team }]\n");
  await looked(5);
});
