/** Processes under measurement: start, CPU and memory from /proc, end. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Clock ticks per second of /proc on Linux, whatever the kernel was built with. */
const TICKS_PER_SECOND = 100;

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

/** A gateway of its own process, from the sources or from an installed package. */
export async function startGatewayProcess(
  configText: string,
  launcher: string = fileURLToPath(new URL("../packages/gateway/bin/zml.mjs", import.meta.url)),
): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), "zml-bench-"));
  const file = join(directory, "zml.yaml");
  writeFileSync(file, configText);
  const started = await startProcess([launcher, "serve", "--log-level", "warn", "-c", file], (line) =>
    Number(/^zml ready data=\S+:(\d+) /.exec(line)?.[1]),
  );
  return {
    ...started,
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

async function startProcess(args: readonly string[], portOf: (line: string) => number): Promise<Measured> {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const { stdout, pid } = child;
  if (stdout === null || pid === undefined) throw new Error(`${args[0]} did not start`);
  const deadline = setTimeout(() => child.kill("SIGKILL"), 20_000);
  const [line] = (await Promise.race([
    once(stdout.setEncoding("utf8"), "data"),
    once(child, "exit").then(() => [""]),
  ])) as [string];
  clearTimeout(deadline);
  const port = portOf(line.split("\n")[0] ?? "");
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
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), 5000);
      await once(child, "exit");
      clearTimeout(killer);
    },
  };
}
