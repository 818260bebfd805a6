import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { test } from "node:test";

const gateway = join(import.meta.dirname, "..");
const root = join(gateway, "..", "..");

// npm and npx start with `#!/usr/bin/env node`: the Node that runs this test comes first.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter) };

function npm(command: "npm" | "npx", args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

test("an empty project installs the packed gateway and runs zml from it", (t) => {
  const project = mkdtempSync(join(tmpdir(), "zml-pack-"));
  t.after(() => rmSync(project, { recursive: true, force: true }));
  const packed = JSON.parse(npm("npm", ["pack", "--json", "--pack-destination", project], gateway)) as unknown;
  const [entry] = Array.isArray(packed) ? packed : Object.values(packed as object);
  const { filename, files } = entry as { filename: string; files: { path: string }[] };

  const paths = files.map((file) => file.path);
  for (const path of ["LICENSE", "package.json", "bin/zml.mjs", "dist/main.js"]) assert.ok(paths.includes(path), path);
  assert.deepEqual(
    paths.filter((path) => path.endsWith(".ts")),
    [],
    "Node strips no types below node_modules",
  );

  writeFileSync(join(project, "package.json"), '{ "name": "empty", "private": true }\n');
  npm("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(project, filename)], project);
  const installed = JSON.parse(readFileSync(join(project, "node_modules", "zml", "package.json"), "utf8")) as {
    version: string;
    dependencies: Record<string, string>;
  };
  const workspaceOnly = Object.keys(installed.dependencies).filter((name) => name.startsWith("@zml/"));
  assert.deepEqual(workspaceOnly, []);
  assert.equal(npm("npx", ["--no-install", "zml", "--version"], project).trim(), installed.version);
});

test("the package carries the licence of the repository", () => {
  assert.equal(readFileSync(join(gateway, "LICENSE"), "utf8"), readFileSync(join(root, "LICENSE"), "utf8"));
});
