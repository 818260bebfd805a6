/** Whether a node speaks HTTP/2, as traffic to it will. */

import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/** `alpn`: the handshake chose something else. `answer`: what came was no HTTP/2. `timeout`, `closed`: nothing came. */
export type Http2Answer = "spoken" | "alpn" | "answer" | "closed" | "timeout";

/** The preface of a client, and settings without an entry. */
const HELLO = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
const FRAME_HEAD_BYTES = 9;
/** A server begins with its settings (RFC 9113, 3.4). */
const SETTINGS = 4;

/** Says hello over an open socket, and ends it. Never rejects. */
export async function askHttp2(socket: Socket, signal: AbortSignal): Promise<Http2Answer> {
  if (socket instanceof TLSSocket && socket.alpnProtocol !== "h2") {
    socket.destroy();
    return "alpn";
  }
  const { promise, resolve } = Promise.withResolvers<Http2Answer>();
  let came = Buffer.alloc(0);
  socket.on("data", (bytes: Buffer) => {
    came = Buffer.concat([came, bytes]);
    if (came.length >= FRAME_HEAD_BYTES) resolve(came[3] === SETTINGS ? "spoken" : "answer");
  });
  socket.on("error", () => resolve("closed"));
  socket.once("close", () => resolve("closed"));
  const onAbort = (): void => resolve("timeout");
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  socket.write(HELLO);
  const answer = await promise;
  signal.removeEventListener("abort", onAbort);
  socket.destroy();
  return answer;
}
