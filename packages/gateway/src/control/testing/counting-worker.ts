/** A worker for tests: says after each turn of its loop how many updates it was handed in it. */

import { parentPort } from "node:worker_threads";
import type { FromWorker, ToWorker } from "../../thread-messages.ts";

const send = (message: FromWorker) => parentPort?.postMessage(message);
let handed: number[] = [];

parentPort?.on("message", (message: ToWorker) => {
  if (message.kind === "drain") {
    send({ kind: "drained", interrupted: 0 });
    parentPort?.close();
  }
  if (message.kind !== "update") return;
  handed.push(message.version);
  if (handed.length > 1) return;
  setImmediate(() => {
    send({ kind: "log", level: "info", fields: { handed: handed.join(" ") }, message: "handed" });
    for (const version of handed) send({ kind: "applied", version });
    handed = [];
  });
});
