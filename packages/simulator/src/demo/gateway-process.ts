import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** `zml serve` in a child process. */
export type GatewayProcess = {
  readonly dataUrl: string;
  readonly adminUrl: string;
  readonly pid: number;
  /** Resolves with one line when the process is gone, whoever ended it. */
  readonly exited: Promise<string>;
  /** Drains, then ends it. May be repeated. */
  stop(): Promise<void>;
  /** SIGKILL. */
  kill(): void;
};

const COMMAND = fileURLToPath(new URL("../../../gateway/bin/zml.mjs", import.meta.url));
const PRELOAD = new URL("./end-with-parent.ts", import.meta.url).href;
const START_DEADLINE_MS = 20_000;
const DRAIN_MS = 1500;
const LOG_CHARACTERS = 16_384;

/**
 * Runs `zml serve -c <path>` and resolves when it says that it is ready.
 * @throws Error with the end of its output when it ends before that, or is not ready within 20 s.
 */
export async function startGatewayProcess(path: string, signal: AbortSignal): Promise<GatewayProcess> {
  signal.throwIfAborted();
  const child = fork(COMMAND, ["serve", "-c", path], {
    execArgv: ["--import", PRELOAD],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  let log = "";
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(`the gateway can't run: ${error.message}`));
    child.once("close", (code, killedBy) => resolve(`the gateway ended (${killedBy ?? code}):\n${log.trimEnd()}`));
  });
  const kill = (): void => {
    child.kill("SIGKILL");
  };
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    const timer = setTimeout(kill, DRAIN_MS);
    child.kill("SIGTERM");
    await exited;
    clearTimeout(timer);
  };
  const ready = new Promise<{ data: string; admin: string }>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8");
      stream?.on("data", (text: string) => {
        log = (log + text).slice(-LOG_CHARACTERS);
        const match = /^zml ready data=(\S+) admin=(\S+)$/m.exec(log);
        if (match !== null) resolve({ data: match[1] ?? "", admin: match[2] ?? "" });
      });
    }
  });
  let timer: NodeJS.Timeout | undefined;
  const failure = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`the gateway was not ready within 20 s:\n${log}`)), START_DEADLINE_MS);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    void exited.then((text) => reject(new Error(text)));
  });
  try {
    const { data, admin } = await Promise.race([ready, failure]);
    return {
      dataUrl: `http://${data}`,
      adminUrl: `http://${admin}`,
      pid: child.pid ?? -1,
      exited,
      stop: () => (stopping ??= stop()),
      kill,
    };
  } catch (error) {
    kill();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
