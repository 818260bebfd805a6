/**
 * `zml serve` with workers that can be told to die: a line with the index of one, on standard input. A line `heap` has each
 * thread collect its garbage and say, in a line of standard output, what it holds.
 */

import { createInterface } from "node:readline";
import { ProcessLog } from "../../src/commands/log.ts";
import { serve } from "../../src/commands/serve.ts";
import { answerHeapOrders, orderHeaps } from "./soak-heap.ts";

const [config = ""] = process.argv.slice(2);
const log = new ProcessLog({ stream: process.stderr, level: "info", format: "json" });
const report = (kind: string) => (error: unknown) => {
  log.error({ kind, error: error instanceof Error ? error.stack : String(error) }, "an error that nobody caught");
};
process.on("unhandledRejection", report("unhandledRejection"));
process.on("uncaughtException", report("uncaughtException"));

const orders = new BroadcastChannel("zml-soak");
orders.unref();
answerHeapOrders("control");
const heaps = orderHeaps((live) => process.stdout.write(`heap ${JSON.stringify(live)}\n`));
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  if (line === "heap") heaps.order();
  else orders.postMessage(Number(line));
});

const stop = Promise.withResolvers<string>();
process.once("SIGTERM", stop.resolve);
process.exit(
  await serve(
    {
      env: process.env,
      out: (text) => process.stdout.write(text),
      error: (text) => process.stderr.write(text),
      screen: () => null,
      input: async () => "",
      ask: async () => null,
    },
    {
      config,
      log,
      signals: {
        stop: stop.promise,
        onReload: (callback) => process.on("SIGHUP", callback),
        onLogSwitch: () => undefined,
      },
      version: "soak",
      workerUrl: new URL("./soak-worker.ts", import.meta.url),
    },
  ),
);
