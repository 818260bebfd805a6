// `npm test [-- FILTER… | --flag…]`: the static checks, then node --test. A filter is a part of a path; flags go to node.
// Whatever happens before, the last lines are the totals of node --test.
import { spawn } from "node:child_process";
import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { run, summarize } from "./checks.ts";
import { TotalsLast } from "./totals-last.ts";

const root = join(import.meta.dirname, "..");

const testFiles = [
  "packages/*/src/**/*.test.ts",
  "packages/*/test/**/*.test.ts",
  "packages/*/real/**/*.test.ts",
  "bench/**/*.test.ts",
  "scripts/**/*.test.{ts,mjs}",
];

// The longest file starts real serving engines, about half a minute on two cores; a hang ends long before this.
const timeoutMs = 180_000;

const args = process.argv.slice(2);
const nodeFlags = args.filter((arg) => arg.startsWith("-"));
const filters = args.filter((arg) => !arg.startsWith("-")).map((arg) => arg.replace(/^\.\//, ""));

const files = globSync(testFiles, { cwd: root, exclude: (path) => path.includes("node_modules") })
  .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter)))
  .sort();
if (files.length === 0) {
  process.stderr.write(`zml: no test file matches ${filters.join(" ")}; a filter is a part of a path\n`);
  process.exit(1);
}

let failedChecks: string[] = [];
if (filters.length === 0) {
  const results = await run();
  process.stdout.write(`${summarize(results)}\n`);
  failedChecks = results.filter((result) => result.code !== 0).map((result) => result.name);
} else {
  process.stdout.write("a filtered run leaves out the static checks (npm run check)\n\n");
}

// Every process that descends from this run carries the mark, so that what a test leaves behind can be found.
const runMark = `ZML_TEST_RUN=${process.pid}-${Date.now()}`;
const [markName = "", markValue = ""] = runMark.split("=");
const child = spawn(
  process.execPath,
  ["--test", "--test-concurrency=2", `--test-timeout=${timeoutMs}`, "--test-reporter=spec", ...nodeFlags, ...files],
  {
    cwd: root,
    stdio: ["inherit", "pipe", "inherit"],
    env: { ...process.env, [markName]: markValue, ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}) },
  },
);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));

const output = new TotalsLast((text) => process.stdout.write(text));
child.stdout.setEncoding("utf8").on("data", (text: string) => output.write(text));
// "exit", not "close": a process that a test left behind may hold the pipe open for ever.
const code = await new Promise<number>((resolve) => child.on("exit", (exitCode) => resolve(exitCode ?? 1)));
const leftBehind = killLeftBehind();
if (!child.stdout.readableEnded) await new Promise((resolve) => child.stdout.on("close", resolve));

output.end([
  ...leftBehind.map((line) => `✖ left running by a test, killed: ${line}`),
  ...failedChecks.map((name) => `✖ check failed: ${name} (details at the top)`),
]);
process.exitCode = code !== 0 || failedChecks.length > 0 || leftBehind.length > 0 ? 1 : 0;

/** Kills what carries this run's mark and is still alive; says what it was. Finds nothing where there is no /proc. */
function killLeftBehind(): string[] {
  const lines: string[] = [];
  let pids: string[] = [];
  try {
    pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  } catch {
    return lines;
  }
  for (const pid of pids) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(runMark)) continue;
      lines.push(`${pid} ${readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim()}`);
      process.kill(Number(pid), "SIGKILL");
    } catch {
      // Another user's process, or one that ended meanwhile.
    }
  }
  return lines;
}
