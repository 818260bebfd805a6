/** A node that works, and fails as it is told; it keeps count of what it runs. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { chatAnswer, DONE, token } from "../scripted-node.ts";

export const FAULTS = ["killed", "hung", "slow", "errors", "overloaded", "resets"] as const;
export type Fault = (typeof FAULTS)[number];

/** More requests than the limit for longer than this were booked too often; a caller who leaves is seen here late, ms. */
const OVERLAP_MS_MAX = 250;

export class SoakNode {
  readonly id: string;
  readonly #maxInFlight: number;
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #server: Server | null = null;
  #running = 0;
  #overFromMs = Number.NaN;
  port = 0;
  /** `held`: what comes is answered once it is healed. */
  fault: Fault | "held" | null = null;
  #held: (() => void)[] = [];
  requests = 0;
  doubleBooked = 0;

  constructor(id: string, maxInFlight: number) {
    this.id = id;
    this.#maxInFlight = maxInFlight;
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => this.#serve(request, response));
    server.keepAliveTimeout = 60_000;
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ port: this.port, host: "127.0.0.1" }, resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  /** Closes its port and resets what is open, as the end of its process does. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    for (const socket of this.#sockets) socket.resetAndDestroy();
    if (server !== null) await new Promise((resolve) => server.close(resolve));
  }

  async setFault(fault: Fault): Promise<void> {
    this.fault = fault;
    if (fault === "killed") await this.kill();
  }

  async heal(): Promise<void> {
    if (this.fault === "killed") await this.start();
    // what hangs has hung until somebody else ended it
    this.fault = null;
    for (const answer of this.#held.splice(0)) answer();
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    await this.kill();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    if (request.method === "GET") {
      if (this.fault === "hung") return;
      response.writeHead(this.fault === "errors" ? 500 : 200).end("{}");
      return;
    }
    this.requests += 1;
    this.#count(1);
    response.once("close", () => this.#count(-1));
    response.on("error", () => undefined);
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => this.#answer(Buffer.concat(pieces).toString(), request.url ?? "", response));
    request.on("error", () => undefined);
  }

  #answer(body: string, path: string, response: ServerResponse): void {
    const id = /"user":"([^"]+)"/.exec(body)?.[1] ?? "";
    const pace = this.fault === "slow" ? 8 : 1;
    switch (this.fault) {
      case "hung":
        return;
      case "held":
        this.#held.push(() => this.#answer(body, path, response));
        return;
      case "errors":
        response.writeHead(500, { "content-type": "application/json" }).end('{"error":{"message":"out of order"}}');
        return;
      case "overloaded":
        response
          .writeHead(503, { "retry-after": "1", "content-type": "application/json" })
          .end('{"error":{"message":"busy"}}');
        return;
      case "resets":
        this.#later(2, () => response.socket?.resetAndDestroy());
        return;
      default:
        break;
    }
    if (body.includes('"stream":true')) this.#stream(id, pace, response);
    else {
      const answer = path.endsWith("/embeddings") ? JSON.stringify({ object: "list", id, data: [] }) : chatAnswer(id);
      this.#later(5 * pace, () => response.writeHead(200, { "content-type": "application/json" }).end(answer));
    }
  }

  #stream(id: string, pace: number, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let sent = 0;
    const next = (): void => {
      if (response.destroyed) return;
      if (this.fault === "resets") return void response.socket?.resetAndDestroy();
      if (sent === EVENTS) return void response.end(DONE);
      response.write(token(sent === EVENTS - 1 ? id : `t${sent}`, sent === EVENTS - 1 ? "stop" : null));
      sent += 1;
      this.#later(4 * pace, next);
    };
    next();
  }

  #later(ms: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, ms);
    this.#timers.add(timer);
  }

  #count(change: number): void {
    this.#running += change;
    const isOver = this.#running > this.#maxInFlight;
    if (!isOver) this.#overFromMs = Number.NaN;
    else if (Number.isNaN(this.#overFromMs)) this.#overFromMs = performance.now();
    else if (performance.now() - this.#overFromMs > OVERLAP_MS_MAX) {
      this.doubleBooked += 1;
      this.#overFromMs = performance.now();
    }
  }
}

/** Events of a stream. */
const EVENTS = 20;
