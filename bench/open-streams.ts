/** Streams that stay open: how a gateway looks while many callers wait for tokens. */

import { connect, type Socket } from "node:net";

/** Longest wait until all streams have begun, ms. */
const OPEN_DEADLINE_MS = 30_000;

/** Streams that are being read. */
export interface OpenStreams {
  /** Reads that brought something, so far. */
  reads(): number;
  /** Streams that ended by themselves: any makes a figure about open streams worthless. */
  ended(): number;
  close(): void;
}

/** Sends `count` requests, each on a socket of its own; resolves when each has had its first event. */
export function openStreams(options: { port: number; count: number; request: Buffer }): Promise<OpenStreams> {
  const { port, count, request } = options;
  return new Promise((resolve, reject) => {
    const sockets: Socket[] = [];
    let [begun, ended, reads] = [0, 0, 0];
    const close = (): void => {
      for (const socket of sockets) socket.destroy();
    };
    const deadline = setTimeout(() => {
      close();
      reject(new Error(`${begun} of ${count} streams began within ${OPEN_DEADLINE_MS} ms`));
    }, OPEN_DEADLINE_MS);
    for (let index = 0; index < count; index++) {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      sockets.push(socket);
      let hasBegun = false;
      socket.on("connect", () => socket.write(request));
      socket.on("data", (chunk: Buffer) => {
        reads += 1;
        if (hasBegun || !chunk.includes("data: ")) return;
        hasBegun = true;
        begun += 1;
        if (begun < count) return;
        clearTimeout(deadline);
        resolve({ reads: () => reads, ended: () => ended, close });
      });
      socket.on("error", () => undefined);
      socket.on("close", () => {
        ended += 1;
      });
    }
  });
}
