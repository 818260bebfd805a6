/**
 * A worker for tests that books a place and dies when it is told to, by what a connection sends. The query of its URL
 * may name a file of `listens`, which says whether the next ones are "ok" or "fail", over all its lives.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import { attachFleetTable, attachLimitsTable, takeAllowance, takePlace } from "@zml/engine";
import type { FromWorker, ToWorker, WorkerStart } from "../src/thread-messages.ts";

const start = workerData as WorkerStart;
const table = attachFleetTable(start.fleetTable);
const limits = attachLimitsTable(start.limitsTable);
const send = (message: FromWorker) => parentPort?.postMessage(message);

const server = createServer((socket) => {
  socket.on("data", (text) => {
    if (text.toString() === "die") throw new Error("told to die");
    takePlace(table, start.worker, 0);
    takeAllowance(limits, start.worker, { key: -1, account: 0 }, { tokens: 1, nowMs: 0 });
    socket.end("booked");
  });
});

function canListen(): boolean {
  const path = new URL(import.meta.url).searchParams.get("listens");
  if (path === null) return true;
  const [next, ...rest] = readFileSync(path, "utf8").split(" ");
  writeFileSync(path, rest.join(" "));
  return next !== "fail";
}

parentPort?.on("message", (message: ToWorker) => {
  switch (message.kind) {
    case "update":
      send({ kind: "applied", version: message.version });
      break;
    case "listen":
      if (!canListen()) {
        send({ kind: "listen_failed", message: "told to fail" });
        break;
      }
      server.listen({ host: message.host, port: message.port, reusePort: true }, () => {
        const address = server.address();
        send({ kind: "listening", port: typeof address === "object" && address !== null ? address.port : 0, fd: null });
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
