import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

/** Modules of Node that a process of its own has loaded after these imports. */
function loadedBy(...files: readonly string[]): string[] {
  const urls = files.map((file) => new URL(file, import.meta.url).href);
  const script = `for (const url of ${JSON.stringify(urls)}) await import(url);
    console.log(process.moduleLoadList.join("\\n"));`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 60_000,
  });
  assert.equal(status, 0, stderr);
  return stdout.split("\n");
}

for (const [thread, file] of [
  ["control thread", "./commands/serve.ts"],
  ["worker", "./data-server.ts"],
] as const) {
  test(`what the ${thread} is made of loads neither undici nor node:http2`, () => {
    const loaded = loadedBy(file);
    assert.ok(loaded.includes("NativeModule http"), "the list names modules otherwise by now");
    const heavy = loaded.filter((name) => /undici|NativeModule http2$/.test(name));
    assert.deepEqual(heavy, []);
  });
}
