/** Plays cases against the stage and prints one line of JSON for each; the same as cases.py. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { StageFacts } from "../stage.ts";

const { env } = process;

export const stage = JSON.parse(env["ZML_CLIENTS_STAGE"] ?? "null") as StageFacts;
export const MESSAGES = [{ role: "user" as const, content: "what is the weather like in Oslo?" }];
export const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string", enum: ["Oslo", "Rome"] }, days: { type: "integer", enum: [2] } },
  required: ["city", "days"],
  additionalProperties: false,
};
export const WANTED = { city: "Oslo", days: 2 };
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Long enough for a call to be at the node by then, also on a busy machine. */
export const HASTE_MS = 600;

/** For one case: the clients' own time-outs are ten minutes. */
const DEADLINE_MS = 30_000;

type Engine = "vllm" | "llamacpp" | "real";
type Play = (model: string) => unknown;
const cases: { name: string; engine: Engine | "fault"; play: Play }[] = [];

const ALL: readonly Engine[] = ["vllm", "llamacpp", "real"];

/** Registers a case for each of the engines that there are. */
export function test(name: string, play: Play, engines: readonly Engine[] = ALL): void {
  for (const engine of engines) if (stage.models[engine] !== null) cases.push({ name, engine, play });
}

/** Registers a case for the node that fails on command. */
export function testFault(name: string, play: Play): void {
  cases.push({ name, engine: "fault", play });
}

/** A package of the folder that the run has installed, which is not the repository's. */
// biome-ignore lint/suspicious/noExplicitAny: its types are not installed where these files are checked
export function load(name: string): any {
  return createRequire(join(env["ZML_CLIENTS_NODE"] ?? "", "package.json"))(name);
}

/** Its version, also where its exports leave out its package.json. */
export function versionOf(name: string): string {
  const path = join(env["ZML_CLIENTS_NODE"] ?? "", "node_modules", name, "package.json");
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

export async function arm(fault: string): Promise<void> {
  const answer = await fetch(`${stage.control}/arm/${fault}`, { method: "POST" });
  assert.equal(answer.status, 200, await answer.text());
}

interface Seen {
  calls: { status: number; path: string; waited_ms: number | null }[];
  node: { close_cause: string; headers: Record<string, string> }[];
}

export async function seen(): Promise<Seen> {
  return (await (await fetch(`${stage.control}/seen`)).json()) as Seen;
}

/** What the client got since `arm`, tries of its own included. */
export async function statuses(): Promise<number[]> {
  return (await seen()).calls.map(({ status }) => status);
}

/** It was refused with `Retry-After: 1`, waited that long, and got its answer. */
export async function assertWaited(): Promise<void> {
  const { calls } = await seen();
  assert.deepEqual(
    calls.map(({ status }) => status),
    [503, 200],
  );
  const waitedMs = calls[1]?.waited_ms ?? Number.NaN;
  assert.ok(waitedMs >= 950 && waitedMs < 5000, `it waited ${waitedMs} ms`);
}

/** The node was asked so often, and each time left before it had answered. */
export async function assertLeft(tries = 1): Promise<void> {
  const causes = (await seen()).node.map(({ close_cause }) => close_cause);
  assert.deepEqual(
    causes,
    Array.from({ length: tries }, () => "caller-closed"),
  );
}

// biome-ignore lint/suspicious/noExplicitAny: members of errors that are not typed here
export async function rejects(call: () => unknown): Promise<any> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  assert.fail("it was to throw");
}

export function routingOf(header: string | null | undefined): Record<string, string> {
  assert.ok(header, "the answer has x-zml-routing");
  const members = header.split(",").map((part) => part.trim().split("="));
  return Object.fromEntries(members.map(([name = "", value = ""]) => [name, value.replaceAll('"', "")]));
}

/** Plays what was registered; the exit code is 1 when a case failed. */
export async function run(client: string, pack: string, version: string): Promise<void> {
  const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
  say({ client, package: pack, version });
  for (const { name, engine, play } of cases) {
    if (!`${name} ${engine}`.includes(env["ZML_CLIENTS_CASE"] ?? "")) continue;
    const startedMs = performance.now();
    let problem: string | null = null;
    try {
      const model = engine === "fault" ? stage.fault_model : (stage.models[engine] ?? "");
      await within(DEADLINE_MS, Promise.resolve(model).then(play));
    } catch (error) {
      problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.exitCode = 1;
    }
    say({ case: name, engine, problem, ms: Math.round(performance.now() - startedMs) });
  }
}

async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`it took longer than ${ms} ms`)), ms);
  try {
    await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
