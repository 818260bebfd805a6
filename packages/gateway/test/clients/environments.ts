/** Installs what other people's clients need into the clone's cache folder, once for each content of `pins/`. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { findInterpreters, mainOf, variables } from "../../../../python/test/environment.ts";
import { makeOnce } from "../../../simulator/real/make-once.ts";
import type { Installed, Setting } from "./programs.ts";

export const PINS = join(import.meta.dirname, "pins");
const cache = join(import.meta.dirname, "..", "..", "..", "..", ".cache", "clients");

/** Takes a minute on two cores (600 MB on disk); the rest is for a slow network. */
const INSTALL_DEADLINE_MS = 600_000;

const REQUIREMENTS: readonly (readonly [Setting, string])[] = [
  ["python", "requirements.txt"],
  ["python-llama-index", "requirements-llama-index.txt"],
  ["python-instructor", "requirements-instructor.txt"],
];

/** Installs what is missing. @throws Error that says which step failed, or what is not there */
export async function install(log: (line: string) => void): Promise<Installed> {
  const main = await mainOf(await findInterpreters());
  if (main === undefined) {
    throw new Error("Python 3.11 or newer with venv is missing (Debian, Ubuntu: apt install python3 python3-venv)");
  }
  const npm = await once("npm", ["package.json", "package-lock.json"], log, async (made, run) => {
    for (const name of ["package.json", "package-lock.json"]) copyFileSync(join(PINS, name), join(made, name));
    await run("npm", ["ci", "--prefix", made, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
  });
  const python = new Map<Setting, string>();
  // one after the other: they share the download cache
  for (const [setting, requirements] of REQUIREMENTS) {
    const made = await once(`${setting}-3.${main.minor}`, [requirements], log, async (folder, run) => {
      await run(main.path, ["-m", "venv", folder]);
      const quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"];
      const pip = ["-m", "pip", "install", ...quiet, "--no-compile", "--no-deps"];
      await run(join(folder, "bin", "python"), [...pip, "-r", join(PINS, requirements)]);
    });
    python.set(setting, join(made, "bin", "python"));
  }
  return { npm, python };
}

type Run = (command: string, args: readonly string[]) => Promise<void>;

async function once(
  name: string,
  files: readonly string[],
  log: (line: string) => void,
  fill: (folder: string, run: Run) => Promise<void>,
): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(join(PINS, file)));
  const directory = join(cache, `${name}-${hash.digest("hex").slice(0, 12)}`);
  await makeOnce({
    directory,
    deadlineMs: INSTALL_DEADLINE_MS,
    onWait: (pid) => log(`clients: waiting for process ${pid}, which is installing ${name}`),
    make: async (staging, signal) => {
      log(`clients: installing ${name} (once) into ${directory}`);
      const made = join(staging, "made");
      mkdirSync(made);
      await fill(made, async (command, args) => {
        try {
          await promisify(execFile)(command, args, { signal, killSignal: "SIGKILL", env: variables({}) });
        } catch (error) {
          const output = error instanceof Error ? String(Reflect.get(error, "stderr") ?? "").trim() : "";
          const what = output.split("\n").at(-1) || (error instanceof Error ? error.message : String(error));
          throw new Error(`clients: installing ${name} failed: ${what}`, { cause: error });
        }
      });
      return made;
    },
  });
  return directory;
}
