/** A node that speaks HTTP/2, scripted stream by stream, with a log of what it saw. */

import {
  createSecureServer,
  createServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { chatAnswer, DONE, token } from "./scripted-node.ts";

export interface H2Call {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly session: ServerHttp2Session;
  body: Buffer;
  isClosed: boolean;
  /** Code of its reset. */
  rstCode: number;
}

export type H2Script = (call: H2Call, index: number) => void;

export interface H2Node {
  readonly url: string;
  readonly port: number;
  readonly calls: H2Call[];
  readonly sessions: Set<ServerHttp2Session>;
  /** Connections so far. */
  connections: number;
  script: H2Script;
  stop(): Promise<void>;
}

export async function startH2Node(
  script: H2Script,
  options: {
    settings?: object;
    tls?: object;
    /** More options of the server. */
    server?: object;
    onSession?: (session: ServerHttp2Session) => void;
    port?: number;
  } = {},
): Promise<H2Node> {
  const settings = options.settings ?? {};
  const server =
    options.tls === undefined
      ? createServer({ settings, ...options.server })
      : createSecureServer({ settings, allowHTTP1: false, ...options.tls });
  server.on("session", (session: ServerHttp2Session) => {
    node.connections += 1;
    node.sessions.add(session);
    session.on("error", () => {});
    session.on("close", () => node.sessions.delete(session));
    options.onSession?.(session);
  });
  server.on("sessionError", (_error: Error, _session: Http2Session) => {});
  server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const call: H2Call = {
      stream,
      headers,
      session: stream.session as ServerHttp2Session,
      body: Buffer.alloc(0),
      isClosed: false,
      rstCode: -1,
    };
    const index = node.calls.push(call) - 1;
    stream.on("error", () => {});
    stream.on("close", () => {
      call.isClosed = true;
      call.rstCode = stream.rstCode;
    });
    const pieces: Buffer[] = [];
    stream.on("data", (piece: Buffer) => pieces.push(piece));
    stream.on("end", () => {
      call.body = Buffer.concat(pieces);
      if (!stream.destroyed) node.script(call, index);
    });
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const node: H2Node = {
    url: `${options.tls === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    port,
    calls: [],
    sessions: new Set(),
    connections: 0,
    script,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const session of node.sessions) session.destroy();
      }),
  };
  return node;
}

/** Streams for those who ask, plain answers for the others; both name the node. */
export function healthyH2(name: string): H2Script {
  return ({ stream, body }) => {
    if (/"stream"\s*:\s*true/.test(body.toString("latin1"))) {
      stream.respond({ ":status": 200, "content-type": "text/event-stream" });
      stream.end(token(name) + token("!", "stop") + DONE);
      return;
    }
    const text = chatAnswer(name);
    stream.respond({ ":status": 200, "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    stream.end(text);
  };
}
