/**
 * What the Python tests run with, installed once into the clone's cache folder; nothing outside the clone changes.
 * Interpreters are those that are there: `python3`, `python3.9` … of the path, and pyenv's.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeOnce } from "../../packages/simulator/real/make-once.ts";

const root = join(import.meta.dirname, "..", "..");
const cache = join(root, ".cache", "python");

/** Installing takes half a minute on two cores; the rest is for a slow network. */
const INSTALL_DEADLINE_MS = 110_000;

const PYRIGHT_VERSION = "1.1.414";
/** Where openai 3, mypy 2 and the others of requirements.txt run. */
const LEAST_MINOR = 11;
const OLDEST_MINOR = 9;

export interface Interpreter {
  readonly path: string;
  /** 9 for Python 3.9. */
  readonly minor: number;
}

/** One interpreter for each minor version from 3.9 on, oldest first; of several that on the path. */
export async function findInterpreters(): Promise<Interpreter[]> {
  const names = ["python3", ...Array.from({ length: 12 }, (_, index) => `python3.${OLDEST_MINOR + index}`)];
  const versions = join(process.env["PYENV_ROOT"] ?? join(homedir(), ".pyenv"), "versions");
  const kept = existsSync(versions) ? readdirSync(versions).map((name) => join(versions, name, "bin", "python")) : [];
  const probe = "import sys, ssl; print(sys.implementation.name, *sys.version_info[:2], sys.executable)";
  const probed = await Promise.all(
    [...names, ...kept].map(async (path) => {
      // a shim of pyenv may stand for a version that is not chosen, and fails
      const { stdout } = await promisify(execFile)(path, ["-c", probe], { timeout: 20_000 }).catch(() => ({
        stdout: "",
      }));
      const [, major, minor, executable] = /^cpython (\d+) (\d+) (.+)$/m.exec(stdout) ?? [];
      return major === "3" && executable !== undefined ? { path: executable, minor: Number(minor) } : null;
    }),
  );
  const found = new Map<number, Interpreter>();
  for (const one of probed)
    if (one !== null && one.minor >= OLDEST_MINOR && !found.has(one.minor)) found.set(one.minor, one);
  return [...found.values()].sort((a, b) => a.minor - b.minor);
}

/** The one that runs everything: `python3` if it is new enough, else the newest; undefined when none is. */
export async function mainOf(interpreters: readonly Interpreter[]): Promise<Interpreter | undefined> {
  const print = "import sys; print(sys.executable)";
  const { stdout } = await promisify(execFile)("python3", ["-c", print]).catch(() => ({ stdout: "" }));
  const able = interpreters.filter(({ minor }) => minor >= LEAST_MINOR);
  return able.find(({ path }) => path === stdout.trim()) ?? able.at(-1);
}

export interface Environment {
  /** Interpreter of a virtual environment with requirements.txt. */
  readonly python: string;
  /** Folder for PYTHONPATH with requirements-oldest.txt. */
  readonly oldest: string;
  /** Folder for PYTHONPATH with requirements-openai-2.txt. */
  readonly openai2: string;
  /** Wheels of requirements-oldest.txt, to install from without a network. */
  readonly wheels: string;
  /** Script of pyright. */
  readonly pyright: string;
  readonly mypyCache: string;
}

/** Installs what is missing. Several processes may ask at the same time. @throws Error that says which step failed */
export async function makeEnvironment(
  { path: python, minor }: Interpreter,
  log: (line: string) => void,
): Promise<Environment> {
  mkdirSync(cache, { recursive: true });
  const venv = once(`venv-3.${minor}`, "requirements.txt", log, async (staging, requirements, run) => {
    await run(python, ["-m", "venv", join(staging, "made")]);
    await run(join(staging, "made", "bin", "python"), [...INSTALL, "-r", requirements]);
  });
  const pip = async (run: Run, args: readonly string[]) => run(join(await venv, "bin", "python"), args);
  const wheels = once("wheels", "requirements-oldest.txt", log, async (staging, requirements, run) => {
    const pure = ["--no-deps", "--only-binary=:all:", "--platform=any", "--abi=none", "--python-version=3.9"];
    const download = ["-m", "pip", "download", ...QUIET, ...pure];
    await pip(run, [...download, "-d", join(staging, "made"), "-r", requirements]);
  });
  const oldest = once("oldest", "requirements-oldest.txt", log, async (staging, requirements, run) => {
    const offline = ["--no-index", `--find-links=${await wheels}`, "--no-deps", "--target", join(staging, "made")];
    await pip(run, [...INSTALL, ...offline, "-r", requirements]);
  });
  const openai2 = once("openai-2", "requirements-openai-2.txt", log, async (staging, requirements, run) => {
    await pip(run, [...INSTALL, "--no-deps", "--target", join(staging, "made"), "-r", requirements]);
  });
  const pyright = once(`pyright-${PYRIGHT_VERSION}`, null, log, async (staging, _requirements, run) => {
    const flags = ["--no-save", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"];
    mkdirSync(join(staging, "made"));
    await run("npm", ["install", "--prefix", join(staging, "made"), ...flags, `pyright@${PYRIGHT_VERSION}`]);
  });
  await Promise.all([venv, wheels, oldest, openai2, pyright]);
  return {
    python: join(await venv, "bin", "python"),
    oldest: await oldest,
    openai2: await openai2,
    wheels: await wheels,
    pyright: join(await pyright, "node_modules", "pyright", "index.js"),
    mypyCache: join(cache, "mypy"),
  };
}

/** Environment variables of a run: of ours only what is stated, no byte code beside the sources. */
export function variables(stated: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(PYTHON|ZML_(?!TEST_RUN)|OPENAI_|VIRTUAL_ENV)/.test(name),
  );
  return { ...Object.fromEntries(kept), PYTHONPYCACHEPREFIX: join(cache, "byte-code"), ...stated };
}

const QUIET = ["--quiet", "--no-input", "--disable-pip-version-check"];
// byte code is written when something is first imported, into a folder of its own
const INSTALL = ["-m", "pip", "install", ...QUIET, "--no-compile", "--no-warn-script-location"];

type Run = (command: string, args: readonly string[]) => Promise<void>;

/** Makes `staging/made` once for each content of a file of requirements; returns where it is then. */
async function once(
  name: string,
  requirements: string | null,
  log: (line: string) => void,
  fill: (staging: string, requirements: string, run: Run) => Promise<void>,
): Promise<string> {
  const path = requirements === null ? "" : join(import.meta.dirname, requirements);
  const content = path === "" ? "" : readFileSync(path, "utf8");
  const directory = join(cache, `${name}-${createHash("sha256").update(content).digest("hex").slice(0, 12)}`);
  await makeOnce({
    directory,
    deadlineMs: INSTALL_DEADLINE_MS,
    onWait: (pid) => log(`python tests: waiting for process ${pid}, which is installing ${name}`),
    make: async (staging, signal) => {
      log(`python tests: installing ${name} (once) into ${directory}`);
      await fill(staging, path, async (command, args) => {
        try {
          await promisify(execFile)(command, args, { signal, killSignal: "SIGKILL", env: variables({}) });
        } catch (error) {
          const output = error instanceof Error ? String(Reflect.get(error, "stderr") ?? "").trim() : "";
          const what = output.split("\n").at(-1) || (error instanceof Error ? error.message : String(error));
          throw new Error(`python tests: installing ${name} failed: ${what}`, { cause: error });
        }
      });
      return join(staging, "made");
    },
  });
  return directory;
}
