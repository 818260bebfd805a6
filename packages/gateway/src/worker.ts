/** Entry of a data-plane worker: attaches to the shared memory, follows the control thread's messages, serves. */

import { strict as assert } from "node:assert";
import { parentPort, workerData } from "node:worker_threads";
import {
  announceRoom,
  applyUpdate,
  attachEvidenceRing,
  attachFleetTable,
  attachLimitsTable,
  attachPrefixTable,
} from "@zml/engine";
import { createClock } from "./clock.ts";
import { DataPlane } from "./data-plane.ts";
import { DataServer } from "./data-server.ts";
import { OutcomeSamples } from "./failover/outcome-samples.ts";
import { abandonNodeSessions } from "./http2/node-session.ts";
import { ExportCounts } from "./telemetry/export-counts.ts";
import { RequestObserver } from "./telemetry/request-observer.ts";
import { RequestSamples } from "./telemetry/request-samples.ts";
import type { FromWorker, ToWorker, WorkerSettings, WorkerStart, WorkerUpdate } from "./thread-messages.ts";

assert(parentPort !== null, "this file runs as a worker");
const port = parentPort;
const start = workerData as WorkerStart;

let plane: DataPlane | null = null;
let server: DataServer | null = null;

function send(message: FromWorker): void {
  port.postMessage(message);
}

/**
 * An exception that nobody catches ends this thread, and no other. Left to Node, it may end the process: the thread's
 * JavaScript stops at once, sockets that are read in the same turn of its loop are still handed to HTTP/2, and DATA of a
 * stream that nobody could be told of is a failed assertion there (`onread->IsFunction()`, Node 24.22). So what reads is
 * closed first, and the thread ends in the next phase of its loop.
 */
process.on("uncaughtException", (error: unknown) => {
  send({ kind: "dying", error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  server?.abandon();
  abandonNodeSessions();
  setImmediate(() => process.exit(1));
});

port.on("message", (message: ToWorker) => {
  switch (message.kind) {
    case "update":
      update(message);
      break;
    case "listen":
      listen(message.host, message.port, message.taken);
      break;
    case "node_down":
      plane?.nodeDown(message.row);
      break;
    case "drain":
      drain(message.graceMs, message.isTakenOver);
      break;
  }
});

function update(message: WorkerUpdate): void {
  if (plane === null) {
    assert(message.settings !== undefined, "the first update holds the settings");
    plane = createPlane(message.settings);
  } else if (message.settings !== undefined) {
    plane.setSettings(message.settings);
    server?.applySettings();
  }
  for (const node of message.nodes ?? []) plane.setNode(node);
  if (message.directory !== undefined) applyUpdate(plane.directory, message.directory);
  for (const row of message.removeNodes ?? []) plane.removeNode(row);
  if (message.keys !== undefined) plane.setKeys(message.keys);
  announceRoom(plane.table);
  send({ kind: "applied", version: message.version });
}

function createPlane(settings: WorkerSettings): DataPlane {
  return new DataPlane({
    table: attachFleetTable(start.fleetTable),
    worker: start.worker,
    ring: attachEvidenceRing(start.evidenceRing, start.evidenceRecords),
    limits: attachLimitsTable(start.limitsTable),
    prefixes: start.prefixTable === null ? null : attachPrefixTable(start.prefixTable),
    clock: createClock(start.clockOriginMs),
    samples: new OutcomeSamples((samples) => send({ kind: "samples", samples })),
    connections: start.connections,
    requests: new RequestSamples((requests, dropped) => send({ kind: "requests", requests, dropped })),
    observer: new RequestObserver({
      counts: new ExportCounts(start.exportCounts),
      send: (batch) => send({ kind: "observed", batch }),
      settings: settings.observe,
    }),
    log: (level, text, fields) => send({ kind: "log", level, message: text, fields }),
    settings,
    seed: start.seed,
    ids: start.ids,
  });
}

function listen(host: string, listenPort: number, taken: readonly number[]): void {
  assert(plane !== null, "a worker listens once it has a configuration");
  server = new DataServer(plane);
  server.listen(host, listenPort, taken).then(
    ({ port: bound, fd }) => send({ kind: "listening", port: bound, fd }),
    (error: Error) => send({ kind: "listen_failed", message: error.message }),
  );
}

function drain(graceMs: number, isTakenOver: boolean): void {
  const drained = server?.drain(graceMs, isTakenOver) ?? Promise.resolve(0);
  drained
    .then((interrupted) => {
      plane?.samples.flush();
      plane?.requests.flush();
      plane?.observer.flush();
      plane?.destroy();
      send({ kind: "drained", interrupted });
      port.close();
    })
    .catch((error: unknown) => {
      throw error;
    });
}
