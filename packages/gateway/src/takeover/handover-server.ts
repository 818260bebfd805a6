/**
 * The old one's side of a takeover. One new process at a time: it is told where we listen once we have let go of the
 * store, gets the listening sockets when it is warm, and we leave when it says that it serves. If it goes away before, or
 * takes too long, everything is as it was; until then we never stopped to accept.
 */

import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { formatListen, type ListenAddress } from "@zml/protocol";
import type { GatewayLog } from "../control/gateway-log.ts";
import {
  type Addresses,
  type FromPredecessor,
  type FromSuccessor,
  HANDOVER_VERSION,
  Lines,
  lineOf,
} from "./handover-messages.ts";

/** From hello to serving: a start with slow nodes, discovery and prices takes some 30 s at most, ms. */
const TAKEOVER_MS = 60_000;
/** What the relay gets to start and to send, ms. */
const RELAY_MS = 10_000;
/** Connections whose sockets have not been asked for yet. */
const PARKED_MAX = 8;
/** Longest path of a Unix socket on Linux, bytes, without its end. */
const PATH_BYTES_MAX = 107;

/** What a takeover does with the gateway. */
export interface HandoverHost {
  addresses(): Addresses;
  /** Descriptors of the listening sockets. Null: this system, or a worker that is being started, has none to give. */
  sockets(): { readonly data: readonly number[]; readonly admin: number } | null;
  /** Lets go of the store. */
  release(): Promise<void>;
  /** The new one is gone: takes the store back. */
  takeBack(): Promise<void>;
  /** Accepts no more, lets what runs end, and ends. */
  leave(): void;
  readonly log: GatewayLog;
}

interface Conversation {
  readonly socket: Socket;
  readonly token: string;
  readonly pid: number;
  readonly timer: NodeJS.Timeout;
  isOver: boolean;
}

export class HandoverServer {
  readonly #host: HandoverHost;
  readonly #path: string;
  readonly #server: Server;
  /** Connections for sockets, by token. */
  readonly #parked = new Map<string, Socket>();
  readonly #sockets = new Set<Socket>();
  #current: Conversation | null = null;

  constructor(host: HandoverHost, path: string) {
    this.#host = host;
    this.#path = path;
    this.#server = createServer((socket) => this.#open(socket));
  }

