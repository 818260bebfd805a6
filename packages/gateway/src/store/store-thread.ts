/** The store's own thread: `node:sqlite` is synchronous, and a slow disk must stop nobody else. */

import type { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "@zml/engine";
import { openDatabase, openForReading } from "./open-database.ts";
import { createOperations, type StoreCallName, type StoreOperations, WITHOUT_TRANSACTION } from "./operations.ts";
import { StoreFault, type StoreFaultKind, toStoreFault } from "./store-fault.ts";
import type { FromStoreThread, StoreThreadStart, ToStoreThread } from "./store-messages.ts";

const { path } = workerData as StoreThreadStart;
assert(parentPort !== null, "the store's thread is started by the gateway");
const port = parentPort;

interface OpenStore {
  readonly database: DatabaseSync;
  readonly operations: StoreOperations;
  /** Nothing can be written; what is there can be read. */
  readonly isReadOnly: boolean;
}

let open: OpenStore | null = null;

function answer(message: FromStoreThread): void {
  port.postMessage(message);
}

/** Opens at the first call, and again while the file can't be opened, or only for reading. */
function opened(): OpenStore {
  if (open === null || open.isReadOnly) {
    const before = open;
    try {
      open = openedAs(openDatabase(path), false);
    } catch (error) {
      open = before ?? readable(error);
      return open;
    }
    before?.database.close();
  }
  return open;
}

/** What can be read although it can't be opened for writing. @throws why it can't be opened for writing. */
function readable(error: unknown): OpenStore {
  if (!(error instanceof StoreFault) || !UNWRITABLE.has(error.kind)) throw error;
  let database: DatabaseSync;
  try {
    database = openForReading(path);
  } catch (second) {
    // that it has to be migrated first is the better reason
    throw second instanceof StoreFault && second.kind === "read_only" ? second : error;
  }
  return openedAs(database, true);
}

function openedAs(database: DatabaseSync, isReadOnly: boolean): OpenStore {
  return { database, operations: createOperations(database), isReadOnly };
}

/** Faults behind which a file may still be read. */
const UNWRITABLE: ReadonlySet<StoreFaultKind> = new Set(["read_only", "unreachable", "disk_full", "disk_error"]);

/** @param name null: nothing but the opening. */
function run(name: StoreCallName | null, args: unknown): unknown {
  const { database, operations, isReadOnly } = opened();
  if (name === null) return null;
  const operation = operations[name] as (args: unknown) => unknown;
  if (WITHOUT_TRANSACTION.has(name)) return operation(args);
  database.exec(isReadOnly ? "BEGIN" : "BEGIN IMMEDIATE");
  try {
    const result = operation(args);
    database.exec("COMMIT");
    return result;
  } catch (error) {
    // on a full disk SQLite may have rolled back by itself
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

port.on("message", (message: ToStoreThread) => {
  if (message.kind === "close") {
    open?.database.close();
    port.close();
    return;
  }
  const { id } = message;
  try {
    answer({ kind: "done", id, result: run(message.name, message.args) });
  } catch (error) {
    const fault = toStoreFault(error, path);
    answer({ kind: "failed", id, fault: fault.kind, message: fault.message });
  }
});
