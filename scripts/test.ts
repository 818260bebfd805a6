// `npm test [-- FILTER… | --flag…]`: the static checks, then node --test. A filter is a part of a path; flags go to node.
// Whatever happens before, the last lines are the totals of node --test.
import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { run, summarize } from "./checks.ts";
import { MarkedProcesses } from "./marked-processes.ts";
import { TotalsLast } from "./totals-last.ts";

const root = join(import.meta.dirname, "..");

const testFiles = [
  "packages/*/src/**/*.test.ts",
  "packages/*/test/**/*.test.ts",
  "packages/*/real/**/*.test.ts",
  "bench/**/*.test.ts",
  "scripts/**/*.test.{ts,mjs}",
  "python/test/**/*.test.ts",
];

// The longest test starts real serving engines, about half a minute on two cores; a hang ends long before this.
const defaultTestTimeoutMs = 120_000;

const args = process.argv.slice(2);
const nodeFlags = args.filter((arg) => arg.startsWith("-"));
const timeoutFlag = nodeFlags.find((flag) => flag.startsWith("--test-timeout="));
const testTimeoutMs = timeoutFlag === undefined ? defaultTestTimeoutMs : Number(timeoutFlag.split("=")[1]);
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

// Every process that descends from this run carries the mark.
const markName = "ZML_TEST_RUN";
const markValue = `${process.pid}-${Date.now()}`;
const nodeArgs = ["--test", "--test-concurrency=2", `--test-timeout=${testTimeoutMs}`, "--test-reporter=spec"];
const child = spawn(process.execPath, [...nodeArgs, ...nodeFlags, ...files], {
  cwd: root,
  stdio: ["inherit", "pipe", "inherit"],
  env: { ...process.env, [markName]: markValue },
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));

const started = new MarkedProcesses(`${markName}=${markValue}`);
const strays: string[] = [];
const stopWatching = started.watch({
  exceptPid: child.pid ?? -1,
  // Later than the deadline of a test, so that the report names the test and not only the file.
  limitMs: testTimeoutMs * 1.5,
  onKill: (line) => strays.push(`✖ did not end in time, killed: ${line}`),
});

const output = new TotalsLast((text) => process.stdout.write(text));
child.stdout.setEncoding("utf8").on("data", (text: string) => output.write(text));
const outputEnded = new Promise((resolve) => child.stdout.on("close", resolve));
// "exit", not "close": what a test left behind may hold the pipe open until it is killed.
const code = await new Promise<number>((resolve) => child.on("exit", (exitCode) => resolve(exitCode ?? 1)));
stopWatching();
strays.push(...started.killAll().map((line) => `✖ left running by a test, killed: ${line}`));
await outputEnded;

output.end([...strays, ...failedChecks.map((name) => `✖ check failed: ${name} (details at the top)`)]);
process.exitCode = code !== 0 || failedChecks.length > 0 || strays.length > 0 ? 1 : 0;
