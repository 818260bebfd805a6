/** Runs a real llama.cpp server as a child process: ready when it says so, gone when its parent is. */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { ensureLlamaServer } from "./ensure-llama-server.ts";

export type LlamaServerOptions = {
  /** Path of a GGUF file. */
  model: string;
  /** The name under which the server lists the model. Default: the file's name. */
  alias?: string;
  /** 0, the default, lets the system choose. */
  port?: number;
  /** Requests that it runs at the same time; the rest waits inside it, without limit. Default 4. */
  slots?: number;
  /** What one request can use, prompt and answer together. Default 4,096. */
  contextTokens?: number;
  /** Threads that compute. Default 1, so that a few servers fit on a small machine. */
  threads?: number;
  /** Threads that answer HTTP; each open stream holds one. Default 64: with fewer a burst makes `/health` hang. */
  httpThreads?: number;
  /** Path of a Jinja file instead of the model's own chat template. */
  chatTemplate?: string;
  /** From start to a good `/health`. Default 20,000. */
  startDeadlineMs?: number;
  /** Default: what `ensureLlamaServer` installs. */
  binary?: string;
};

export type LlamaServerExit = { code: number | null; signal: NodeJS.Signals | null };

export type LlamaServer = {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  url: string;
  port: number;
  pid: number;
  /** Resolves when the process is gone; never rejects. */
  exited: Promise<LlamaServerExit>;
  /** Sends a signal; false when the process is already gone. In mid-answer SIGTERM leaves its clients hanging. */
  kill(signal: NodeJS.Signals): boolean;
  /** SIGTERM, then SIGKILL if that takes longer than 500 ms. Resolves when the process is gone; may be repeated. */
  stop(): Promise<LlamaServerExit>;
  /** The last 64 KiB of what it printed. */
  log(): string;
};

const host = "127.0.0.1";
const logLimitChars = 65_536;
const stopGraceMs = 500;
const healthRetryMs = 10;
const healthTimeoutMs = 1_000;

/** Servers still running, so that one exit handler can end them all. */
const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/**
 * Starts a server and returns it once `/health` is good; the model then answers under any name.
 * @throws Error with the end of its output when it ends before that (a bad model file, a port that is taken) or isn't
 *   ready before the deadline; the process is gone by then.
 */
export async function startLlamaServer(options: LlamaServerOptions): Promise<LlamaServer> {
  const { model, alias, port = 0, slots = 4, contextTokens = 4_096, threads = 1, httpThreads = 64 } = options;
  const { startDeadlineMs = 20_000, binary = await ensureLlamaServer() } = options;
  const flags = {
    "--model": model,
    "--host": host,
    "--port": port,
    "--parallel": slots,
    "--ctx-size": slots * contextTokens,
    "--threads": threads,
    "--threads-http": httpThreads,
    // The build can use a GPU; tests must not depend on there being one.
    "--device": "none",
    "--gpu-layers": 0,
    ...(alias === undefined ? {} : { "--alias": alias }),
  };
  const args = Object.entries(flags).flatMap(([flag, value]) => [flag, String(value)]);
  if (options.chatTemplate !== undefined) args.push("--jinja", "--chat-template-file", options.chatTemplate);
  args.push("--metrics", "--slots", "--no-ui", "--offline");

  const [command = binary, ...rest] = [...(await diesWithParent()), binary, ...args];
  const child = spawn(command, rest, { stdio: ["ignore", "pipe", "pipe"], env: withoutOwnSettings(process.env) });
  running.add(child);
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      log = (log + text).slice(-logLimitChars);
    });
  }
  const exited = new Promise<LlamaServerExit>((resolve) => {
    child.once("error", (error) => {
      running.delete(child);
      log += `${error.message}\n`;
      resolve({ code: null, signal: null });
    });
    // "close" comes after "exit", when the output is complete.
    child.once("close", (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });

  try {
    const readyPort = await waitUntilReady({ exited, model, port, log: () => log, startDeadlineMs });
    assert(child.pid !== undefined, "a server that answers has a process id");
    let stopping: Promise<LlamaServerExit> | null = null;
    return {
      url: `http://${host}:${readyPort}`,
      port: readyPort,
      pid: child.pid,
      exited,
      kill: (signal) => child.kill(signal),
      stop: () => (stopping ??= stop(child, exited)),
      log: () => log,
    };
  } catch (error) {
    child.kill("SIGKILL");
    await exited;
    throw error;
  }
}

type Waiting = {
  exited: Promise<LlamaServerExit>;
  model: string;
  port: number;
  log(): string;
  startDeadlineMs: number;
};

/** The server prints its port once it listens, which is the only way to learn it without a race when it chose it. */
async function waitUntilReady({ exited, model, port: wanted, log, startDeadlineMs }: Waiting): Promise<number> {
  let exit: LlamaServerExit | null = null;
  void exited.then((value) => {
    exit = value;
  });
  const deadline = AbortSignal.timeout(startDeadlineMs);
  while (!deadline.aborted) {
    if (exit !== null) {
      // The server loses the end of its log, or all of it, in about one of sixty ends by error: it does not say why.
      const taken = wanted !== 0 && (await isTaken(wanted)) ? `, port ${wanted} is taken` : "";
      throw new Error(
        `llama-server with ${model} ended before it was ready${taken} (${JSON.stringify(exit)}):\n${log()}`,
      );
    }
    const port = Number(/listening on http:\/\/[^\s:]+:(\d+)/.exec(log())?.[1] ?? Number.NaN);
    if (!Number.isNaN(port) && (await isHealthy(port))) return port;
    await delay(healthRetryMs);
  }
  throw new Error(`llama-server was not ready within ${startDeadlineMs} ms:\n${log()}`);
}

function isTaken(port: number): Promise<boolean> {
  const socket = connect({ host, port });
  return once(socket, "connect", { signal: AbortSignal.timeout(healthTimeoutMs) })
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}

async function isHealthy(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://${host}:${port}/health`, { signal: AbortSignal.timeout(healthTimeoutMs) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

async function stop(child: ChildProcess, exited: Promise<LlamaServerExit>): Promise<LlamaServerExit> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), stopGraceMs);
  try {
    return await exited;
  } finally {
    clearTimeout(timer);
  }
}

let prefix: Promise<string[]> | null = null;

/**
 * A command prefix that makes the kernel kill the child when the thread that started it ends, even by SIGKILL, which
 * no exit handler sees. Empty where the system has no such tool: the exit handler is what is left then.
 */
function diesWithParent(): Promise<string[]> {
  const setpriv = ["setpriv", "--pdeathsig", "KILL", "--"];
  prefix ??= promisify(execFile)("setpriv", [...setpriv.slice(1), "true"], { timeout: 5_000 }).then(
    () => setpriv,
    () => [],
  );
  return prefix;
}

/** llama.cpp reads every option from the environment too; a developer's own must not change what tests see. */
function withoutOwnSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith("LLAMA_")));
}
