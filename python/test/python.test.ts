/**
 * The Python SDK: its own tests on every interpreter that is installed, its types under mypy and pyright, and its wheel
 * in an empty virtual environment. A filter for pytest: `ZML_TEST_PYTEST="-k close" npm test -- python`.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { fakeNode, PORTS, startOn } from "../../packages/gateway/test/control-fixture.ts";
import { ERRORS } from "../../packages/protocol/src/errors.ts";
import { type Environment, findInterpreters, mainOf, makeEnvironment, variables } from "./environment.ts";

const python = join(import.meta.dirname, "..");
const source = join(python, "src");
const tests = join(python, "tests");

const API_KEY = "sk-of-the-application";
const ADMIN_KEY = "sk-of-the-operator";
/** A run takes 20 s alone; a hang ends long before the deadline of the test runner. */
const RUN_DEADLINE_MS = 100_000;

const interpreters = await findInterpreters();
const main = await mainOf(interpreters);
const others = interpreters.filter((one) => one !== main);

test("there is a Python 3.11 or newer to test with", () => {
  assert.ok(
    main !== undefined,
    "install Python 3.11 or newer with venv (Debian, Ubuntu: apt install python3 python3-venv)",
  );
});

if (main !== undefined) {
  const scratch = mkdtempSync(join(tmpdir(), "zml-python-"));
  let environment: Environment;

  before(
    async () => {
      environment = await makeEnvironment(main, (line) => process.stderr.write(`${line}\n`));
      const made = await run(environment.python, [join(tests, "make_certificates.py"), scratch]);
      assert.equal(made.code, 0, made.output);
    },
    { timeout: 120_000 },
  );
  after(() => rmSync(scratch, { recursive: true, force: true }));

  const pytest = (command: string, path: string[], args: string[], stated: Record<string, string> = {}) =>
    run(
      command,
      [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        python,
        "-c",
        join(python, "pyproject.toml"),
        ...args,
      ],
      {
        PYTHONPATH: [source, ...path].join(":"),
        ZML_TEST_CERTIFICATES: scratch,
        ...stated,
      },
    );
  const chosen = (process.env["ZML_TEST_PYTEST"] ?? "").split(" ").filter((flag) => flag !== "");

  describe("python", { concurrency: 2 }, () => {
    test(`every test passes on Python 3.${main.minor}, with a real gateway`, async (t) => {
      const { code, output } = await pytest(environment.python, [], [...chosen, tests], await startGateway(t));
      assert.equal(code, 0, output);
    });

    for (const { path, minor } of others) {
      test(`the tests without a gateway pass on Python 3.${minor}`, async () => {
        const left = ["gateway", "readme", "openai"].flatMap((name) => ["--ignore", join(tests, `test_${name}.py`)]);
        const { code, output } = await pytest(path, [environment.oldest], [...chosen, ...left, tests]);
        assert.equal(code, 0, output);
      });
    }

    test("with_routing works with openai 2", async () => {
      const { code, output } = await pytest(environment.python, [environment.openai2], [join(tests, "test_openai.py")]);
      assert.equal(code, 0, output);
    });

    test("mypy finds nothing in strict mode", async () => {
      const flags = [
        "-m",
        "mypy",
        "--config-file",
        join(python, "pyproject.toml"),
        "--cache-dir",
        environment.mypyCache,
      ];
      for (const version of ["3.10", "3.14"]) {
        const args = [...flags, "--python-version", version, source, join(tests, "typed_use.py")];
        const { code, output } = await run(environment.python, args, { MYPYPATH: source });
        assert.equal(code, 0, output);
      }
    });

    test("pyright finds nothing in strict mode", async () => {
      const flags = [environment.pyright, "-p", join(python, "pyproject.toml"), "--pythonpath", environment.python];
      for (const version of ["3.9", "3.14"]) {
        const { code, output } = await run(process.execPath, [...flags, "--pythonversion", version]);
        assert.equal(code, 0, output);
      }
    });

    test("the wheel works in an empty virtual environment, and brings its types", async (t) => {
      const folder = mkdtempSync(join(scratch, "wheel-"));
      const succeed = async (command: string, args: string[], stated: Record<string, string> = {}) => {
        const { code, output } = await run(command, args, stated, folder);
        assert.equal(code, 0, output);
        return output;
      };
      const build = await run(environment.python, ["-m", "hatchling", "build", "-d", folder], {}, python);
      assert.equal(build.code, 0, build.output);
      const wheel = readdirSync(folder).find((file) => file === "zml-0.1.0-py3-none-any.whl");
      assert.ok(wheel !== undefined && readdirSync(folder).includes("zml-0.1.0.tar.gz"), readdirSync(folder).join(" "));
      const empty = join(folder, "empty");
      await succeed(main.path, ["-m", "venv", "--without-pip", empty]);
      const there = join(empty, "bin", "python");
      const offline = ["--no-index", `--find-links=${environment.wheels}`, join(folder, wheel)];
      await succeed(environment.python, [
        "-m",
        "pip",
        "--python",
        there,
        "install",
        "--quiet",
        "--disable-pip-version-check",
        ...offline,
      ]);
      const use = `
import zml
with zml.ZML() as client:
    answer = client.infer("llama-3-8b", [{"role": "user", "content": "hello"}], max_tokens=4)
    print(zml.__version__, answer.routing.family, "".join(c.text for c in client.infer("llama-3-8b", prompt="a", stream=True, max_tokens=4)))
`;
      const stated = await startGateway(t);
      const printed = await succeed(there, ["-W", "error", "-c", use], {
        ZML_BASE_URL: stated["ZML_TEST_BASE_URL"] ?? "",
        ZML_API_KEY: API_KEY,
      });
      assert.match(printed, /^0\.1\.0 (H100|MI300X) \w/);
      const typed = join(tests, "typed_use.py");
      const cacheDir = ["--cache-dir", environment.mypyCache];
      await succeed(environment.python, ["-m", "mypy", "--strict", ...cacheDir, "--python-executable", there, typed]);
    });

    test("an error event has the class that its code has as an answer, for every code", async () => {
      const rows = Object.entries(ERRORS).map(([code, { status, type }]) => ({ code, status, type }));
      const compare = `
import json, sys
from zml._failures import event_error, status_error
from zml._head import Head
for row in json.loads(sys.argv[1]):
    body = {"error": {"message": "m", "type": row["type"], "code": row["code"]}}
    as_event = event_error(body, Head(200, {}))
    as_answer = status_error(Head(row["status"], {}), json.dumps(body).encode(), 0)
    assert type(as_event) is type(as_answer), (row, as_event, as_answer)
`;
      const args = ["-c", compare, JSON.stringify(rows)];
      const { code, output } = await run(environment.python, args, { PYTHONPATH: source });
      assert.equal(code, 0, output);
    });

    test("importing it costs at most 1.3 times what httpx costs", async () => {
      const cost = async (module: string): Promise<number> => {
        const code = `import time; start = time.process_time(); import ${module}; print(time.process_time() - start)`;
        const { output } = await run(environment.python, ["-c", code], { PYTHONPATH: source });
        return Number(output);
      };
      await cost("zml"); // writes the byte code
      const httpx: number[] = [];
      const zml: number[] = [];
      for (let round = 0; round < 9; round += 1) {
        httpx.push(await cost("httpx"));
        zml.push(await cost("zml"));
      }
      const ratio = Math.min(...zml) / Math.min(...httpx);
      assert.ok(ratio <= 1.3, `it costs ${ratio.toFixed(2)} times as much`);
    });
  });
}

