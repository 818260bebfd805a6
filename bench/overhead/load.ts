/** A load client on raw sockets: cheap, closed loop, keep-alive. Counts whole answers only. */

import { connect, type Socket } from "node:net";

/** Longest run of load, ms. */
const LOAD_DEADLINE_MS = 60_000;

/** What a run of load saw. */
export interface LoadResult {
  answers: number;
  failures: number;
  seconds: number;
}

/** One request, as bytes. */
export function requestBytes(port: number, body: string, fields: Readonly<Record<string, string>> = {}): Buffer {
  const more = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\n${more.join("")}` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** A 1 KB chat body; the first word of its prompt says how the node answers. */
export function chatBody(kind: "plain" | "fast" | "paced" | "held" | "slow", bytes: number): string {
  const isStream = kind !== "plain";
  const body = (content: string): string =>
    JSON.stringify({
      model: "bench",
      stream: isStream,
      max_tokens: 100,
      messages: [{ role: "user", content }],
    });
  return body(`${kind} `.padEnd(Math.max(0, bytes - body("").length), "x"));
}

/** Sends `total` requests over `connections` sockets, one at a time on each. */
export function runLoad(options: {
  port: number;
  connections: number;
  total: number;
  request: Buffer;
}): Promise<LoadResult> {
  const { port, connections, total, request } = options;
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    let started = 0;
    let answers = 0;
    let failures = 0;
    let open = connections;
    // a proxy that stops answering must not stop the bench
    const deadline = setTimeout(
      () => reject(new Error(`no ${total} answers within ${LOAD_DEADLINE_MS} ms`)),
      LOAD_DEADLINE_MS,
    );
    const finish = (): void => {
      open -= 1;
      if (open > 0) return;
      clearTimeout(deadline);
      resolve({ answers, failures, seconds: (performance.now() - startedAt) / 1000 });
    };
    for (let index = 0; index < connections; index++) {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      const next = (): void => {
        if (started === total) {
          socket.destroy();
          return;
        }
        started += 1;
        socket.write(request);
      };
      readAnswers(socket, (isGood) => {
        if (isGood) answers += 1;
        else failures += 1;
        next();
      });
      socket.on("error", () => {
        failures += 1;
      });
      socket.on("close", finish);
      socket.on("connect", next);
    }
  });
}

/** Calls back once for each whole answer on a socket. */
export function readAnswers(socket: Socket, onAnswer: (isGood: boolean) => void): void {
  let head = "";
  let isChunked = false;
  let isGood = false;
  let remaining = -1;
  let tail = "";
  socket.on("data", (chunk: Buffer) => {
    let body = chunk;
    if (remaining < 0 && !isChunked) {
      head += chunk.toString("latin1");
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      isGood = head.startsWith("HTTP/1.1 200");
      const length = /\r\ncontent-length: (\d+)/i.exec(head.slice(0, end));
      isChunked = length === null;
      remaining = length === null ? 0 : Number(length[1]);
      body = Buffer.from(head.slice(end + 4), "latin1");
      head = "";
      tail = "";
    }
    if (isChunked) {
      tail = (tail + body.toString("latin1", Math.max(0, body.length - 8))).slice(-7);
      if (!tail.endsWith("\r\n0\r\n\r\n") && tail !== "0\r\n\r\n") return;
      isChunked = false;
      remaining = -1;
      onAnswer(isGood);
      return;
    }
    remaining -= body.length;
    if (remaining > 0) return;
    remaining = -1;
    onAnswer(isGood);
  });
}
