// Finds what a test run started, however detached, by a mark in the environment, and ends what stays too long.
// node --test itself has a deadline for a test but none for a file whose event loop or pipes stay busy.
import { readdirSync, readFileSync } from "node:fs";

const scanMs = 1000;

/** Watches the processes that carry `NAME=value` in their environment. Finds nothing where there is no /proc. */
export class MarkedProcesses {
  readonly #mark: string;
  readonly #firstSeenMs = new Map<number, number>();

  constructor(mark: string) {
    this.#mark = mark;
  }

  /**
   * Kills every marked process but `exceptPid` that is older than `limitMs`, until the returned function is called.
   * `onKill` gets one line per process.
   */
  watch(options: { exceptPid: number; limitMs: number; onKill: (line: string) => void }): () => void {
    const timer = setInterval(() => {
      const nowMs = performance.now();
      for (const pid of this.#find()) {
        const firstSeenMs = this.#firstSeenMs.get(pid) ?? nowMs;
        this.#firstSeenMs.set(pid, firstSeenMs);
        if (pid !== options.exceptPid && nowMs - firstSeenMs > options.limitMs) options.onKill(kill(pid));
      }
    }, scanMs);
    return () => clearInterval(timer);
  }

  /** Kills all that are alive; one line per process. */
  killAll(): string[] {
    return this.#find().map(kill);
  }

  #find(): number[] {
    try {
      return readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name) && this.#isMarked(name))
        .map(Number);
    } catch {
      return [];
    }
  }

  #isMarked(pid: string): boolean {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(this.#mark);
    } catch {
      return false; // Another user's, or gone meanwhile.
    }
  }
}

function kill(pid: number): string {
  let command = "";
  try {
    command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself in this moment.
  }
  return `${pid} ${command}`;
}
