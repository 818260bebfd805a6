/** The command `zml`. The only file that touches arguments, environment, signals and the exit of the process. */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createInterface } from "node:readline/promises";
import { text as textOf } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { CommanderError } from "commander";
import { EXIT } from "./commands/exit-codes.ts";
import { createProgram } from "./commands/program.ts";
import type { ServeSignals } from "./commands/serve.ts";
import type { Terminal } from "./commands/terminal.ts";
import type { Watch } from "./commands/watch-page.ts";
import type { SocketNote } from "./takeover/handover-messages.ts";
import type { SocketChannel, SocketHandle } from "./takeover/predecessor.ts";

/** Names the two connections of a takeover; only a process that `startSuccessor` started has it. */
const HANDOVER_VARIABLE = "ZML_HANDOVER";

const terminal: Terminal = {
  env: process.env,
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
  screen: () => (process.stdout.isTTY ? { columns: process.stdout.columns, rows: process.stdout.rows } : null),
  input: () => textOf(process.stdin),
  ask,
};
// a reader that goes (`zml explain … | head`) is no fault of ours
process.stdout.on("error", () => undefined);
process.stderr.on("error", () => undefined);

const program = createProgram({
  terminal,
  // nothing of the process waits for a pipe here: Node keeps what is not taken
  logStream: process.stderr,
  version: version(),
  end: (exitCode) => {
    process.exitCode = exitCode;
  },
  endNow: (exitCode) => process.exit(exitCode),
  watch: watchUntilStopped,
  signals: listenToSignals,
  socketChannel,
  startSuccessor,
  onUncaught: watchFatalErrors,
});

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  // commander has printed the help, the version, or what is wrong with the line
  const takesFile = process.argv[2] === "serve" || process.argv[2] === "check-config";
  if (error.code === "commander.excessArguments" && takesFile) terminal.error("(-c FILE names the file)\n");
  process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
}

/** Asks on the terminal, beside what goes to standard output. */
async function ask(question: string): Promise<string | null> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return null;
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<null>((resolve) => lines.once("close", () => resolve(null)));
  try {
    return await Promise.race([lines.question(question), left]);
  } finally {
    lines.close();
  }
}

/** Ctrl-C ends it well. */
function watchUntilStopped(): Watch {
  const ended = new AbortController();
  const stop = (): void => ended.abort();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, stop);
  // so does a reader that went (`zml nodes --watch | head`)
  process.stdout.once("error", stop);
  const { signal } = ended;
  return { stop: signal, nowMs: Date.now, wait: (ms) => delay(ms, undefined, { signal }).catch(() => undefined) };
}

function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const isManifest = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return isManifest ? String(manifest.version) : "unknown";
}
/** The first SIGTERM or SIGINT asks for a drain, the second ends the process as the system would have. */
function listenToSignals(): ServeSignals {
  const stop = Promise.withResolvers<string>();
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (isStopping) {
        process.removeAllListeners(signal);
        process.kill(process.pid, signal);
        return;
      }
      isStopping = true;
      stop.resolve(signal);
    });
  }
  let reload = (): void => undefined;
  // before the gateway runs there is nothing to reload, and without a listener the signal would end the process
  process.on("SIGHUP", () => reload());
  let switchLog = (): void => undefined;
  process.on("SIGUSR2", () => switchLog());
  return {
    stop: stop.promise,
    onReload: (callback) => {
      reload = callback;
    },
    onLogSwitch: (callback) => {
      switchLog = callback;
    },
  };
}

/** The channel brings sockets of the gateway that runs. */
function socketChannel(): SocketChannel | null {
  const token = process.env[HANDOVER_VARIABLE];
  if (token === undefined || process.send === undefined) return null;
  return {
    token,
    onNote: (take) => {
      process.on("message", (note: SocketNote, handle: unknown) => take(note, isSocketHandle(handle) ? handle : null));
    },
    close: () => {
      if (process.connected) process.disconnect();
    },
  };
}

function isSocketHandle(value: unknown): value is SocketHandle {
  return typeof value === "object" && value !== null && typeof Reflect.get(value, "fd") === "number";
}

/** Stays beside its child, passes signals on, and ends as it does. */
function startSuccessor(connection: Socket, token: string): Promise<number> {
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    stdio: ["inherit", "inherit", "inherit", connection],
    env: { ...process.env, NODE_CHANNEL_FD: "3", [HANDOVER_VARIABLE]: token },
  });
  child.once("spawn", () => connection.destroy());
  // a terminal sends Ctrl-C to the child as well
  const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"] as const) {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !hasTerminal) child.kill(signal);
    });
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? EXIT.failed));
  });
}

/**
 * A rejection that nobody handles is a bug in one request or poll: it is logged, and the fleet is served on. An
 * exception that nobody catches leaves the control thread in an unknown state: the process ends, and is started again
 * by whatever watches it.
 */
function watchFatalErrors(report: (error: string, kind: string) => void): void {
  const text = (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.on("unhandledRejection", (error) => report(text(error), "unhandledRejection"));
  process.on("uncaughtException", (error) => {
    report(text(error), "uncaughtException");
    process.exit(EXIT.failed);
  });
}
