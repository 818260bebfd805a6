/** Streams whose tokens are numbered: a reader that misses one, or that is cut off, was touched. */

import { connect, type Socket } from "node:net";

/** Longest wait until all streams have begun, ms. */
const OPEN_DEADLINE_MS = 60_000;

/** Streams that are being read. */
export interface NumberedStreams {
  /** Streams that ended, broke, or missed a token, so far. */
  touched(): number;
  /** Longest time between two tokens of one stream since the last call, ms; tokens that are missing now count. */
  longestGapMs(): number;
  close(): void;
}

/** Sends `count` requests, each on a socket of its own; resolves when each has had its first token. */
export function openNumberedStreams(options: {
  port: number;
  count: number;
  request: Buffer;
}): Promise<NumberedStreams> {
  const { port, count, request } = options;
  return new Promise((resolve, reject) => {
    const streams = Array.from({ length: count }, () => ({ lastMs: Number.NaN, next: 0, isTouched: false }));
    const sockets: Socket[] = [];
    let begun = 0;
    let gapMs = 0;
    let isClosing = false;
    const close = (): void => {
      isClosing = true;
      for (const socket of sockets) socket.destroy();
    };
    const deadline = setTimeout(() => {
      close();
      reject(new Error(`${begun} of ${count} streams began within ${OPEN_DEADLINE_MS} ms`));
    }, OPEN_DEADLINE_MS);
    const api: NumberedStreams = {
      touched: () => streams.filter(({ isTouched }) => isTouched).length,
      longestGapMs() {
        const nowMs = performance.now();
        for (const { lastMs } of streams) gapMs = Math.max(gapMs, nowMs - lastMs);
        const longest = gapMs;
        gapMs = 0;
        return longest;
      },
      close,
    };
    for (const stream of streams) {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      sockets.push(socket);
      socket.on("connect", () => socket.write(request));
      socket.setEncoding("latin1");
      let rest = "";
      socket.on("data", (text: string) => {
        rest += text;
        const nowMs = performance.now();
        for (const [, number] of rest.matchAll(/"content":"token(\d+) "/g)) {
          if (Number(number) !== stream.next) stream.isTouched = true;
          stream.next = Number(number) + 1;
          if (Number.isNaN(stream.lastMs)) {
            begun += 1;
            if (begun === count) {
              clearTimeout(deadline);
              resolve(api);
            }
          } else gapMs = Math.max(gapMs, nowMs - stream.lastMs);
          stream.lastMs = nowMs;
        }
        rest = rest.slice(rest.lastIndexOf("data: ") + 1).slice(-512);
        rest = /"content":"token\d+ "/.test(rest) ? "" : rest;
      });
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (!isClosing) stream.isTouched = true;
      });
    }
  });
}