/** A gateway with a fake node of each of two families, and a slow one; goes with the test. */
async function startGateway(t: TestContext): Promise<Record<string, string>> {
  const model = "llama-3-8b";
  const [h100, mi300x, slow] = await Promise.all([
    fakeNode(t, { model }),
    fakeNode(t, { model, hardware: "MI300X-192GB/llama-3-8b/bf16/1" }),
    fakeNode(t, { model: "slow", speedUp: 1, outputTokens: 4000 }),
  ]);
  const { gateway } = await startOn(
    t,
    `${PORTS}keys:
  - { name: app, value_env: APP, scopes: [infer] }
  - { name: ops, value_env: OPS, scopes: [admin] }
nodes:
  - { id: h100, url: "${h100.url}", family: H100, engine: vllm }
  - { id: mi300x, url: "${mi300x.url}", family: MI300X, engine: vllm }
  - { id: slow, url: "${slow.url}", family: H100, engine: vllm }
policies:
  - { name: chat, cost_priority: balanced,
      accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 1 }] }
models:
  - { name: ${model}, policy: chat }
`,
    { env: { APP: API_KEY, OPS: ADMIN_KEY } },
  );
  return {
    ZML_TEST_BASE_URL: gateway.dataUrl,
    ZML_TEST_ADMIN_URL: gateway.adminUrl,
    ZML_TEST_API_KEY: API_KEY,
    ZML_TEST_ADMIN_KEY: ADMIN_KEY,
  };
}

/** Runs a program to its end. */
function run(
  command: string,
  args: readonly string[],
  stated: Readonly<Record<string, string>> = {},
  cwd = python,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: variables(stated),
      stdio: ["ignore", "pipe", "pipe"],
      timeout: RUN_DEADLINE_MS,
      killSignal: "SIGKILL",
    });
    let output = "";
    const keep = (text: string) => {
      output += text;
    };
    child.stdout.setEncoding("utf8").on("data", keep);
    child.stderr.setEncoding("utf8").on("data", keep);
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output }));
  });
}
