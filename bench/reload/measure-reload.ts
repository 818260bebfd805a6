/** Runs the streams, the changes and the meters of `npm run bench:reload`. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startScript } from "../processes.ts";
import { median } from "../report.ts";
import type { Heard, Told } from "./measured-gateway.ts";
import { openNumberedStreams } from "./numbered-streams.ts";

export interface ReloadPlan {
  readonly streams: number;
  /** Nodes of the large configuration. */
  readonly nodes: number;
  readonly rounds: number;
  /** Without a change, before each round, ms. */
  readonly quietMs: number;
  say(text: string): void;
}

export interface MeasuredReload {
  readonly touched: number;
  readonly pauseMs: number;
  readonly pauseWallMs: number;
  readonly quietGapMs: number;
  readonly applyGapMs: number;
  /** Median time of each step, in their order. */
  readonly steps: readonly { readonly name: string; readonly tookMs: number }[];
}

/** What changes in a round, in this order: steps of the file are whole files, those of the API are requests. */
const FILE_STEPS = ["nodes_come", "policies_and_keys", "one_node", "unchanged", "nodes_go"] as const;
const API_STEPS = ["api_nodes_come", "api_one_of_each", "api_nodes_go"] as const;
const STEPS = [...FILE_STEPS, ...API_STEPS];
type FileStep = (typeof FILE_STEPS)[number];
type ApiStep = (typeof API_STEPS)[number];

/** Of the gateway to say that it is ready, and to do one thing, ms. */
const DEADLINE_MS = 120_000;

export async function measureReload(plan: ReloadPlan): Promise<MeasuredReload> {
  const folder = mkdtempSync(join(tmpdir(), "zml-reload-"));
  const node = await startScript("reload/token-node.ts", []);
  const path = join(folder, "zml.yaml");
  const write = (text: string): void => {
    // as editors and orchestrators do
    writeFileSync(`${path}.new`, text);
    renameSync(`${path}.new`, path);
  };
  write(fileText(node.port, "nodes_go", 0, plan.nodes));
  const gateway = await startGateway(path, join(folder, "store"));
  try {
    const body = JSON.stringify({ model: "bench", stream: true, messages: [{ role: "user", content: "go" }] });
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer bench-caller\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const request = Buffer.from(head + body);
    const streams = await openNumberedStreams({ port: gateway.dataPort, count: plan.streams, request });
    const changeByFile = async (step: FileStep, round: number): Promise<number> => {
      if (step !== "unchanged") write(fileText(node.port, step, round, plan.nodes));
      const { outcome, tookMs } = await gateway.reload();
      const expected = step === "unchanged" ? "unchanged" : "applied";
      if (outcome !== expected) throw new Error(`${step}: the reload ended as ${outcome}`);
      return tookMs;
    };
    const times = new Map<string, number[]>(STEPS.map((step) => [step, []]));
    let [quietGapMs, applyGapMs, pauseMs, pauseWallMs] = [0, 0, 0, 0];
    // the first round compiles, and counts for streams alone
    for (let round = 0; round <= plan.rounds; round += 1) {
      await delay(plan.quietMs);
      streams.longestGapMs();
      await gateway.pauses();
      await delay(plan.quietMs);
      const quietMs = streams.longestGapMs();
      const quiet = await gateway.pauses();
      plan.say(
        `round ${round}: quiet, pause ${quiet.workMs.toFixed(1)} of ${quiet.wallMs.toFixed(1)} ms, gap ${quietMs.toFixed(0)} ms`,
      );
      for (const step of STEPS) {
        const tookMs = isApiStep(step)
          ? await changeByApi(gateway.adminPort, step, extraNodes(node.port, plan.nodes))
          : await changeByFile(step, round);
        // what a change sets going, such as first polls, belongs to it
        await delay(plan.quietMs / STEPS.length);
        const gapMs = streams.longestGapMs();
        const { workMs, wallMs } = await gateway.pauses();
        const seen = `pause ${workMs.toFixed(1)} of ${wallMs.toFixed(1)} ms, gap ${gapMs.toFixed(0)} ms`;
        plan.say(`round ${round}: ${step} ${tookMs.toFixed(0)} ms, ${seen}`);
        if (round === 0) continue;
        times.get(step)?.push(tookMs);
        applyGapMs = Math.max(applyGapMs, gapMs);
        pauseMs = Math.max(pauseMs, workMs);
        pauseWallMs = Math.max(pauseWallMs, wallMs);
      }
      if (round > 0) quietGapMs = Math.max(quietGapMs, quietMs);
    }
    const touched = streams.touched();
    streams.close();
    const steps = [...times].map(([name, values]) => ({ name, tookMs: median(values) }));
    return { touched, pauseMs, pauseWallMs, quietGapMs, applyGapMs, steps };
  } finally {
    await gateway.stop();
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The file at one step of one round. The node that serves the streams, their policy and their key stay as they are. */
function fileText(port: number, step: FileStep, round: number, nodes: number): string {
  const isLarge = step !== "nodes_go";
  const hasOthers = step === "policies_and_keys" || step === "one_node";
  const extra = isLarge ? Array.from({ length: nodes }, (_, index) => extraNode(port, index, round, step)) : [];
  const policies = hasOthers
    ? Array.from({ length: 50 }, (_, index) => `  - { name: p${round}-${index}, cost_priority: latency }`)
    : [];
  return `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: 1
health: { poll_interval_ms: 600000 }
keys:
  - { name: bench, value_env: BENCH_KEY }
${hasOthers ? "  - { name: other, value_env: BENCH_OTHER_KEY }\n" : ""}policies:
  - { name: bench, cost_priority: balanced, accelerator_preference: [{ family: H100, priority: 1 }] }
${policies.join("\n")}
models:
  - { name: bench, policy: bench }
nodes:
  - { id: streams, url: "http://127.0.0.1:${port}", family: H100, engine: custom, models: [bench], max_in_flight: 100000, max_connections: 4096 }
${extra.join("\n")}
`;
}

/** A node as an operator writes it; one of them changes with `one_node`. */
function extraNode(port: number, index: number, round: number, step: FileStep): string {
  const family = index % 2 === 0 ? "MI300X" : "L40S";
  const limit = step === "one_node" && index === 0 ? 100 + round : 64;
  return `  - { id: extra-${index}, url: "http://127.0.0.1:${port}/extra/${index}", family: ${family}, engine: custom, gpus: 8, models: [other], max_in_flight: ${limit}, cost: { usd_per_gpu_hour: 1.99 } }`;
}

function isApiStep(step: FileStep | ApiStep): step is ApiStep {
  return step.startsWith("api_");
}

/** The same nodes as objects of the API. */
function extraNodes(port: number, count: number): object[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `api-${index}`,
    url: `http://127.0.0.1:${port}/api/${index}`,
    family: index % 2 === 0 ? "MI300X" : "L40S",
    engine: "custom",
    gpus: 8,
    models: ["other"],
    cost: { usd_per_gpu_hour: 1.99 },
  }));
}

