/**
 * Runs of Python for the tests of the SDK. They are split into files since the test runner gives each file two minutes.
 * `ZML_TEST_PYTEST="-k close" npm test -- python/test/main` filters the tests of pytest.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
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

/** What a file's tests run with. */
export interface Setting {
  readonly environment: Environment;
  /** A folder that goes with the file. */
  readonly scratch: string;
}

/** Installs what is missing; before any test, as that may take as long as a test may. */
export async function setUp(): Promise<Setting> {
  const environment = await makeEnvironment(main, (line) => process.stderr.write(`${line}\n`));
  const scratch = mkdtempSync(join(tmpdir(), "zml-python-"));
  after(() => rmSync(scratch, { recursive: true, force: true }));
  return { environment, scratch };
}

/** Made once for all runs of a file: importing what makes them takes longer than most tests. */
let certificates: Promise<unknown> | undefined;

/** Tests of pytest must pass. `path`: folders to import from, beside the SDK's source. */
export async function pass(
  { environment, scratch }: Setting,
  python: string,
  path: readonly string[],
  tests: readonly string[],
  stated: Readonly<Record<string, string>> = {},
): Promise<void> {
  certificates ??= succeed(environment.python, [join(TESTS, "make_certificates.py"), scratch]);
  await certificates;
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
