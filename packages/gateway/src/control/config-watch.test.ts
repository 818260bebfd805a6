import assert from "node:assert/strict";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FileWatches } from "./config-watch.ts";
import { SILENT_LOG } from "./gateway-log.ts";

test("a change of a watched file is told from the first look at it, which finds what was read at the start", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-watch-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "zml.yaml");
  writeFileSync(path, "nodes: []\n");
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
  await looked(1);
  writeFileSync(join(folder, "next.yaml"), "nodes: []\npolicies: []\n");
  renameSync(join(folder, "next.yaml"), path);
  await looked(2);
  assert.deepEqual(looks, [true, false]);
});
