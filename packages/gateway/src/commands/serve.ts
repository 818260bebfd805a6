/** `zml serve`: runs the gateway until it is told to stop. */

import { dirname, resolve } from "node:path";
import { formatListen } from "@zml/protocol";
import { formatProblems } from "../config/config-problem.ts";
import { isReadFile } from "../control/configuration.ts";
import { startGateway } from "../control/gateway.ts";
import type { Gateway } from "../control/gateway-interface.ts";
import type { GatewayLog, LogControl } from "../control/gateway-log.ts";
import { StartError } from "../control/start-error.ts";
import { MEMORY } from "../store/store-messages.ts";
import { handoverPath } from "../takeover/handover-messages.ts";
import { Predecessor, type SocketChannel } from "../takeover/predecessor.ts";
import { isConfigFileAsRead, readConfigFile, readConfigFileAgain } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { collectStartGarbageLater } from "./start-garbage.ts";
import type { Terminal } from "./terminal.ts";

/** What the outside world asks of a running gateway. */
export interface ServeSignals {
  /** Resolves with the signal's name when the process has to end. */
  readonly stop: Promise<string>;
  /** Calls back each time the configuration has to be read again. */
  onReload(callback: () => void): void;
  /** Calls back each time somebody wants the log to tell more, or no more. */
  onLogSwitch(callback: () => void): void;
}

export interface ServeOptions {
  readonly config: string;
  readonly log: GatewayLog;
  /** Where `log` writes. */
  readonly logControl?: LogControl;
  readonly signals: ServeSignals;
  /** Of the package. */
  readonly version: string;
  /** Entry of the workers; default: the product's. */
  readonly workerUrl?: URL;
  /** Where the sockets of the gateway that runs come in: this one takes over. */
  readonly channel?: SocketChannel;
}

/** @returns the exit code, after the drain. */
export async function serve(
  terminal: Terminal,
  { config: fileName, log, logControl, signals, version, workerUrl, channel }: ServeOptions,
): Promise<number> {
  const read = await readConfigFile(fileName, terminal.env);
  if (!isReadFile(read)) {
    terminal.error(`${formatProblems(read.errors)}\n`);
    return EXIT.failed;
  }
  for (const warning of read.warnings) log.warn({}, formatProblems([warning]));
  const folder = storeFolder(fileName, read.config.store.path);
  const takenOver = Promise.withResolvers<string>();
  let gateway: Gateway;
  try {
    gateway = await startGateway({
      config: read.config,
      secrets: read.secrets,
      source: read.source,
      productVersion: version,
      log,
      ...(logControl === undefined ? {} : { logControl }),
      isAsRead: (before) => isConfigFileAsRead(fileName, before),
      readAgain: (before) => readConfigFileAgain(fileName, terminal.env, before),
      configPath: resolve(fileName),
      storeFolder: folder,
      onTakenOver: () => takenOver.resolve("takeover"),
      ...(channel === undefined ? {} : { predecessor: new Predecessor(handoverPath(folder), channel) }),
      ...(workerUrl === undefined ? {} : { workerUrl }),
    });
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    terminal.error(`zml: ${error.message}\n`);
    return EXIT.failed;
  }
  terminal.out(`zml ready data=${formatListen(gateway.dataAddress)} admin=${formatListen(gateway.adminAddress)}\n`);
  collectStartGarbageLater();
  signals.onReload(() => {
    gateway.reload().catch((error: unknown) => log.error({ error: String(error) }, "the reload failed"));
  });
  const levelAtStart = logControl?.level ?? "info";
  signals.onLogSwitch(() => logControl?.setLevel(logControl.level === "debug" ? levelAtStart : "debug"));
  const signal = await Promise.race([signals.stop, takenOver.promise]);
  const graceMs = read.config.timeouts.drainMs;
  log.info({ signal, graceMs }, "draining: running requests may end, new ones are refused");
  const { interrupted, isClean } = await gateway.stop();
  log.info({ interrupted }, isClean ? "drained" : "ended before every worker had drained");
  return isClean ? EXIT.ok : EXIT.failed;
}

/** `store.path` is beside the file that names it, wherever the process was started. */
export function storeFolder(fileName: string, path: string): string {
  return path === MEMORY ? path : resolve(dirname(fileName), path);
}
