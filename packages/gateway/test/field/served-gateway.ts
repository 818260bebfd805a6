/** `zml serve` as a process of its own: what signals and the process's own memory need. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { folder, PORTS, until } from "../control-fixture.ts";

export interface ServedGateway {
  /** Host and port of the data port. */
  readonly data: string;
  readonly port: number;
  readonly process: ChildProcess;
  /** Memory of the process, MiB (Linux). */
  rssMib(): number;
}

/** Starts it on this configuration and waits until it knows the model `m`; it goes with the test. */
export async function serve(t: TestContext, text: string): Promise<ServedGateway> {
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, `${PORTS}${text}`);
  const zml = join(import.meta.dirname, "../../bin/zml.mjs");
  const served = spawn(process.execPath, [zml, "serve", "-c", path], { stdio: ["ignore", "pipe", "ignore"] });
  t.after(() => served.kill("SIGKILL"));
  let stdout = "";
  served.stdout.setEncoding("utf8").on("data", (piece: string) => {
    stdout += piece;
  });
  await until("it is ready", () => {
    assert.equal(served.exitCode, null);
    return stdout.includes("\n");
  });
  const data = /data=(\S+)/.exec(stdout)?.[1] ?? "";
  await until("it knows its model", async () => {
    const models = await fetch(`http://${data}/v1/models`);
    return (await models.text()).includes('"m"');
  });
  return {
    data,
    port: Number(data.split(":")[1]),
    process: served,
    rssMib() {
      const status = readFileSync(`/proc/${served.pid}/status`, "utf8");
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
    },
  };
}
