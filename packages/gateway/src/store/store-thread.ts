/** The store's own thread: `node:sqlite` is synchronous, and a slow disk must stop nobody else. */

import type { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "@zml/engine";
import { openDatabase } from "./open-database.ts";
import { createOperations, type StoreCallName, type StoreOperations, WITHOUT_TRANSACTION } from "./operations.ts";
import { toStoreFault } from "./store-fault.ts";
import type { FromStoreThread, StoreThreadStart, ToStoreThread } from "./store-messages.ts";

const { path } = workerData as StoreThreadStart;
assert(parentPort !== null, "the store's thread is started by the gateway");
const port = parentPort;

let open: { readonly database: DatabaseSync; readonly operations: StoreOperations } | null = null;

function answer(message: FromStoreThread): void {
  port.postMessage(message);
}

/** Opens at the first call, and again after the file could not be opened. */
function opened(): NonNullable<typeof open> {
  if (open === null) {
    const database = openDatabase(path);
    open = { database, operations: createOperations(database) };
  }
  return open;
}

/** @param name null: nothing but the opening. */
function run(name: StoreCallName | null, args: unknown): unknown {
  const { database, operations } = opened();
  if (name === null) return null;
  const operation = operations[name] as (args: unknown) => unknown;
  if (WITHOUT_TRANSACTION.has(name)) return operation(args);
  database.exec("BEGIN IMMEDIATE");
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
