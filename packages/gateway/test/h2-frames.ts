/** A caller that writes HTTP/2 frame by frame, so that a test can send what no client would. */

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { until } from "./plane-fixture.ts";

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;

export const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/** A frame that came. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Bytes of a frame. */
export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A header block: every field as a literal that is not indexed, as Latin-1. */
export function block(fields: readonly (readonly [string, string])[]): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of fields) parts.push(Buffer.from([0]), text(name), text(value));
  return Buffer.concat(parts);
}

/** HPACK string without Huffman coding. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes]);
  const length = [127];
  let rest = bytes.length - 127;
  while (rest >= 128) {
    length.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  length.push(rest);
  return Buffer.concat([Buffer.from(length), bytes]);
}

export function uint32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, 4 * index);
  return bytes;
}

/** A setting as it stands in a SETTINGS frame. */
export function setting(id: number, value: number): Buffer {
  const bytes = Buffer.alloc(6);
  bytes.writeUInt16BE(id, 0);
  bytes.writeUInt32BE(value, 2);
  return bytes;
}

/** The fields of a POST of a chat request. */
export function postFields(more: readonly (readonly [string, string])[] = []): (readonly [string, string])[] {
  return [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", "/v1/chat/completions"],
    [":authority", "x"],
    ["content-type", "application/json"],
    ...more,
  ];
}

/** The frames of a POST of a chat request; `body` null: its stream stays open. */
export function postFrames(
  stream: number,
  body: string | null,
  more: readonly (readonly [string, string])[] = [],
): Buffer[] {
  const head = frame(FRAME.headers, FLAG.endHeaders, stream, block(postFields(more)));
  return body === null ? [head] : [head, frame(FRAME.data, FLAG.endStream, stream, Buffer.from(body))];
}

export class FrameClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  #pending: Buffer = Buffer.alloc(0);
  isClosed = false;
  /** What came before any frame, where it is HTTP/1.1. */
  text = "";

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
    });
    socket.on("data", (bytes) => {
      this.text += bytes.toString("latin1");
      this.#pending = Buffer.concat([this.#pending, bytes]);
      while (this.#pending.length >= 9) {
        const length = this.#pending.readUIntBE(0, 3);
        if (this.#pending.length < 9 + length) return;
        this.frames.push({
          type: this.#pending[3] as number,
          flags: this.#pending[4] as number,
          stream: this.#pending.readUInt32BE(5) & 0x7fffffff,
          payload: Buffer.from(this.#pending.subarray(9, 9 + length)),
        });
        this.#pending = this.#pending.subarray(9 + length);
      }
    });
  }

  /** Connects and sends nothing. `tls`: after a handshake. */
  static connect(port: number, tls?: ConnectionOptions): Promise<FrameClient> {
    return new Promise((resolve, reject) => {
      const onOpen = (): void => resolve(new FrameClient(socket));
      const socket: Socket =
        tls === undefined
          ? connect(port, "127.0.0.1", onOpen)
          : connectTls({ port, host: "127.0.0.1", ALPNProtocols: ["h2"], ...tls }, onOpen);
      socket.once("error", reject);
    });
  }

  /** Connects, and says what a client says first. */
  static async open(port: number, settings: Buffer = Buffer.alloc(0), tls?: ConnectionOptions): Promise<FrameClient> {
    const client = await FrameClient.connect(port, tls);
    client.send(PREFACE, frame(FRAME.settings, 0, 0, settings));
    await client.waitFor(({ type, flags }) => type === FRAME.settings && flags === FLAG.ack, "the settings' ACK");
    client.send(frame(FRAME.settings, FLAG.ack, 0));
    return client;
  }

  send(...bytes: (Buffer | string)[]): void {
    this.socket.write(
      Buffer.concat(bytes.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part))),
    );
  }

  /** Sends a POST; `body` null: its stream stays open. */
  post(stream: number, body: string | null, more: readonly (readonly [string, string])[] = []): void {
    this.send(...postFrames(stream, body, more));
  }

  /** The first frame that the claim holds for, once it came. */
  async waitFor(claim: (frame: Frame) => boolean, what: string): Promise<Frame> {
    await until(() => this.frames.some(claim) || this.isClosed, what);
    const found = this.frames.find(claim);
    if (found === undefined) throw new Error(`the connection closed without ${what}`);
    return found;
  }

  /** The error code of the GOAWAY that ends the connection; null: it closed without one. */
  async goaway(): Promise<number | null> {
    await until(() => this.isClosed, "the end of the connection");
    const last = this.frames.findLast(({ type }) => type === FRAME.goaway);
    return last === undefined ? null : last.payload.readUInt32BE(4);
  }

  /** The error code with which a stream was reset. */
  async resetCode(stream: number): Promise<number> {
    const reset = await this.waitFor((one) => one.type === FRAME.rstStream && one.stream === stream, "a reset");
    return reset.payload.readUInt32BE(0);
  }

  /** Body bytes of a stream that came so far. */
  bodyBytes(stream: number): number {
    return this.frames.reduce(
      (sum, one) => (one.type === FRAME.data && one.stream === stream ? sum + one.payload.length : sum),
      0,
    );
  }

  /** The body of a stream so far. */
  body(stream: number): Buffer {
    const isBody = (one: Frame): boolean => one.type === FRAME.data && one.stream === stream;
    return Buffer.concat(this.frames.filter(isBody).map(({ payload }) => payload));
  }

  /** Resolves when a stream was answered to its end. */
  answered(stream: number): Promise<Frame> {
    return this.waitFor(
      (one) => one.stream === stream && (one.flags & FLAG.endStream) !== 0 && one.type <= FRAME.headers,
      `the end of the answer on stream ${stream}`,
    );
  }

  close(): void {
    this.socket.destroy();
  }
}

/** A node that answers frame by frame. It says its settings, and nothing more by itself. */
export async function startFrameNode(
  onFrame: (frame: Frame, send: (...bytes: Buffer[]) => void, connection: number, leave: () => void) => void,
): Promise<{ url: string; connections(): number; stop(): void }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const connection = sockets.push(socket) - 1;
    socket.on("error", () => {});
    const send = (...bytes: Buffer[]): void => void socket.write(Buffer.concat(bytes));
    send(frame(FRAME.settings, 0, 0), frame(FRAME.settings, FLAG.ack, 0));
    let pending: Buffer = Buffer.alloc(0);
    let skip = PREFACE.length;
    socket.on("data", (bytes) => {
      pending = Buffer.concat([pending, bytes]);
      if (pending.length < skip) return;
      pending = pending.subarray(skip);
      skip = 0;
      while (pending.length >= 9) {
        const length = pending.readUIntBE(0, 3);
        if (pending.length < 9 + length) return;
        const one = {
          type: pending[3] as number,
          flags: pending[4] as number,
          stream: pending.readUInt32BE(5) & 0x7fffffff,
          payload: Buffer.from(pending.subarray(9, 9 + length)),
        };
        pending = pending.subarray(9 + length);
        onFrame(one, send, connection, () => void socket.end());
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => sockets.length,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
