/** Nodes of the fuzz run: one that records what it is asked, and one that answers what a case says, in both versions. */

import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { FLAG, FRAME, frame, PREFACE } from "../h2-frames.ts";
import { chatAnswer, plain } from "../scripted-node.ts";
import type { AnswerCase } from "./node-cases.ts";
import { markOf } from "./strict-requests.ts";

/** One request as the recording node read it. */
export interface Recorded {
  readonly requestLine: string;
  readonly mark: string | null;
  readonly body: Buffer;
}

export interface FuzzNode {
  readonly url: string;
  readonly sockets: ReadonlySet<Socket>;
  stop(): Promise<void>;
}

/** An endless answer ends here at last: what reads it without a bound has shown it by then, bytes. */
const ENDLESS_BYTES_MAX = 2_000_000;

/** Answers every request, and tells of every POST. What it can't read as a request is told as one, too. */
export function startRecordingNode(onRequest: (request: Recorded) => void): Promise<FuzzNode> {
  return listen((socket) => {
    readRequests(socket, (requestLine, body) => {
      if (requestLine.startsWith("GET ")) return void socket.write(plain(200, "{}"));
      const text = body.toString("latin1");
      onRequest({ requestLine, mark: markOf(text), body });
      socket.write(plain(200, chatAnswer("recorded")));
    });
  });
}

/** Answers a POST by the case that its mark names; polls as they should be. */
export function startHostileNode(answerOf: (mark: string) => AnswerCase): Promise<FuzzNode> {
  return listen((socket) => {
    readRequests(socket, (requestLine, body) => {
      if (requestLine.startsWith("GET ")) return void socket.write(plain(200, "{}"));
      void play(socket, answerOf(markOf(body.toString("latin1")) ?? ""));
    });
  });
}

/** The same in HTTP/2, frame by frame; polls come in HTTP/1.1. */
export function startHostileFrames(
  framesOf: (mark: string, stream: number) => { frames: readonly Buffer[]; after: "keep" | "fin" | "reset" },
): Promise<FuzzNode> {
  return listen((socket) => {
    let pending: Buffer = Buffer.alloc(0);
    socket.once("data", (first: Buffer) => {
      if (!first.toString("latin1").startsWith("PRI")) {
        readRequests(socket, () => void socket.write(plain(200, "{}")), first);
        return;
      }
      socket.write(Buffer.concat([frame(FRAME.settings, 0, 0), frame(FRAME.settings, FLAG.ack, 0)]));
      let skip = PREFACE.length;
      const take = (bytes: Buffer): void => {
        pending = Buffer.concat([pending, bytes]);
        if (pending.length < skip) return;
        pending = pending.subarray(skip);
        skip = 0;
        while (pending.length >= 9 && pending.length >= 9 + pending.readUIntBE(0, 3)) {
          const length = pending.readUIntBE(0, 3);
          const type = pending[3] as number;
          const stream = pending.readUInt32BE(5) & 0x7fffffff;
          const mark = markOf(pending.toString("latin1", 9, 9 + length));
          pending = pending.subarray(9 + length);
          if (type !== FRAME.data || mark === null) continue;
          const { frames, after } = framesOf(mark, stream);
          socket.write(Buffer.concat(frames));
          if (after === "fin") socket.end();
          if (after === "reset") socket.resetAndDestroy();
        }
      };
      take(first);
      socket.on("data", take);
    });
  });
}

async function play(socket: Socket, answer: AnswerCase): Promise<void> {
  for (const piece of answer.pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (answer.after === "fin") socket.end();
  // what was written has to leave before the reset, which drops the rest
  else if (answer.after === "reset") setImmediate(() => socket.resetAndDestroy());
  else if (answer.after === "endless") pour(socket);
}

function pour(socket: Socket): void {
  const piece = Buffer.from("x-more: y\r\n".repeat(500));
  let sent = 0;
  const go = (): void => {
    while (!socket.destroyed && sent < ENDLESS_BYTES_MAX) {
      sent += piece.length;
      if (!socket.write(piece)) return void socket.once("drain", go);
    }
  };
  go();
}

/** Reads requests with a content-length; anything else is told as it is, so that it counts as smuggled. */
function readRequests(socket: Socket, onRequest: (requestLine: string, body: Buffer) => void, first?: Buffer): void {
  let pending: Buffer = Buffer.alloc(0);
  const take = (bytes: Buffer): void => {
    pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes]);
    for (;;) {
      const end = pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = pending.toString("latin1", 0, end);
      const length = Number(/^content-length: *(\d+)\r?$/im.exec(head)?.[1] ?? 0);
      if (pending.length < end + 4 + length) return;
      const body = Buffer.from(pending.subarray(end + 4, end + 4 + length));
      pending = pending.subarray(end + 4 + length);
      onRequest(head.split("\r\n", 1)[0] ?? "", body);
    }
  };
  if (first !== undefined) take(first);
  socket.on("data", take);
}

async function listen(onSocket: (socket: Socket) => void): Promise<FuzzNode> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 }, resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
