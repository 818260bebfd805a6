import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

/** Starts a gateway, asks its probes and metrics, then its fleet, and says what was loaded each time. */
const SCRIPT = `
  import Module from "node:module";
  import { readConfig, startGateway } from "./src/index.ts";
  const text = "data: { listen: 127.0.0.1:0 }\\nadmin: { listen: 127.0.0.1:0 }\\nworkers: 1\\n";
  const read = readConfig(text, { fileName: "zml.yaml", env: {} });
  const gateway = await startGateway({ ...read, storeFolder: ":memory:" });
  const loaded = () => Object.keys(Module._cache).filter((path) => /node_modules.(fastify|find-my-way|zod-openapi)/.test(path)).length;
  const seen = [];
  for (const path of ["/healthz", "/readyz", "/metrics", "/admin/v1/fleet"]) {
    const { status } = await fetch(gateway.adminUrl + path);
    seen.push([path, status, loaded() > 0]);
  }
  await gateway.stop(0);
  console.log(JSON.stringify(seen));
`;

test("an idle gateway, its probes and its metrics do not load the framework; the first admin request does", async () => {
  const options = { cwd: join(import.meta.dirname, ".."), timeout: 60_000 };
  const { stdout } = await promisify(execFile)(process.execPath, ["-e", SCRIPT], options);
  assert.deepEqual(JSON.parse(stdout), [
    ["/healthz", 200, false],
    ["/readyz", 200, false],
    ["/metrics", 200, false],
    ["/admin/v1/fleet", 200, true],
  ]);
});
