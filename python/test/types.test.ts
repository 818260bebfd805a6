/** The SDK's types, from its oldest to its newest Python. */
import { join } from "node:path";
import { test } from "node:test";
import { CONFIG, SOURCE, setUp, succeed, TESTS } from "./python-run.ts";

const setting = setUp();
const typedUse = join(TESTS, "typed_use.py");

// mypy 2 knows no 3.9
for (const version of ["3.10", "3.14"]) {
  test(`python: mypy finds nothing in strict mode for ${version}`, async () => {
    const { python, mypyCache } = setting.environment;
    const flags = ["--config-file", CONFIG, "--cache-dir", mypyCache, "--python-version", version];
    await succeed(python, ["-m", "mypy", ...flags, SOURCE, typedUse]);
  });
}

for (const version of ["3.9", "3.14"]) {
  test(`python: pyright finds nothing in strict mode for ${version}`, async () => {
    const { python, pyright } = setting.environment;
    await succeed(process.execPath, [pyright, "-p", CONFIG, "--pythonpath", python, "--pythonversion", version]);
  });
}
