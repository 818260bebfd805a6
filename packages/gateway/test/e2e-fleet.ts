/** Two real llama.cpp servers of two families, and a gateway as a process of its own in front of them. */

import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import OpenAI from "openai";
import type { FleetReportJson, NodeReportJson } from "zml";
import { type LlamaServer, startLlamaServer } from "../../simulator/real/index.ts";
import { folder, until } from "./control-fixture.ts";

/** The model that callers ask for; each server has it under a name of its own, so that an answer tells who gave it. */
export const MODEL = "story";
export const POLL_INTERVAL_MS = 500;
export const COOLDOWN_MS = 2000;

/** The fleet: id of the node, and its family. */
export const FAMILIES = { h100: "H100", mi300x: "MI300X" } as const;
export type NodeId = keyof typeof FAMILIES;
const NODE_IDS = Object.keys(FAMILIES) as NodeId[];

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");
/** A start is a second or two; more on a machine that does a lot else. */
const START_DEADLINE_MS = 30_000;
/** Requests that a server runs at once; ZML lets a quarter more wait there, and parks the rest. */
export const SLOTS = 4;

export interface Fleet {
  readonly gateway: ServedGateway;
  /** The real client, which never tries again by itself: what it sees is what ZML did. */
  readonly client: OpenAI;
  server(id: NodeId): LlamaServer;
  /** Starts the server of a node again, on the port that it had. */
  restart(id: NodeId): Promise<void>;
  node(id: NodeId): Promise<NodeReportJson>;
}

export interface ServedGateway {
  readonly child: ChildProcess;
  /** HOST:PORT of the admin port. */
  readonly admin: string;
  report(): Promise<FleetReportJson>;
  /** What `zml explain ID` prints. */
  explain(id: string): Promise<string>;
  /** SIGTERM; returns how the process ended. */
  terminate(): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** What it logged: a line of JSON each. */
  log(): string;
}

export interface FleetOptions {
  /** Path of a GGUF file. */
  model: string;
  /** Silence of a node in mid-answer that breaks the answer. Default: ZML's own, 120,000. */
  idleMs?: number;
}

/** The name under which a server has the model, and which its answers carry. */
export function upstreamModel(id: NodeId): string {
  return `${MODEL}@${id}`;
}

/** Starts everything; it goes with the test. */
export async function startFleet(t: TestContext, { model, idleMs = 120_000 }: FleetOptions): Promise<Fleet> {
  const servers = new Map<NodeId, LlamaServer>();
  const startServer = async (id: NodeId): Promise<void> => {
    const options = { model, alias: upstreamModel(id), slots: SLOTS, contextTokens: 8192 };
    const port = servers.get(id)?.port ?? 0;
    const server = await startLlamaServer({ ...options, port, startDeadlineMs: START_DEADLINE_MS });
    t.after(() => server.stop());
    servers.set(id, server);
  };
  await Promise.all(NODE_IDS.map(startServer));
  const serverOf = (id: NodeId): LlamaServer => servers.get(id) ?? assert.fail(`${id} was started`);

  const nodes = NODE_IDS.map((id) =>
    JSON.stringify({
      id,
      url: serverOf(id).url,
      family: FAMILIES[id],
      engine: "llamacpp",
      models: [{ name: MODEL, upstream_model: upstreamModel(id) }],
    }),
  );
  const path = join(folder(t), "zml.yaml");
  writeFileSync(
    path,
    `data: { listen: 127.0.0.1:0 }
admin: { listen: 127.0.0.1:0 }
workers: 2
health: { poll_interval_ms: ${POLL_INTERVAL_MS} }
failover: { cooldown_ms: ${COOLDOWN_MS} }
timeouts: { idle_ms: ${idleMs} }
nodes:
${nodes.map((node) => `  - ${node}`).join("\n")}
policies:
  - { name: patient, cost_priority: balanced, queue_on_saturation: true, max_queue_ms: 60000,
      accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 1 }] }
models:
  - { name: ${MODEL}, policy: patient }
`,
  );
  const { gateway, data } = await serve(t, path);
  const client = new OpenAI({ baseURL: `http://${data}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
  const node = async (id: NodeId): Promise<NodeReportJson> => {
    const found = (await gateway.report()).nodes.find((one) => one.id === id);
    return found ?? assert.fail(`${id} is in the report`);
  };
  return { gateway, client, server: serverOf, restart: startServer, node };
}

/** Starts `zml serve` and waits for its line. */
async function serve(t: TestContext, path: string): Promise<{ gateway: ServedGateway; data: string }> {
  const child = spawn(process.execPath, [zml, "serve", "-c", path], { stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  const exited = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  await until("zml serve is ready", () => {
    assert.equal(child.exitCode, null, stderr);
    return stdout.includes("\n");
  });
  const [, data = "", admin = ""] = /^zml ready data=(\S+) admin=(\S+)\n$/.exec(stdout) ?? assert.fail(stdout);
  const gateway: ServedGateway = {
    child,
    admin,
    log: () => stderr,
    report: async () => (await (await fetch(`http://${admin}/admin/v1/fleet`)).json()) as FleetReportJson,
    explain: async (id) => (await promisify(execFile)(process.execPath, [zml, "explain", id, "--admin", admin])).stdout,
    terminate: async () => {
      child.kill("SIGTERM");
      const [code, signal] = await exited;
      return { code, signal };
    },
  };
  return { gateway, data };
}

/** Waits until no node has a request of ours and nothing is parked. */
export async function untilIdle({ gateway }: Fleet): Promise<void> {
  await until("nothing is in flight, and nothing is parked", async () => {
    const { nodes, totals } = await gateway.report();
    return totals.parked === 0 && nodes.every((node) => node.in_flight === 0);
  });
}
