/** A node on a raw socket that does exactly what a test scripts, byte by byte, and keeps a log of what it saw. */

import { createHash } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";

/** One request as a scripted node saw it. */
export interface NodeCall {
  readonly connection: number;
  readonly requestLine: string;
  /** Lower-case names; the last value of a name. */
  readonly headers: Readonly<Record<string, string>>;
  body: Buffer;
  readonly socket: Socket;
  /** True once the connection closed, whoever closed it. */
  isClosed: boolean;
  write(bytes: string | Buffer): void;
  /** Ends the connection in order. */
  fin(): void;
  /** Resets the connection. */
  rst(): void;
  sha256(): string;
}

export type NodeScript = (call: NodeCall, index: number) => void | Promise<void>;

export interface ScriptedNode {
  readonly url: string;
  readonly port: number;
  readonly calls: NodeCall[];
  /** Connections accepted so far. */
  connections: number;
  openSockets(): number;
  script: NodeScript;
  stop(): Promise<void>;
}

/** Starts one. `atHead`: the script runs once the head is here, not the body. */
export async function startScriptedNode(script: NodeScript, options: { atHead?: boolean } = {}): Promise<ScriptedNode> {
  const sockets = new Set<Socket>();
  const calls: NodeCall[] = [];
  const server: Server = createServer((socket) => {
    const connection = node.connections;
    node.connections += 1;
    sockets.add(socket);
    socket.setNoDelay(true);
    let pending: Buffer = Buffer.alloc(0);
    let call: NodeCall | null = null;
    let missing = 0;
    const pieces: Buffer[] = [];
    const mine: NodeCall[] = [];
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      for (const each of mine) each.isClosed = true;
    });
    const run = (ready: NodeCall): void => {
      Promise.resolve(node.script(ready, calls.indexOf(ready))).catch(() => {});
    };
    socket.on("data", (data) => {
      pending = pending.length === 0 ? data : Buffer.concat([pending, data]);
      for (;;) {
        if (call === null) {
          const end = pending.indexOf("\r\n\r\n");
          if (end < 0) return;
          call = callOf(socket, connection, pending.toString("latin1", 0, end));
          pending = pending.subarray(end + 4);
          missing = Number(call.headers["content-length"] ?? 0);
          calls.push(call);
          mine.push(call);
          if (options.atHead === true) run(call);
        }
        const taken = pending.subarray(0, missing);
        pieces.push(taken);
        missing -= taken.length;
        pending = pending.subarray(taken.length);
        if (missing > 0) return;
        call.body = Buffer.concat(pieces.splice(0));
        if (options.atHead !== true) run(call);
        call = null;
      }
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const node: ScriptedNode = {
    url: `http://127.0.0.1:${port}`,
    port,
    calls,
    connections: 0,
    openSockets: () => sockets.size,
    script,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
  return node;
}

function callOf(socket: Socket, connection: number, head: string): NodeCall {
  const [requestLine = "", ...lines] = head.split("\r\n");
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return {
    connection,
    requestLine,
    headers,
    body: Buffer.alloc(0),
    socket,
    isClosed: false,
    write: (bytes) => void socket.write(bytes),
    fin: () => void socket.end(),
    rst: () => void socket.resetAndDestroy(),
    sha256() {
      return createHash("sha256").update(this.body).digest("hex");
    },
  };
}

/** A response head. */
export function head(status: number, headers: Record<string, string> = {}): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} X\r\n${lines.join("")}\r\n`;
}

/** A whole plain answer. */
export function plain(status: number, body: string | Buffer, headers: Record<string, string> = {}): Buffer {
  const bytes = Buffer.from(body);
  const all = { "content-type": "application/json", "content-length": String(bytes.length), ...headers };
  return Buffer.concat([Buffer.from(head(status, all)), bytes]);
}

export const STREAM_HEAD = head(200, { "content-type": "text/event-stream", "transfer-encoding": "chunked" });
/** The end of a chunked body. */
export const LAST_CHUNK = "0\r\n\r\n";
export const DONE = "data: [DONE]\n\n";

/** One chunk of a chunked body. */
export function chunk(data: string | Buffer): Buffer {
  const bytes = Buffer.from(data);
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}

/** An event of a chat stream. */
export function token(text: string, finishReason: string | null = null): string {
  const choice = { index: 0, delta: { content: text }, finish_reason: finishReason };
  return `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [choice] })}\n\n`;
}

/** An error as a node puts it into a stream. */
export const ERROR_EVENT = 'data: {"error":{"message":"engine died","type":"InternalServerError","code":500}}\n\n';

/** A plain chat answer that says which node gave it. */
export function chatAnswer(text: string): string {
  const choice = { index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" };
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  return JSON.stringify({ id: "c", object: "chat.completion", choices: [choice], usage });
}

/** A script: every request gets this plain answer. */
export function answering(status: number, body: string, headers: Record<string, string> = {}): NodeScript {
  return (call) => call.write(plain(status, body, headers));
}

/** A script: every request gets this stream, in order and complete. */
export function streaming(...events: string[]): NodeScript {
  return (call) => {
    call.write(STREAM_HEAD);
    for (const event of events) call.write(chunk(event));
    call.write(LAST_CHUNK);
  };
}

/** A healthy node's script: streams for those who ask, plain answers for the others; both name it. */
export function healthy(name: string): NodeScript {
  return (call, index) => {
    if (/"stream"\s*:\s*true/.test(call.body.toString("latin1"))) {
      return streaming(token(name), token("!", "stop"), DONE)(call, index);
    }
    return answering(200, chatAnswer(name))(call, index);
  };
}
