/**
 * Nodes that never answer, one port each. Arguments: how many, and `accepting` (a connection opens and nothing comes) or
 * `full` (this thread stops before it accepts anything, so that once its short backlog is full the kernel drops what
 * else wants to connect, as a host that is gone does). Prints one line of JSON, the ports, and is ended by a signal.
 */

import { type AddressInfo, createServer } from "node:net";

const count = Number(process.argv[2]);
const isFull = process.argv[3] === "full";
const ports = await Promise.all(
  Array.from({ length: count }, async () => {
    const server = createServer((socket) => socket.on("error", () => {}));
    await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, resolve));
    return (server.address() as AddressInfo).port;
  }),
);
process.stdout.write(`${JSON.stringify(ports)}\n`, () => {
  // the ports stay open in the kernel, and nobody accepts
  if (isFull) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
