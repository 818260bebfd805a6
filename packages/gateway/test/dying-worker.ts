/** A worker for tests that books a place and dies when it is told to, by what a connection sends. */

import { createServer } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { attachFleetTable, takePlace } from "@zml/engine";
import type { FromWorker, ToWorker, WorkerStart } from "../src/thread-messages.ts";

const start = workerData as WorkerStart;
const table = attachFleetTable(start.fleetTable);
const send = (message: FromWorker) => parentPort?.postMessage(message);

const server = createServer((socket) => {
  socket.on("data", (text) => {
    if (text.toString() === "die") throw new Error("told to die");
    takePlace(table, start.worker, 0);
    socket.end("booked");
  });
});

parentPort?.on("message", (message: ToWorker) => {
  switch (message.kind) {
    case "update":
      send({ kind: "applied", version: message.version });
      break;
    case "listen":
      server.listen({ host: message.host, port: message.port, reusePort: true }, () => {
        const address = server.address();
        send({ kind: "listening", port: typeof address === "object" && address !== null ? address.port : 0 });
      });
      break;
    case "drain":
      server.close();
      send({ kind: "drained", interrupted: 0 });
      parentPort?.close();
      break;
    default:
      break;
  }
});