  /** Listens. Where that can't be, the gateway runs on and the log says that it can't be taken over. */
  async listen(): Promise<void> {
    try {
      if (Buffer.byteLength(this.#path) > PATH_BYTES_MAX) {
        throw new Error(`the path has ${Buffer.byteLength(this.#path)} bytes, ${PATH_BYTES_MAX} are possible`);
      }
      const folder = dirname(this.#path);
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chmodSync(folder, 0o700);
      if (await isAlive(this.#path)) throw new Error("another gateway with this store listens there");
      rmSync(this.#path, { force: true });
      await new Promise<void>((resolve, reject) => {
        this.#server.once("error", reject);
        this.#server.listen(this.#path, resolve);
      });
      chmodSync(this.#path, 0o600);
    } catch (error) {
      const fields = { path: this.#path, error: error instanceof Error ? error.message : String(error) };
      this.#host.log.warn(fields, "this gateway can't be taken over by the next one");
    }
  }

  /** Ends it; the path is free. */
  close(): void {
    if (this.#server.listening) this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #open(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("error", () => undefined);
    const lines = new Lines<FromSuccessor>();
    const take = (bytes: Buffer): void => {
      try {
        lines.push(bytes, (message) => {
          if (message.kind === "sockets") {
            socket.off("data", take);
            this.#park(socket, message.token);
          } else void this.#receive(socket, message);
        });
      } catch {
        socket.destroy();
      }
    };
    socket.on("data", take);
  }

  #park(socket: Socket, token: string): void {
    socket.pause();
    if (this.#parked.size >= PARKED_MAX) return void socket.destroy();
    this.#parked.set(token, socket);
    socket.on("close", () => this.#parked.delete(token));
  }

  async #receive(socket: Socket, message: Exclude<FromSuccessor, { kind: "sockets" }>): Promise<void> {
    if (message.kind === "hello") return this.#begin(socket, message);
    const current = this.#current;
    if (current === null || current.socket !== socket) return void socket.destroy();
    if (message.kind === "take") return this.#give(current);
    this.#current = null;
    current.isOver = true;
    clearTimeout(current.timer);
    this.#host.log.info({ successor: current.pid }, "another process has taken over; this one drains and ends");
    // the path is the new one's from now on
    this.#server.close();
    this.#host.leave();
    say(socket, { kind: "leaving" });
    socket.end();
  }

  async #begin(socket: Socket, hello: Extract<FromSuccessor, { kind: "hello" }>): Promise<void> {
    const reason = this.#refusal(hello);
    if (reason !== null) {
      this.#host.log.warn({ successor: hello.pid, reason }, "a takeover was refused");
      say(socket, { kind: "refused", reason });
      return void socket.end();
    }
    const timer = setTimeout(() => socket.destroy(), TAKEOVER_MS);
    const current: Conversation = { socket, token: hello.token, pid: hello.pid, timer, isOver: false };
    this.#current = current;
    const released = this.#host.release();
    socket.on("close", () => void released.then(() => this.#abandoned(current)));
    this.#host.log.info({ successor: hello.pid }, "another process is about to take over");
    await released;
    say(socket, { kind: "welcome", pid: process.pid, ...this.#host.addresses() });
  }

  #refusal(hello: Extract<FromSuccessor, { kind: "hello" }>): string | null {
    if (hello.version !== HANDOVER_VERSION) {
      return `it speaks version ${hello.version} of the handover, this one ${HANDOVER_VERSION}: stop this one and start the other`;
    }
    if (this.#current !== null) return `process ${this.#current.pid} is taking over already: wait for its end`;
    const own = this.#host.addresses();
    const other = mismatch("data.listen", hello.data, own.data) ?? mismatch("admin.listen", hello.admin, own.admin);
    if (other !== null) return other;
    return this.#host.sockets() === null ? "a worker is being started: try again" : null;
  }

  async #give(current: Conversation): Promise<void> {
    const channel = this.#parked.get(current.token);
    const sockets = this.#host.sockets();
    if (channel === undefined || sockets === null) return void current.socket.destroy();
    const relay = spawn(
      process.execPath,
      [fileURLToPath(new URL("./handover-relay.ts", import.meta.url)), String(sockets.data.length)],
      {
        stdio: ["ignore", "ignore", "ignore", channel, sockets.admin, ...sockets.data],
        env: { NODE_CHANNEL_FD: "3" },
        timeout: RELAY_MS,
        killSignal: "SIGKILL",
      },
    );
    relay.once("spawn", () => channel.destroy());
    const code = await new Promise<number | null>((resolve) => {
      relay.once("error", () => resolve(null));
      relay.once("exit", resolve);
    });
    if (code === 0) say(current.socket, { kind: "given", dataSockets: sockets.data.length });
    else current.socket.destroy();
  }

  async #abandoned(current: Conversation): Promise<void> {
    if (current.isOver) return;
    clearTimeout(current.timer);
    this.#host.log.error(
      { successor: current.pid },
      "the process that was about to take over is gone; this one serves on",
    );
    await this.#host.takeBack();
    this.#current = null;
  }
}

/** Port 0 takes what the old one has. */
function mismatch(what: string, asked: ListenAddress, own: ListenAddress): string | null {
  if (asked.port === 0 || (asked.host === own.host && asked.port === own.port)) return null;
  return `${what} is ${formatListen(asked)} for it and ${formatListen(own)} here: a new address needs a restart`;
}

function say(socket: Socket, message: FromPredecessor): void {
  if (socket.writable) socket.write(lineOf(message));
}

function isAlive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
