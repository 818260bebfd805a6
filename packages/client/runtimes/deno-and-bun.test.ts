/**
 * The installed package in Deno and Bun. Not part of `npm test`, since it fetches 200 MB from the registry:
 * `node --test packages/client/runtimes/deno-and-bun.test.ts`. Their packages are plain files, so no install script runs.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { installClient, runIn } from "../../../scripts/install-package.ts";
import { startFakeGateway, USED } from "../test/fake-gateway.ts";

const isArm = process.arch === "arm64";
const runtimes = [
  {
    name: isArm ? "@deno/linux-arm64-glibc" : "@deno/linux-x64-glibc",
    version: "2.9.6",
    program: "deno",
    // no right to read the environment: the client does without
    runs: [
      ["run", "--allow-net", "--no-prompt", "--check"],
      ["run", "--allow-net", "--allow-env", "--no-prompt", "--no-check"],
    ],
  },
  {
    name: isArm ? "@oven/bun-linux-aarch64" : "@oven/bun-linux-x64-baseline",
    version: "1.4.4",
    program: join("bin", "bun"),
    runs: [["run"]],
  },
];

let project = "";

before(() => {
  project = realpathSync(mkdtempSync(join(tmpdir(), "zml-runtimes-")));
  const { manifest } = installClient(project);
  assert.equal(manifest.name, "@zml/client");
  const wanted = runtimes.map(({ name, version }) => `${name}@${version}`);
  runIn(project, "npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...wanted]);
  copyFileSync(join(import.meta.dirname, "..", "test", "consumer.ts"), join(project, "consumer.ts"));
  const argument = "(globalThis as unknown as { process: { argv: string[] } }).process.argv[2]";
  writeFileSync(
    join(project, "main.ts"),
    `import { use } from "./consumer.ts";\nconsole.log(await use(${argument} ?? ""));\n`,
  );
});
after(() => rmSync(project, { recursive: true, force: true }));

for (const { name, version, program, runs } of runtimes) {
  for (const flags of runs) {
    test(`it runs in ${name} ${version} with ${flags.join(" ")}`, async (t) => {
      const gateway = await startFakeGateway();
      t.after(() => gateway.stop());
      const path = join(project, "node_modules", name, program);
      chmodSync(path, 0o755);
      const { stdout } = await promisify(execFile)(path, [...flags, "main.ts", gateway.url], {
        cwd: project,
        timeout: 60_000,
      });
      assert.equal(stdout.trim(), USED);
      assert.match(gateway.calls.at(-1)?.headers["user-agent"] ?? "", /^zml-js\//);
    });
  }
}
