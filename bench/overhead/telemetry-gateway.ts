/** A gateway of its own process, `on` as it is, `off` without evidence and metrics of requests. Prints its port. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatProblems, startGateway } from "zml";
import { readConfigFile } from "../../packages/gateway/src/commands/config-file.ts";
import { Money } from "../../packages/gateway/src/telemetry/money.ts";
import { RequestMetrics } from "../../packages/gateway/src/telemetry/request-metrics.ts";

const [state, text = ""] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "zml-bench-telemetry-"));
const path = join(folder, "zml.yaml");
writeFileSync(path, text);
const { config, source, secrets, errors } = await readConfigFile(path, process.env);
rmSync(folder, { recursive: true });
if (config === undefined || source === undefined) throw new Error(formatProblems(errors));
if (state === "off") {
  Money.prototype.takeAttempts = () => undefined;
  RequestMetrics.prototype.takeAttempts = () => undefined;
}
const worker = state === "off" ? "silent-worker.ts" : "../../packages/gateway/src/worker.ts";
const gateway = await startGateway({ config, secrets, source, workerUrl: new URL(worker, import.meta.url) });
process.stdout.write(`${gateway.dataAddress.port}\n`);
process.on("SIGTERM", () => {
  void gateway.stop(0).then(() => process.exit(0));
});
