/** `zml serve` as a process of its own, watched from outside: what it says, holds and leaves. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { FleetReportJson } from "../../src/control/fleet-report.ts";

const ZML = join(import.meta.dirname, "../../bin/zml.mjs");
const START_MS_MAX = 60_000;
/** Of the log, what is kept: the last lines say what went wrong. */
const LOG_LINES_MAX = 2_000;

export interface GatewayProcess {
  readonly child: ChildProcess;
  readonly dataPort: number;
  readonly adminPort: number;
  readonly configPath: string;
  /** The last lines of the log, as JSON lines. */
  readonly log: string[];
  /** Lines that tell of a fault of ours: exceptions and rejections that nobody caught, failed polls and routes. */
  readonly faults: string[];
  fleet(): Promise<FleetReportJson>;
  /** Resident memory, MiB. */
  rssMib(): number;
  /** Open sockets of the process. */
  sockets(): number;
  /** Each further line of its standard output. */
  onLine(listener: (line: string) => void): void;
  /** Ends it as an operator would. Returns its exit code, null when a signal had to end it. */
  stop(): Promise<number | null>;
}

/** What is logged when the gateway itself is at fault. */
const FAULT = /nobody caught|failed inside the gateway|an admin route failed|"a worker died/;

/**
 * Starts one on a configuration with ports of 0 and waits until it is ready.
 *
 * @param options `folder` of the file, which the caller removes; default: one that goes with the process. `entry`: another
 *   script than `zml serve`, which gets the file's path and a standard input.
 * @throws Error with its log when it does not start.
 */
export async function startGatewayProcess(
  text: string,
  options: { folder?: string; entry?: string; args?: readonly string[] } = {},
): Promise<GatewayProcess> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "zml-survival-"));
  const configPath = join(folder, "zml.yaml");
  writeFileSync(configPath, text);
  const { entry } = options;
  const args =
    entry === undefined
      ? [ZML, "serve", "-c", configPath, "--log-level", "info", ...(options.args ?? [])]
      : [entry, configPath];
  const child = spawn(process.execPath, args, {
    stdio: [entry === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    // what `bin/zml.mjs` sets where it is the entry
    env: { MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: String(1024 * 1024), ...process.env },
  });
  const log: string[] = [];
  const faults: string[] = [];
  let rest = "";
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    const lines = `${rest}${piece}`.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      log.push(line);
      if (FAULT.test(line)) faults.push(line);
    }
    if (log.length > LOG_LINES_MAX) log.splice(0, log.length - LOG_LINES_MAX);
  });
  const [data, admin] = await readPorts(child, log);
  const clean = (): void => {
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
  };
  child.once("exit", clean);
  return {
    child,
    dataPort: data,
    adminPort: admin,
    configPath,
    log,
    faults,
    async fleet() {
      const answer = await fetch(`http://127.0.0.1:${admin}/admin/v1/fleet`, { signal: AbortSignal.timeout(10_000) });
      return (await answer.json()) as FleetReportJson;
    },
    rssMib() {
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
    },
    sockets: () => socketsOf(child.pid),
    onLine(listener) {
      if (child.stdout !== null) createInterface({ input: child.stdout }).on("line", listener);
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      child.kill("SIGTERM");
      const killer = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await once(child, "exit");
      clearTimeout(killer);
      return child.exitCode;
    },
  };
}

async function readPorts(child: ChildProcess, log: readonly string[]): Promise<[number, number]> {
  let text = "";
  const { promise, resolve, reject } = Promise.withResolvers<[number, number]>();
  const fail = (why: string): void => reject(new Error(`the gateway ${why}: ${log.slice(-5).join("\n")}`));
  const timer = setTimeout(() => {
    child.kill("SIGKILL");
    fail(`is not ready after ${START_MS_MAX} ms`);
  }, START_MS_MAX);
  child.stdout?.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
    const [, data, admin] = /^zml ready data=\S+:(\d+) admin=\S+:(\d+)\n/.exec(text) ?? [];
    if (data !== undefined && admin !== undefined) resolve([Number(data), Number(admin)]);
  });
  child.once("close", () => fail(`ended with ${child.exitCode ?? child.signalCode}`));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

function socketsOf(pid: number | undefined): number {
  const folder = `/proc/${pid}/fd`;
  let count = 0;
  for (const name of readdirSync(folder)) {
    try {
      if (readlinkSync(join(folder, name)).startsWith("socket:")) count += 1;
    } catch {
      // it was closed since
    }
  }
  return count;
}

/** Waits until a condition holds; false after the deadline. */
export async function comesTrue(holds: () => boolean | Promise<boolean>, deadlineMs: number): Promise<boolean> {
  const endMs = performance.now() + deadlineMs;
  while (!(await holds())) {
    if (performance.now() > endMs) return false;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}
