/** A process with all that it starts: on one core, measured from /proc. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import type { Peer } from "./proxies.ts";

/** The core of what is measured; the node and the load have the others. */
const PROXY_CORE = "0";

/** A busy machine starts a router of many threads slowly, ms. */
const START_MS_MAX = 90_000;

export class MeasuredProcess {
  readonly proxy: Peer & { port: number };
  readonly #child: ChildProcess;
  #stderr = "";

  constructor(proxy: Peer & { port: number }) {
    this.proxy = proxy;
    this.#child = spawn("taskset", ["-c", PROXY_CORE, proxy.command, ...proxy.args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, ...proxy.env },
    });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-2000);
    });
  }

  /** Resolves with the time from now to the first whole answer, ms. @throws Error when none comes. */
  async firstAnswer(ask: () => Promise<boolean>): Promise<number> {
    const startedAt = performance.now();
    while (performance.now() - startedAt < START_MS_MAX) {
      if (this.#child.exitCode !== null) break;
      if (await ask().catch(() => false)) return performance.now() - startedAt;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error(`${this.proxy.name} gave no answer: ${this.#stderr}`);
  }

  /** User and system time of all threads of all processes, µs. */
  cpuUs(): number {
    let ns = 0;
    for (const pid of this.#pids()) {
      for (const task of listOf(`/proc/${pid}/task`)) {
        ns += Number(textOf(`/proc/${pid}/task/${task}/schedstat`).split(" ")[0]);
      }
    }
    return ns / 1000;
  }

  /** Resident memory of all processes, MB (10^6 bytes). */
  rssMb(): number {
    let kb = 0;
    for (const pid of this.#pids()) kb += Number(/VmRSS:\s+(\d+) kB/.exec(textOf(`/proc/${pid}/status`))?.[1] ?? 0);
    return (kb * 1024) / 1e6;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    const pids = this.#pids();
    const killer = setTimeout(() => {
      for (const pid of pids) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // it has ended by itself
        }
      }
    }, 3000);
    await ended;
    clearTimeout(killer);
  }

  #pids(): number[] {
    const found = [this.#child.pid ?? -1];
    for (const pid of found) {
      for (const task of listOf(`/proc/${pid}/task`)) {
        for (const child of textOf(`/proc/${pid}/task/${task}/children`).split(" ")) {
          if (child !== "") found.push(Number(child));
        }
      }
    }
    return found;
  }
}

function listOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
