// The static checks and how their results read.
import { spawn } from "node:child_process";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const bin = join(root, "node_modules", ".bin");

const checks: readonly { name: string; command: readonly [string, ...string[]] }[] = [
  { name: "layers", command: [process.execPath, join("scripts", "check-layers.ts")] },
  { name: "biome", command: [join(bin, "biome"), "check", "--max-diagnostics=50"] },
  { name: "types", command: [join(bin, "tsc"), "-p", "tsconfig.json"] },
  { name: "types of the engine", command: [join(bin, "tsc"), "-p", join("packages", "engine")] },
  { name: "types of the dashboard", command: [join(bin, "tsc"), "-p", join("packages", "dashboard")] },
  { name: "types of the client", command: [join(bin, "tsc"), "-p", join("packages", "client")] },
  { name: "knip", command: [join(bin, "knip"), "--no-progress"] },
];

/** How one check ended: exit code (-1 if it could not start), duration in ms, and everything it printed. */
export interface CheckResult {
  readonly name: string;
  readonly code: number;
  readonly durationMs: number;
  readonly output: string;
}

/** Runs every check in parallel; never rejects. */
export function run(): Promise<CheckResult[]> {
  return Promise.all(checks.map(({ name, command }) => runOne(name, command)));
}

/** One line per check; the output of those that failed stands above the lines. */
export function summarize(results: readonly CheckResult[]): string {
  const failed = results.filter((result) => result.code !== 0);
  const details = failed.map(({ name, output }) => `── ${name} ──\n${output.trim()}\n\n`);
  const lines = results.map(({ name, code, durationMs }) => {
    return `${code === 0 ? "✔" : "✖"} ${name} (${(durationMs / 1000).toFixed(1)} s)\n`;
  });
  return details.join("") + lines.join("");
}

function runOne(name: string, command: readonly [string, ...string[]]): Promise<CheckResult> {
  const startMs = performance.now();
  const [program, ...args] = command;
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const end = (code: number) => resolve({ name, code, durationMs: performance.now() - startMs, output });
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    child.on("error", (error) => {
      output += error.message;
      end(-1);
    });
    child.on("close", (code) => end(code ?? -1));
  });
}
