/** A gateway with fake nodes and a configuration file in a folder of its own, for the tests of the control thread. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type FakeNode, type FakeNodeOptions, startFakeNode } from "@zml/simulator";
import { isConfigFileAsRead, readConfigFile, readConfigFileAgain } from "../src/commands/config-file.ts";
import { startGateway } from "../src/control/gateway.ts";
import type { Gateway, GatewayOptions } from "../src/control/gateway-interface.ts";
import type { GatewayLog } from "../src/control/gateway-log.ts";
import type { IsAsRead, ReadAgain } from "../src/control/reload.ts";

/** Waits that are over long before this are the rule; it only ends what hangs. */
const PATIENCE_MS = 20_000;

export const PORTS = "data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\n";

/** What everything that is started goes with: a test, or a program that ends it itself. */
export interface Owner {
  after(end: () => unknown): void;
}

/** A folder that goes with the test. */
export function folder(t: Owner): string {
  const path = mkdtempSync(join(tmpdir(), "zml-control-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

/** A fake node that goes with the test. */
export async function fakeNode(t: Owner, options: Partial<FakeNodeOptions> = {}): Promise<FakeNode> {
  const node = await startFakeNode({
    engine: "vllm",
    hardware: "H100-SXM-80GB/llama-3-8b/bf16/1",
    model: "m",
    speedUp: 50,
    outputTokens: 8,
    ...options,
  });
  t.after(() => node.stop());
  return node;
}

/** What the gateway logged. */
export class LogLines implements GatewayLog {
  readonly lines: { level: string; fields: object; message: string }[] = [];

  debug(fields: object, message: string): void {
    this.lines.push({ level: "debug", fields, message });
  }

  info(fields: object, message: string): void {
    this.lines.push({ level: "info", fields, message });
  }

  warn(fields: object, message: string): void {
    this.lines.push({ level: "warn", fields, message });
  }

  error(fields: object, message: string): void {
    this.lines.push({ level: "error", fields, message });
  }

  has(level: string, pattern: RegExp): boolean {
    return this.lines.some(
      (line) => line.level === level && pattern.test(`${line.message} ${JSON.stringify(line.fields)}`),
    );
  }
}

export interface Started {
  gateway: Gateway;
  /** The configuration file. */
  path: string;
  log: LogLines;
  write(text: string): void;
}

/** Starts a gateway on a file with this text; it goes with the test. */
export async function startOn(
  t: Owner,
  text: string,
  options: Partial<GatewayOptions> & { env?: Record<string, string>; isWatched?: boolean } = {},
): Promise<Started> {
  const { env = {}, isWatched = false, ...rest } = options;
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, text);
  const readAgain: ReadAgain = (before) => readConfigFileAgain(path, env, before);
  const { config, source, secrets, errors } = await readConfigFile(path, env);
  assert.ok(config !== undefined && source !== undefined, JSON.stringify(errors));
  const log = new LogLines();
  const isAsRead: IsAsRead = (before) => isConfigFileAsRead(path, before);
  const configPath = isWatched ? path : null;
  const gateway = await startGateway({
    config,
    secrets,
    source,
    readAgain,
    isAsRead,
    configPath,
    log,
    seed: 1,
    ...rest,
  });
  t.after(() => gateway.stop(0));
  return { gateway, path, log, write: (next) => writeFileSync(path, next) };
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A chat request. */
export function chat(gateway: Gateway, body: object = {}, init: RequestInit = {}): Promise<Response> {
  return fetch(`${gateway.dataUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], ...body }),
    ...init,
  });
}

/** The decision id of an answer. */
export function decisionOf(response: Response): string {
  const [, id] = /decision="([^"]+)"/.exec(response.headers.get("x-zml-routing") ?? "") ?? [];
  assert.ok(id !== undefined, `the answer names a decision: ${response.headers.get("x-zml-routing")}`);
  return id;
}
