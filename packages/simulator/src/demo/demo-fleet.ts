import { spawnFakeFleet } from "../fake/spawned-fleet.ts";
import type { DemoNode, DemoPolicy } from "./demo-config.ts";

/** Serving nodes that the demo can kill and bring back, with the policies that suit them. */
export type DemoFleet = {
  /** For people: "7 fake nodes". */
  readonly title: string;
  readonly model: string;
  readonly nodes: readonly DemoNode[];
  readonly policies: readonly DemoPolicy[];
  readonly speedUp: number;
  readonly maxPromptTokens: number;
  readonly maxOutputTokens: number;
  /** Enough at one time to see what a node gives when it is busy. */
  readonly warmUpCallsPerNode: number;
  /** As SIGKILL: listener and sockets are gone at once. */
  kill(id: string): Promise<void>;
  /** Brings a killed node back on its port; resolves when it listens. */
  start(id: string): Promise<void>;
  stop(): Promise<void>;
};

type NodeKind = {
  readonly family: string;
  readonly engine: DemoNode["engine"];
  readonly hardware: string;
  readonly usdPerGpuHour: number;
  readonly ids: readonly string[];
  readonly maxSequences: number;
};

/** List prices of smaller clouds, USD per GPU-hour, 2026. */
const KINDS: readonly NodeKind[] = [
  {
    family: "H100",
    engine: "vllm",
    hardware: "H100-SXM-80GB/llama-3-8b/bf16/1",
    usdPerGpuHour: 2.99,
    ids: ["h100-a", "h100-b"],
    maxSequences: 256,
  },
  {
    family: "MI300X",
    engine: "vllm",
    hardware: "MI300X-192GB/llama-3-8b/bf16/1",
    usdPerGpuHour: 1.99,
    ids: ["mi300x-a", "mi300x-b"],
    maxSequences: 256,
  },
  {
    family: "A100",
    engine: "tgi",
    hardware: "A100-SXM-80GB/llama-3-8b/bf16/1",
    usdPerGpuHour: 1.49,
    ids: ["a100-a"],
    maxSequences: 128,
  },
  {
    family: "L40S",
    engine: "llamacpp",
    hardware: "L40S-48GB/llama-3-8b/fp8/1",
    usdPerGpuHour: 0.86,
    ids: ["l40s-a", "l40s-b"],
    maxSequences: 32,
  },
];

const MODEL = "llama-3-8b";
/** Room for the longest row of the trace: 6,335 tokens of prompt, 937 of output. */
const CONTEXT_TOKENS = 16_384;

/** Targets for the trace's answers: 164 tokens in the mean, 450 at the 95th percentile. */
const POLICIES: readonly DemoPolicy[] = [
  { name: "interactive", costPriority: "latency", targetMs: 4000, tiers: [["H100"], ["MI300X"]], share: 0.35 },
  { name: "chat", costPriority: "balanced", targetMs: 6000, tiers: [["MI300X", "H100"], ["A100"]], share: 0.35 },
  {
    name: "batch",
    costPriority: "cost",
    targetMs: 30_000,
    tiers: [["L40S", "A100"], ["MI300X"], ["H100"]],
    share: 0.3,
  },
];

/** Starts the mixed fleet of fake nodes in a child process, which ends with this one. */
export async function startFakeDemoFleet(options: { speedUp: number; seed: number }): Promise<DemoFleet> {
  const { speedUp, seed } = options;
  const members = KINDS.flatMap((kind) => kind.ids.map((id) => ({ ...kind, id })));
  const spawned = await spawnFakeFleet({
    nodes: members.map(({ id, engine, hardware, maxSequences }, index) => ({
      id,
      engine,
      hardware,
      maxSequences,
      model: MODEL,
      speedUp,
      seed: seed + index,
      stepNoiseSigma: 0.05,
      maxModelLen: CONTEXT_TOKENS,
      httpThreads: 64,
      record: false,
    })),
  });
  const nodes = members.map(({ id, family, engine, usdPerGpuHour }, index): DemoNode => {
    const url = spawned.nodes[index]?.url ?? "";
    return { id, url, family, engine, gpus: 1, usdPerGpuHour };
  });
  return {
    title: `${nodes.length} fake nodes of ${KINDS.length} families`,
    model: MODEL,
    nodes,
    policies: POLICIES.map((policy) => ({ ...policy, targetMs: Math.ceil(policy.targetMs / speedUp) })),
    speedUp,
    maxPromptTokens: Number.POSITIVE_INFINITY,
    maxOutputTokens: Number.POSITIVE_INFINITY,
    warmUpCallsPerNode: 24,
    kill: async (id) => {
      await spawned.command(id, { kind: "kill", how: "rst" });
    },
    start: async (id) => {
      await spawned.command(id, { kind: "start" });
    },
    stop: () => spawned.stop(),
  };
}
