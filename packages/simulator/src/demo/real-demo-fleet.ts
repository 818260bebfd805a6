import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureLlamaServer, type LlamaServer, startLlamaServer, writeTinyGguf } from "../../real/index.ts";
import type { DemoNode, DemoPolicy } from "./demo-config.ts";
import type { DemoFleet } from "./demo-fleet.ts";

const MODEL = "tiny-llama";
const SLOTS = 8;

/** Two widths of the tiny model stand for a small and a large accelerator; the prices are made up to go with them. */
const KINDS = [
  { id: "cpu-small", family: "CPU-SMALL", usdPerGpuHour: 0.1, dim: 64, layers: 2 },
  { id: "cpu-large", family: "CPU-LARGE", usdPerGpuHour: 0.3, dim: 96, layers: 3 },
] as const;

const POLICIES: readonly DemoPolicy[] = [
  { name: "interactive", costPriority: "latency", targetMs: 2000, tiers: [["CPU-LARGE"], ["CPU-SMALL"]], share: 0.35 },
  { name: "chat", costPriority: "balanced", targetMs: 4000, tiers: [["CPU-LARGE", "CPU-SMALL"]], share: 0.35 },
  { name: "batch", costPriority: "cost", targetMs: 20_000, tiers: [["CPU-SMALL"], ["CPU-LARGE"]], share: 0.3 },
];

/**
 * Two real llama.cpp servers with tiny models. The server is installed on first use.
 * @throws Error with one line that says what is missing.
 */
export async function startRealDemoFleet(options: { seed: number; say(line: string): void }): Promise<DemoFleet> {
  const { seed, say } = options;
  const binary = await ensureLlamaServer({ log: say });
  const directory = await mkdtemp(join(tmpdir(), "zml-demo-models-"));
  const servers = new Map<string, LlamaServer>();
  const start = async (id: string): Promise<void> => {
    const port = servers.get(id)?.port ?? 0;
    const model = join(directory, `${id}.gguf`);
    servers.set(id, await startLlamaServer({ model, alias: MODEL, port, slots: SLOTS, contextTokens: 2048, binary }));
  };
  const stop = async (): Promise<void> => {
    await Promise.all([...servers.values()].map((server) => server.stop()));
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await Promise.all(
      KINDS.map(async ({ id, dim, layers }) => {
        await writeTinyGguf(join(directory, `${id}.gguf`), { dim, layers, seed });
        await start(id);
      }),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    title: "2 real llama.cpp servers as 2 families",
    model: MODEL,
    nodes: KINDS.map(({ id, family, usdPerGpuHour }): DemoNode => {
      return { id, url: servers.get(id)?.url ?? "", family, engine: "llamacpp", gpus: 1, usdPerGpuHour };
    }),
    policies: POLICIES,
    speedUp: 1,
    // Words that the tiny tokenizer doesn't know become a token for each byte.
    maxPromptTokens: 40,
    maxOutputTokens: 200,
    warmUpCallsPerNode: SLOTS,
    kill: async (id) => {
      const server = servers.get(id);
      server?.kill("SIGKILL");
      await server?.exited;
    },
    start,
    stop,
  };
}
