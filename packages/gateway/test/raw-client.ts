/** A caller on a raw socket: sends what a test scripts, byte by byte, and leaves when it says so. */

import { connect, type Socket } from "node:net";
import { FIXTURE_MODEL, until } from "./plane-fixture.ts";

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  /** Without its chunk framing. */
  body: Buffer;
}

export class RawClient {
  readonly socket: Socket;
  #pieces: Buffer[] = [];
  /** Bytes that came. */
  bytes = 0;
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (piece) => {
      this.#pieces.push(piece);
      this.bytes += piece.length;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
    });
  }

  static open(port: number): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new RawClient(socket)));
      socket.once("error", reject);
    });
  }

  get received(): Buffer {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0] as Buffer;
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  /** Leaves at once: a reset. */
  kill(): void {
    this.socket.resetAndDestroy();
  }

  /** Waits for a text in what came. */
  waitFor(text: string): Promise<void> {
    return until(() => this.text.includes(text), `the answer ${JSON.stringify(text)}`);
  }

  closed(): Promise<void> {
    return until(() => this.isClosed, "the close of the connection");
  }

  /** The first answer, once it is whole. */
  async answer(): Promise<RawAnswer> {
    await until(() => this.answers().length > 0 || this.isClosed, "an answer");
    const first = this.answers()[0];
    if (first === undefined) throw new Error(`the connection closed without a whole answer: ${this.text}`);
    return first;
  }

  /** The whole answers that came; interim ones are left out. */
  answers(): RawAnswer[] {
    const answers: RawAnswer[] = [];
    let rest = this.received;
    for (;;) {
      const end = rest.indexOf("\r\n\r\n");
      if (end < 0) return answers;
      const [statusLine = "", ...lines] = rest.toString("latin1", 0, end).split("\r\n");
      const status = Number(statusLine.split(" ")[1]);
      rest = rest.subarray(end + 4);
      if (status < 200) continue;
      const headers: Record<string, string> = {};
      for (const line of lines) {
        const colon = line.indexOf(":");
        headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
      }
      const read = bodyOf(headers, rest, this.isClosed);
      if (read === null) return answers;
      answers.push({ status, headers, body: read.body });
      rest = read.rest;
    }
  }
}

function bodyOf(
  headers: Record<string, string>,
  bytes: Buffer,
  isClosed: boolean,
): { body: Buffer; rest: Buffer } | null {
  const length = headers["content-length"];
  if (length !== undefined) {
    const size = Number(length);
    return bytes.length < size ? null : { body: bytes.subarray(0, size), rest: bytes.subarray(size) };
  }
  if (headers["transfer-encoding"] !== "chunked") return isClosed ? { body: bytes, rest: Buffer.alloc(0) } : null;
  const pieces: Buffer[] = [];
  let at = 0;
  for (;;) {
    const line = bytes.indexOf("\r\n", at);
    if (line < 0) return null;
    const size = Number.parseInt(bytes.toString("latin1", at, line), 16);
    if (bytes.length < line + 4 + size) return null;
    if (size === 0) return { body: Buffer.concat(pieces), rest: bytes.subarray(line + 4) };
    pieces.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 4 + size;
  }
}

/** A chat body. */
export function chatBody(more: Record<string, unknown> = {}): string {
  return JSON.stringify({
    model: FIXTURE_MODEL,
    messages: [{ role: "user", content: "hello" }],
    max_tokens: 8,
    ...more,
  });
}

/** The bytes of a request. */
export function post(
  body: string | Buffer,
  headers: Record<string, string> = {},
  path = "/v1/chat/completions",
): Buffer {
  const bytes = Buffer.from(body);
  const all = { host: "x", "content-type": "application/json", "content-length": String(bytes.length), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n`), bytes]);
}

/** Sends one request on a connection of its own and returns its answer. */
export async function ask(port: number, bytes: string | Buffer): Promise<RawAnswer> {
  const client = await RawClient.open(port);
  client.send(bytes);
  try {
    return await client.answer();
  } finally {
    client.socket.destroy();
  }
}
