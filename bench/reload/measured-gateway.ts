/**
 * A gateway of its own process whose serving threads tell how long they stood still. It does what its parent says, one
 * thing at a time, and answers with what that took.
 */

import { once } from "node:events";
import { BroadcastChannel } from "node:worker_threads";
import { formatProblems, startGateway } from "zml";
import {
  isConfigFileAsRead,
  readConfigFile,
  readConfigFileAgain,
} from "../../packages/gateway/src/commands/config-file.ts";

/** What the parent says. */
export type Told = { readonly kind: "reload" } | { readonly kind: "pauses" } | { readonly kind: "stop" };

/** What it hears. */
export type Heard =
  | { readonly kind: "ready"; readonly dataPort: number; readonly adminPort: number }
  | { readonly kind: "reloaded"; readonly outcome: string; readonly tookMs: number }
  | { readonly kind: "pauses"; readonly workMs: number; readonly wallMs: number }
  | { readonly kind: "failed"; readonly message: string };

const [path = "", storeFolder = ""] = process.argv.slice(2);
const { config, source, secrets, errors } = await readConfigFile(path, process.env);
if (config === undefined || source === undefined) throw new Error(formatProblems(errors));
const gateway = await startGateway({
  config,
  secrets,
  source,
  storeFolder,
  isAsRead: (before) => isConfigFileAsRead(path, before),
  readAgain: (before) => readConfigFileAgain(path, process.env, before),
  workerUrl: new URL("measured-worker.ts", import.meta.url),
});
const channel = new BroadcastChannel("zml-bench-pauses");

function tell(heard: Heard): void {
  process.send?.(heard);
}

async function act(told: Told): Promise<void> {
  switch (told.kind) {
    case "reload": {
      const startMs = performance.now();
      const result = await gateway.reload();
      const outcome = result.kind === "refused" ? result.problems.slice(0, 3).join("; ") : result.kind;
      tell({ kind: "reloaded", outcome, tookMs: performance.now() - startMs });
      break;
    }
    case "pauses": {
      const heard = new Promise<{ workMs: number; wallMs: number }>((resolve) => {
        channel.onmessage = (event) => resolve((event as { data: { workMs: number; wallMs: number } }).data);
      });
      channel.postMessage("tell");
      tell({ kind: "pauses", ...(await heard) });
      break;
    }
    case "stop":
      await gateway.stop(0);
      process.exit(0);
  }
}

process.on("message", (told: Told) => {
  act(told).catch((error: unknown) => tell({ kind: "failed", message: String(error) }));
});
tell({ kind: "ready", dataPort: gateway.dataAddress.port, adminPort: gateway.adminAddress.port });
await once(process, "disconnect");
process.exit(0);
