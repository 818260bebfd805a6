/** The thread of kept decisions: `node:sqlite` is synchronous, and neither requests nor polls wait for a disk. */

import { parentPort, workerData } from "node:worker_threads";
import { assert } from "@zml/engine";
import { toStoreFault } from "../../store/store-fault.ts";
import { DecisionKeeper } from "./decision-keeper.ts";
import type { FromKeptThread, KeptCallName, KeptCalls, KeptStart, ToKeptThread } from "./kept-messages.ts";
import { findKept, pageOfKept } from "./read-kept.ts";

/** Between two reads of the rings, ms: at 10,000 decisions a second 2,500 records, of 16,384 that a ring has. */
const TICK_MS = 250;

assert(parentPort !== null, "the thread of kept decisions is started by the gateway");
const port = parentPort;
const start = workerData as KeptStart;
const keeper = new DecisionKeeper(start);
let told = "";

function answer(message: FromKeptThread): void {
  port.postMessage(message);
}

function tell(): void {
  const { user, system } = process.threadCpuUsage();
  const counts = keeper.counts((user + system) / 1000);
  // the thread's own time moves always, and alone it is no news
  const text = JSON.stringify({ ...counts, cpuMs: 0 });
  if (text === told) return;
  told = text;
  answer({ kind: "counts", counts });
}

const timer = setInterval(() => {
  keeper.tick(Date.now());
  tell();
}, TICK_MS);

const CALLS: { [K in KeptCallName]: (args: KeptCalls[K]["args"]) => Promise<KeptCalls[K]["result"]> } = {
  find: async (args) => findKept(keeper.reading(Date.now()), args),
  page: async (args) => pageOfKept(keeper.reading(Date.now()), args, keeper.run),
  flush: async () => {
    keeper.flush(Date.now());
    return null;
  },
  backup: async ({ path }) => {
    await keeper.reading(Date.now()).backup(path);
    return null;
  },
};

port.on("message", (message: ToKeptThread) => {
  switch (message.kind) {
    case "notes":
      keeper.note(message.atMs, message.names, message.state, message.changes);
      break;
    case "configure":
      keeper.configure(message.keep);
      break;
    case "call":
      void call(message);
      break;
    case "close":
      clearInterval(timer);
      keeper.close(Date.now());
      tell();
      port.close();
  }
});

async function call({ id, name, args }: Extract<ToKeptThread, { kind: "call" }>): Promise<void> {
  try {
    const operation = CALLS[name] as (args: unknown) => Promise<unknown>;
    answer({ kind: "done", id, result: await operation(args) });
  } catch (error) {
    const fault = toStoreFault(error, start.path);
    answer({ kind: "failed", id, fault: fault.kind, message: fault.message });
  }
  tell();
}
