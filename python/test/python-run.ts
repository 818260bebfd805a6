/**
 * Runs of Python for the tests of the SDK. They are split into files since the test runner gives each file two minutes.
 * `ZML_TEST_PYTEST="-k close" npm test -- python/test/main` filters the tests of pytest.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, after as onEnd, type TestContext } from "node:test";
import { fakeNode, PORTS, startOn } from "../../packages/gateway/test/control-fixture.ts";
import {
  type Environment,
  findInterpreters,
  type Interpreter,
  mainOf,
  makeEnvironment,
  variables,
} from "./environment.ts";

export const FOLDER = join(import.meta.dirname, "..");
export const SOURCE = join(FOLDER, "src");
export const TESTS = join(FOLDER, "tests");
export const CONFIG = join(FOLDER, "pyproject.toml");

const API_KEY = "sk-of-the-application";
const ADMIN_KEY = "sk-of-the-operator";
/** A run takes 15 s on an idle machine; a hang ends before the deadline of the test runner. */
const RUN_DEADLINE_MS = 100_000;

const found = await findInterpreters();
const chosen = await mainOf(found);
if (chosen === undefined) {
  throw new Error(
    "the tests of the Python SDK need Python 3.11 or newer with venv (Debian, Ubuntu: apt install python3 python3-venv)",
  );
}
/** The interpreter that runs everything. */
export const main: Interpreter = chosen;
/** The others from 3.9 on that are installed. */
export const others: readonly Interpreter[] = found.filter((one) => one !== chosen);

/** What a file's tests run with; installed before the first of them. */
export interface Setting {
  readonly environment: Environment;
  /** A folder that goes with the file. */
  readonly scratch: string;
}

/** Sets up a file of tests. */
export function setUp(): Setting {
  const scratch = mkdtempSync(join(tmpdir(), "zml-python-"));
  let environment: Environment | undefined;
  before(async () => {
    environment = await makeEnvironment(main, (line) => process.stderr.write(`${line}\n`));
  });
  onEnd(() => rmSync(scratch, { recursive: true, force: true }));
  return {
    get environment() {
      return environment ?? assert.fail("it is installed before the first test");
    },
    scratch,
  };
}

/** Tests of pytest must pass. `path`: folders to import from, beside the SDK's source. */
export async function pass(
  { environment, scratch }: Setting,
  python: string,
  path: readonly string[],
  tests: readonly string[],
  stated: Readonly<Record<string, string>> = {},
): Promise<void> {
  await succeed(environment.python, [join(TESTS, "make_certificates.py"), scratch]);
  const filter = (process.env["ZML_TEST_PYTEST"] ?? "").split(" ").filter((flag) => flag !== "");
  const flags = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", FOLDER, "-c", CONFIG];
  const settings = { PYTHONPATH: [SOURCE, ...path].join(":"), ZML_TEST_CERTIFICATES: scratch, ...stated };
  await succeed(python, [...flags, ...filter, ...tests], settings);
}

/** Runs a program to its end; fails with what it printed unless it exits with 0. */
export async function succeed(
  command: string,
  args: readonly string[],
  stated: Readonly<Record<string, string>> = {},
  cwd = FOLDER,
): Promise<string> {
  const { code, output } = await run(command, args, stated, cwd);
  assert.equal(code, 0, `${args.join(" ")}\n${output}`);
  return output;
}

/** A gateway with a fake node of each of two families, and a slow one; goes with the test. */
export async function startGateway(t: TestContext): Promise<Record<string, string>> {
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

function run(
  command: string,
  args: readonly string[],
  stated: Readonly<Record<string, string>>,
  cwd: string,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const limits = { timeout: RUN_DEADLINE_MS, killSignal: "SIGKILL" } as const;
    const child = spawn(command, args, { cwd, env: variables(stated), stdio: ["ignore", "pipe", "pipe"], ...limits });
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
