/** What the command tree is given by the process that runs it. */

import type { Socket } from "node:net";
import type { SocketChannel } from "../takeover/predecessor.ts";
import type { LogStream } from "./log.ts";
import type { ServeSignals } from "./serve.ts";
import type { Terminal } from "./terminal.ts";
import type { Watch } from "./watch-page.ts";

export interface ProgramHost {
  readonly terminal: Terminal;
  /** Where the log goes. */
  readonly logStream: LogStream;
  /** Of the package. */
  readonly version: string;
  /** Keeps what the process will end with. */
  end(exitCode: number): void;
  /** Ends the process now: what runs on, such as sockets of a gateway, goes with it. */
  endNow(exitCode: number): void;
  /** Waiting that Ctrl-C ends. Asked for by commands that wait. */
  watch(): Watch;
  signals(): ServeSignals;
  /** The connection that `startSuccessor` gave this process; null: it was started without one. */
  socketChannel(): SocketChannel | null;
  /** Runs this very command in another process, with a connection as its channel. Gives its exit code. */
  startSuccessor(connection: Socket, token: string): Promise<number>;
  /** Calls back with what nobody caught. */
  onUncaught(report: (error: string, kind: string) => void): void;
}
