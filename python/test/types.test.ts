/** The SDK's types, for its oldest and its newest Python; pyright takes longest and runs once. */
import { join } from "node:path";
import { test } from "node:test";
import { CONFIG, SOURCE, setUp, succeed, TESTS } from "./python-run.ts";

const setting = await setUp();
const typedUse = join(TESTS, "typed_use.py");

// mypy 2 knows no 3.9
for (const version of ["3.10", "3.14"]) {
  test(`python: mypy finds nothing in strict mode for ${version}`, async () => {
    const { python, mypyCache } = setting.environment;
    const flags = ["--config-file", CONFIG, "--cache-dir", mypyCache, "--python-version", version];
    await succeed(python, ["-m", "mypy", ...flags, SOURCE, typedUse]);
  });
}

test("python: pyright finds nothing in strict mode for 3.9", async () => {
  const { python, pyright } = setting.environment;
  await succeed(process.execPath, [pyright, "-p", CONFIG, "--pythonpath", python, "--pythonversion", "3.9"]);
});
