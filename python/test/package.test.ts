/** The SDK as it is published: the wheel in an empty virtual environment, and what importing it costs. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { FOLDER, main, SOURCE, setUp, succeed, TESTS } from "./python-run.ts";
import { startGateway } from "./real-gateway.ts";

const setting = await setUp();

test("python: the wheel works in an empty virtual environment, and brings its types", async (t) => {
  const { python, wheels, mypyCache } = setting.environment;
  const folder = mkdtempSync(join(setting.scratch, "wheel-"));
  await succeed(python, ["-m", "hatchling", "build", "-d", folder]);
  assert.deepEqual(readdirSync(folder).sort(), ["zml-0.1.0-py3-none-any.whl", "zml-0.1.0.tar.gz"]);

  const there = join(folder, "empty", "bin", "python");
  await succeed(main.path, ["-m", "venv", "--without-pip", join(folder, "empty")]);
  const install = ["-m", "pip", "--python", there, "install", "--quiet", "--disable-pip-version-check"];
  const wheel = join(folder, "zml-0.1.0-py3-none-any.whl");
  await succeed(python, [...install, "--no-index", `--find-links=${wheels}`, wheel]);

  const use = `
import zml
messages = [{"role": "user", "content": "hello"}]
with zml.ZML() as client:
    answer = client.infer("llama-3-8b", messages, max_tokens=4)
    with client.infer("llama-3-8b", messages, stream=True, max_tokens=4) as stream:
        print(zml.__version__, answer.routing.family, stream.routing.family, "".join(chunk.text for chunk in stream))
`;
  const gateway = await startGateway(t);
  const printed = await succeed(there, ["-W", "error", "-c", use], {
    ZML_BASE_URL: gateway["ZML_TEST_BASE_URL"] ?? "",
    ZML_API_KEY: gateway["ZML_TEST_API_KEY"] ?? "",
  });
  assert.match(printed, /^0\.1\.0 (H100|MI300X) (H100|MI300X) \w/);

  const mypy = ["-m", "mypy", "--strict", "--cache-dir", mypyCache, "--python-executable", there];
  await succeed(python, [...mypy, join(TESTS, "typed_use.py")], {}, folder);
  const typo = ["-c", 'import zml; zml.ZML().infer("m", []).chioces'];
  await assert.rejects(succeed(python, [...mypy, ...typo], {}, folder), /has no attribute "chioces"/);
});

test("python: importing it costs at most 1.3 times what httpx costs", async () => {
  const cost = async (module: string): Promise<number> => {
    const code = `import time; start = time.process_time(); import ${module}; print(time.process_time() - start)`;
    return Number(await succeed(setting.environment.python, ["-c", code], { PYTHONPATH: SOURCE }, FOLDER));
  };
  await cost("zml"); // writes the byte code
  const httpx: number[] = [];
  const zml: number[] = [];
  for (let round = 0; round < 7; round += 1) {
    httpx.push(await cost("httpx"));
    zml.push(await cost("zml"));
  }
  const ratio = Math.min(...zml) / Math.min(...httpx);
  assert.ok(ratio <= 1.3, `it costs ${ratio.toFixed(2)} times as much`);
});