/** Makes the changes of a step over the admin port. @returns how long it took until all were answered, ms. */
async function changeByApi(port: number, step: ApiStep, nodes: readonly object[]): Promise<number> {
  const ask = async (method: string, path: string, body?: unknown): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${port}/admin/v1/${path}`, {
      method,
      ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 400)}`);
  };
  const startMs = performance.now();
  switch (step) {
    case "api_nodes_come":
      await ask("POST", "apply", { nodes });
      break;
    case "api_one_of_each":
      await ask("PUT", "nodes/one", { spec: { ...nodes[0], id: "one" } });
      await ask("PUT", "policies/one", { spec: { cost_priority: "latency" } });
      await ask("POST", "keys", { name: "one" });
      for (const path of ["keys/one", "policies/one", "nodes/one"]) await ask("DELETE", path);
      break;
    case "api_nodes_go":
      await ask("POST", "apply?prune=true", { nodes: [] });
      break;
  }
  return performance.now() - startMs;
}

interface MeasuredGateway {
  readonly dataPort: number;
  readonly adminPort: number;
  reload(): Promise<{ outcome: string; tookMs: number }>;
  /** Since it was asked last. */
  pauses(): Promise<{ workMs: number; wallMs: number }>;
  stop(): Promise<void>;
}

async function startGateway(path: string, storeFolder: string): Promise<MeasuredGateway> {
  const child = fork(fileURLToPath(new URL("measured-gateway.ts", import.meta.url)), [path, storeFolder], {
    env: { ...process.env, BENCH_KEY: "bench-caller", BENCH_OTHER_KEY: "bench-other" },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const { dataPort, adminPort } = await hear(child, "ready");
  const say = (told: Told): void => {
    child.send(told);
  };
  return {
    dataPort,
    adminPort,
    reload() {
      const heard = hear(child, "reloaded");
      say({ kind: "reload" });
      return heard;
    },
    pauses() {
      const heard = hear(child, "pauses");
      say({ kind: "pauses" });
      return heard;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      say({ kind: "stop" });
      const killer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(killer);
    },
  };
}

/** The next message of a kind. */
async function hear<K extends Heard["kind"]>(child: ChildProcess, kind: K): Promise<Extract<Heard, { kind: K }>> {
  const settled = new AbortController();
  const signal = AbortSignal.any([settled.signal, AbortSignal.timeout(DEADLINE_MS)]);
  const ended = once(child, "exit", { signal }).then(() => [{ kind: "failed", message: "the gateway ended" }]);
  try {
    const [heard] = (await Promise.race([once(child, "message", { signal }), ended])) as [Heard];
    if (heard.kind === "failed") throw new Error(heard.message);
    if (heard.kind !== kind) throw new Error(`the gateway said ${heard.kind} in place of ${kind}`);
    return heard as Extract<Heard, { kind: K }>;
  } finally {
    ended.catch(() => undefined);
    settled.abort();
  }
}
