/**
 * `zml serve --takeover`, its first half: connects to the gateway that runs and starts the new one as a child, whose channel
 * that connection is. Only a channel that a process is started with brings sockets into it (see
 * `takeover/handover-relay.ts`).
 */

import { connect, type Socket } from "node:net";
import { formatProblems } from "../config/config-problem.ts";
import { isReadFile } from "../control/configuration.ts";
import { MEMORY } from "../store/store-messages.ts";
import { handoverPath, lineOf } from "../takeover/handover-messages.ts";
import { readConfigFile } from "./config-file.ts";
import { EXIT } from "./exit-codes.ts";
import { storeFolder } from "./serve.ts";
import type { Terminal } from "./terminal.ts";

/** A gateway that does not take a connection for so long hangs, ms. */
const CONNECT_MS = 5_000;

export interface TakeoverOptions {
  readonly config: string;
  /** Names both connections of this takeover. */
  readonly token: string;
  /** Starts the new process with this connection as its channel; gives its exit code. */
  start(connection: Socket, token: string): Promise<number>;
}

/** @returns the exit code of the new process, or 1 when there is nothing to take over. */
export async function takeOver(
  terminal: Terminal,
  { config: fileName, token, start }: TakeoverOptions,
): Promise<number> {
  const read = await readConfigFile(fileName, terminal.env);
  if (!isReadFile(read)) {
    terminal.error(`${formatProblems(read.errors)}\n`);
    return EXIT.failed;
  }
  const folder = storeFolder(fileName, read.config.store.path);
  if (folder === MEMORY) {
    terminal.error(
      `zml: nothing to take over: store.path is "${MEMORY}", and gateways meet in the folder of their store\n`,
    );
    return EXIT.failed;
  }
  const path = handoverPath(folder);
  let connection: Socket;
  try {
    connection = await connected(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    terminal.error(
      `zml: no gateway to take over at ${path} (${why}): start without --takeover, or name the file of the one that runs with -c\n`,
    );
    return EXIT.failed;
  }
  // nothing is read here: all that comes is the new process's
  connection.write(lineOf({ kind: "sockets", token }));
  return start(connection, token);
}

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error(`no answer within ${CONNECT_MS} ms`)));
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.off("error", reject);
      socket.on("error", () => undefined);
      socket.pause();
      resolve(socket);
    });
  });
}
