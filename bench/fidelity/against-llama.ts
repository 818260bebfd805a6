/**
 * The predictor beside real serving engines: llama.cpp servers on this machine's cores, one of a small and one of a larger
 * model, as two families. Nothing about them is known in advance; what is asked is how far predictions are off.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logNormalFactor, seededRandom } from "@zml/simulator";
import { createWorkload, type PredictionJson, predictionsOf, requestClasses } from "@zml/simulator/virtual";
import { startLlamaServer, writeTinyGguf } from "../../packages/simulator/real/index.ts";
import { drive } from "./drive.ts";
import { streamCall } from "./stream-call.ts";

export interface RealOutcome {
  readonly requests: number;
  readonly rps: number;
  /** A request alone, ms, by family. */
  readonly alone_ms: Readonly<Record<string, number>>;
  readonly prediction: PredictionJson | null;
}

const MODEL = "tiny";
const SLOTS = 4;
const SEED = 1;
const FAMILIES = [
  { name: "small", dim: 256, layers: 4, usdPerHour: 1 },
  { name: "large", dim: 512, layers: 4, usdPerHour: 1.5 },
] as const;
const PROMPT_TOKENS = 150;
const OUTPUT_TOKENS = 30;
/** Of what both servers could do. */
const LOAD = 0.35;
/** Requests before which errors are those of a cold start. */
const WARM_UP_SHARE = 0.3;

/** Runs so many requests and reports how they compare with what was predicted. */
export async function measureReal(requests: number, onProgress: (text: string) => void): Promise<RealOutcome> {
  const folder = await mkdtemp(join(tmpdir(), "zml-fidelity-"));
  const agent = new Agent({ keepAlive: false });
  const stops: (() => Promise<unknown>)[] = [];
  try {
    const urls: string[] = [];
    const aloneMs: Record<string, number> = {};
    for (const { name, dim, layers } of FAMILIES) {
      const model = join(folder, `${name}.gguf`);
      await writeTinyGguf(model, { dim, layers, heads: 8, seed: SEED });
      const server = await startLlamaServer({ model, alias: MODEL, slots: SLOTS, contextTokens: 2_048 });
      stops.push(() => server.stop());
      urls.push(server.url);
      const ask = {
        url: server.url,
        agent,
        model: MODEL,
        prompt: promptOf(PROMPT_TOKENS),
        outputTokens: OUTPUT_TOKENS,
      };
      // the first one also loads the model's pages
      await streamCall({ ...ask, onFirstToken: () => undefined });
      const startMs = performance.now();
      await streamCall({ ...ask, onFirstToken: () => undefined });
      aloneMs[name] = performance.now() - startMs;
    }
    // one core each: slots share it, and what one request alone leaves idle is about as much again
    const rps = LOAD * 2 * Object.values(aloneMs).reduce((sum, ms) => sum + 1000 / ms, 0);
    onProgress(`real servers: ${requests} requests at ${rps.toFixed(1)}/s`);
    const classes = requestClasses("T1");
    const workload = createWorkload({
      sources: [
        {
          trace: { format: "vidur", rows: rowsOf(requests), emptyRows: 0, rps: Number.NaN },
          share: 1,
          arrivals: { kind: "poisson" },
        },
      ],
      rps,
      durationS: requests / rps,
      classShares: classes.map(({ share }) => share),
      seed: SEED,
    });
    const constants = {
      baseMs: 5,
      usPerSequence: 1_000,
      nsPerCachedToken: 0,
      usPerPrefillToken: 500,
      nsPerSquaredPrefillToken: 0,
      kvCapacityTokens: SLOTS * 2_048,
    };
    const plan = {
      families: FAMILIES.map(({ name }) => name),
      nodes: FAMILIES.map(({ name, usdPerHour }, family) => ({
        id: name,
        family,
        constants,
        believed: constants,
        usdPerHour,
        networkMs: 0,
      })),
    };
    const records = await drive({
      plan,
      classes,
      workload,
      policy: "zml-balanced",
      urls,
      model: MODEL,
      dilation: 1,
      concurrencyLimit: SLOTS,
      overheadMs: 0,
      promptOf,
      seed: SEED,
    });
    const warmUpMs = (workload.atMs[Math.floor(workload.count * WARM_UP_SHARE)] as number) ?? 0;
    return {
      requests: workload.count,
      rps,
      alone_ms: aloneMs,
      prediction: predictionsOf(records, { plan, workload, warmUpMs }),
    };
  } finally {
    agent.destroy();
    await Promise.all(stops.map((stop) => stop()));
    await rm(folder, { recursive: true, force: true });
  }
}

/** Lengths of a log-normal law around the means. */
function rowsOf(count: number) {
  const random = seededRandom(SEED);
  return Array.from({ length: count }, () => ({
    atMs: Number.NaN,
    promptTokens: Math.min(800, Math.max(5, Math.round(PROMPT_TOKENS * logNormalFactor(random, 0.6)))),
    outputTokens: Math.min(200, Math.max(5, Math.round(OUTPUT_TOKENS * logNormalFactor(random, 0.6)))),
    session: -1,
    pauseMs: Number.NaN,
    blocks: null,
  }));
}

/** Roughly so many tokens of the test model, whose words are a few characters. */
function promptOf(tokens: number): string {
  return "the light of a river ".repeat(Math.ceil(tokens / 5)).slice(0, tokens * 4);
}
