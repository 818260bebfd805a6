/** Processes under measurement: start, CPU and memory from /proc, end. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Clock ticks per second of /proc on Linux, whatever the kernel was built with. */
const TICKS_PER_SECOND = 100;

/** A process that has said nothing for so long does not come up, ms. */
const START_MS_MAX = 20_000;

/** A started process. */
export interface Measured {
  readonly child: ChildProcess;
  readonly port: number;
  /** User and system CPU time so far, µs. */
  cpuUs(): number;
  /** Resident memory, bytes. */
  rssBytes(): number;
  stop(): Promise<void>;
}

/** Starts a script with this Node and waits for its first line. */
export async function startScript(script: string, args: readonly string[]): Promise<Measured> {
  return startProcess([fileURLToPath(new URL(script, import.meta.url)), ...args], (line) => Number(line));
}

/** Starts a script whose first line says what others have to know, and waits for that; it gets a standard input. */
export async function startLines(
  script: URL,
  args: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly firstLine: string; stop(): Promise<void> }> {
  const { child, line } = await spawnAndRead([fileURLToPath(script), ...args], "pipe");
  if (line === "") throw new Error(`${script.pathname} ended or said nothing`);
  return { child, firstLine: line, stop: () => stopChild(child) };
}

/** A gateway of its own process, from the sources or from an installed package. @param log `ignore`: nobody sees it. */
export async function startGatewayProcess(
  configText: string,
  launcher: string = fileURLToPath(new URL("../packages/gateway/bin/zml.mjs", import.meta.url)),
  log: "inherit" | "ignore" = "inherit",
): Promise<Measured & { readonly adminPort: number }> {
  const directory = mkdtempSync(join(tmpdir(), "zml-bench-"));
  const file = join(directory, "zml.yaml");
  writeFileSync(file, configText);
  let adminPort = Number.NaN;
  const args = [launcher, "serve", "--log-level", "error", "-c", file];
  const portOf = (line: string): number => {
    const [, data, admin] = /^zml ready data=\S+:(\d+) admin=\S+:(\d+)/.exec(line) ?? [];
    adminPort = Number(admin);
    return Number(data);
  };
  const started = await startProcess(args, portOf, log);
  return {
    ...started,
    adminPort,
    async stop() {
      await started.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A configuration for one node that answers without being an engine. */
export function benchConfig(nodePort: number): string {
  return `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: 1
store: { path: ":memory:" }
nodes:
  - id: bench
    url: http://127.0.0.1:${nodePort}
    family: H100
    engine: custom
    models: [bench]
    max_in_flight: 100000
    max_connections: 4096
    keep_alive_ms: 50000
    cost: { usd_per_gpu_hour: 2.99 }
`;
}

async function startProcess(
  args: readonly string[],
  portOf: (line: string) => number,
  stderr: "inherit" | "ignore" = "inherit",
): Promise<Measured> {
  const { child, line } = await spawnAndRead(args, "ignore", stderr);
  const { pid } = child;
  const port = portOf(line);
  if (!(port > 0)) throw new Error(`${args.join(" ")} ended or said ${JSON.stringify(line)} instead of its port`);
  return {
    child,
    port,
    cpuUs() {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      // the name in brackets may hold spaces; what is counted from stands behind it
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return ((Number(fields[11]) + Number(fields[12])) * 1e6) / TICKS_PER_SECOND;
    },
    rssBytes() {
      return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1]) * 1024;
    },
    stop: () => stopChild(child),
  };
}

/** Starts this Node with these arguments. The first line that it prints is empty when it ended before. */
async function spawnAndRead(
  args: readonly string[],
  stdin: "ignore" | "pipe",
  stderr: "inherit" | "ignore" = "inherit",
): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(process.execPath, args, { stdio: [stdin, "pipe", stderr] });
  const { stdout } = child;
  if (stdout === null) throw new Error(`${args[0]} did not start`);
  const deadline = setTimeout(() => child.kill("SIGKILL"), START_MS_MAX);
  const ended = once(child, "exit").then(() => null);
  stdout.setEncoding("utf8");
  let text = "";
  while (!text.includes("\n")) {
    const piece = (await Promise.race([once(stdout, "data"), ended])) as [string] | null;
    if (piece === null) break;
    text += piece[0];
  }
  clearTimeout(deadline);
  return { child, line: text.includes("\n") ? text.slice(0, text.indexOf("\n")) : "" };
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const killer = setTimeout(() => child.kill("SIGKILL"), 5000);
  await once(child, "exit");
  clearTimeout(killer);
}
