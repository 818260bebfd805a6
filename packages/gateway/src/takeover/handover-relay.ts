/**
 * A process of its own for some milliseconds: sends listening sockets to the process that takes over.
 *
 * Sockets pass between processes as messages of a Unix socket (SCM_RIGHTS), which Node does over the channel of
 * `child_process` alone. So the old gateway starts this as a child whose channel is the new one's connection
 * (NODE_CHANNEL_FD), with the sockets inherited behind it: 4 the admin port's, from 5 on those of the data port.
 *
 * The new gateway then holds the same sockets, with the same queues of connections that wait to be accepted. Two sockets
 * on one port (SO_REUSEPORT) would not do: what waits at the one that closes is reset by Linux, and so is a handshake that
 * is not complete.
 */

import { Socket } from "node:net";
import type { SocketNote } from "./handover-messages.ts";

const [count = "0"] = process.argv.slice(2);
const dataSockets = Number(count);

function send(note: SocketNote, handle?: unknown): void {
  // the handle itself: a net.Server would begin to accept on the other side before anybody listens there
  (process.send as (message: SocketNote, handle?: unknown) => boolean)(note, handle);
}

for (let index = 0; index <= dataSockets; index++) {
  // holds the descriptor, and neither reads from it nor accepts
  const held = new Socket({ fd: 4 + index, readable: false, writable: false });
  send({ kind: "listener", of: index === 0 ? "admin" : "data" }, Reflect.get(held, "_handle"));
}
send({ kind: "end", sockets: dataSockets + 1 });
// the other side closes the channel once it has all of them; then nothing keeps this process
process.channel?.ref();
process.once("disconnect", () => undefined);
