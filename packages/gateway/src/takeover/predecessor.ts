/** The new one's side of a takeover: see `handover-server.ts`. */

import { connect, type Socket } from "node:net";
import { StartError } from "../control/start-error.ts";
import {
  type Addresses,
  type FromPredecessor,
  type FromSuccessor,
  HANDOVER_VERSION,
  Lines,
  lineOf,
  type SocketNote,
} from "./handover-messages.ts";

/** An old gateway that has not answered a step after this long hangs, ms. It lets go of its store in the first one. */
const ANSWER_MS = 15_000;

/** The connection on which the sockets come, as the launcher made it. */
export interface SocketChannel {
  readonly token: string;
  /** Calls back with each note, and the socket that came beside it. */
  onNote(take: (note: SocketNote, handle: SocketHandle | null) => void): void;
  close(): void;
}

/** A socket that came from another process. */
export interface SocketHandle {
  readonly fd: number;
}

/** Listening sockets of the old gateway, by descriptor. */
export interface TakenSockets {
  readonly data: readonly number[];
  readonly admin: number;
}

export class Predecessor {
  readonly #path: string;
  readonly #answerMs: number;
  readonly #channel: SocketChannel;
  /** They stay referenced: a handle that is collected closes its socket. */
  readonly #handles: { readonly of: "data" | "admin"; readonly handle: SocketHandle }[] = [];
  #socket: Socket | null = null;
  #pid = 0;
  #onMessage: ((message: FromPredecessor) => void) | null = null;
  #onClose: (() => void) | null = null;

  /** @param answerMs what an answer may take; default: 15 s. */
  constructor(path: string, channel: SocketChannel, answerMs = ANSWER_MS) {
    this.#path = path;
    this.#answerMs = answerMs;
    this.#channel = channel;
    channel.onNote((note, handle) => {
      if (note.kind === "listener" && handle !== null) this.#handles.push({ of: note.of, handle });
      // which tells the relay that all of them are here
      else channel.close();
    });
  }

  /**
   * Says hello.
   *
   * @returns where the old one listens. It has let go of the store.
   * @throws StartError when it refuses, or does not answer in time; it is as it was then.
   */
  async begin(own: Addresses): Promise<Addresses> {
    const socket = connect(this.#path);
    this.#socket = socket;
    const lines = new Lines<FromPredecessor>();
    socket.on("error", () => undefined);
    socket.on("close", () => this.#onClose?.());
    socket.on("data", (bytes: Buffer) => {
      try {
        lines.push(bytes, (message) => this.#onMessage?.(message));
      } catch {
        socket.destroy();
      }
    });
    const welcome = await this.#ask(
      { kind: "hello", version: HANDOVER_VERSION, token: this.#channel.token, pid: process.pid, ...own },
      "welcome",
    );
    this.#pid = welcome.pid;
    return { data: welcome.data, admin: welcome.admin };
  }

  /**
   * Asks for the sockets. They are ours as well from then on.
   *
   * @throws StartError when they don't come.
   */
  async take(): Promise<TakenSockets> {
    const given = await this.#ask({ kind: "take" }, "given");
    const [admin] = this.#sockets("admin");
    const data = this.#sockets("data");
    if (admin === undefined || data.length !== given.dataSockets) {
      const count = `${this.#handles.length} of ${given.dataSockets + 1}`;
      throw new StartError(`process ${this.#pid} gave ${count} sockets and serves on: try again`);
    }
    return { data, admin };
  }

  #sockets(of: "data" | "admin"): number[] {
    return this.#handles.filter((each) => each.of === of).map(({ handle }) => handle.fd);
  }

  /** Says that we serve; resolves once the old one accepts no more. */
  async serving(): Promise<void> {
    await this.#ask({ kind: "serving" }, "leaving");
    this.#socket?.end();
  }

  /** Goes away: the old one serves on. */
  abandon(): void {
    this.#socket?.destroy();
    this.#channel.close();
  }

  #ask<K extends FromPredecessor["kind"]>(
    message: FromSuccessor,
    answer: K,
  ): Promise<Extract<FromPredecessor, { kind: K }>> {
    const socket = this.#socket;
    const who = this.#pid === 0 ? `the running gateway (${this.#path})` : `process ${this.#pid}`;
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        this.#onMessage = null;
        this.#onClose = null;
      };
      const fail = (why: string): void => {
        settle();
        reject(new StartError(`${who} ${why}`));
      };
      const timer = setTimeout(() => {
        fail(
          `did not answer "${message.kind}" within ${this.#answerMs} ms and serves on: look at its log, or stop it and start without --takeover`,
        );
      }, this.#answerMs);
      this.#onClose = () => fail("closed the conversation and serves on: its log says why");
      this.#onMessage = (given) => {
        if (given.kind === "refused") return fail(`refuses: ${given.reason}`);
        if (given.kind !== answer) return;
        settle();
        resolve(given as Extract<FromPredecessor, { kind: K }>);
      };
      if (socket === null || socket.destroyed) fail("is gone");
      else socket.write(lineOf(message));
    });
  }
}
