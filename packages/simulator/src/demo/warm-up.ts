import { Agent } from "node:http";
import { seededRandom } from "../seeded-random.ts";
import type { CallEnd } from "./call.ts";
import { call } from "./call.ts";
import type { DemoFleet } from "./demo-fleet.ts";
import { promptText } from "./workload.ts";

const PROMPT_TOKENS = 200;
/** On a fast node more than a second of work, so that two polls see it busy. */
const OUTPUT_TOKENS = 160;

export type WarmUpOptions = { readonly fleet: DemoFleet; readonly dataUrl: string; readonly signal: AbortSignal };

/**
 * Some plain calls for each family at one time, by the accelerator hint, under the policy that has all families. Before
 * it the gateway knows no node's speed, and a policy that weighs cost would stay with whatever family it tried first.
 */
export async function warmUp({ fleet, dataUrl, signal }: WarmUpOptions): Promise<readonly CallEnd[]> {
  const agent = new Agent({ keepAlive: true });
  const random = seededRandom(1);
  const widest = fleet.policies.reduce((a, b) => (b.tiers.flat().length > a.tiers.flat().length ? b : a));
  const calls = fleet.nodes.flatMap(({ family }) =>
    Array.from({ length: fleet.warmUpCallsPerNode }, () => {
      const chat = {
        model: fleet.model,
        policy: widest.name,
        accelerator: family,
        isStream: false,
        prompt: promptText(Math.min(PROMPT_TOKENS, fleet.maxPromptTokens), random),
        // A faster node gets more to do, or it would be idle again before a poll.
        maxTokens: Math.min(Math.ceil(OUTPUT_TOKENS * fleet.speedUp), fleet.maxOutputTokens),
      };
      return call(chat, { agent, dataUrl, signal, onHead: () => {} });
    }),
  );
  const ends = await Promise.all(calls);
  agent.destroy();
  return ends;
}
