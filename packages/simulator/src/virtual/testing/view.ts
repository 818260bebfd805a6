/** A fleet as a baseline sees it, from plain numbers, for cases worked out by hand. */

import { seededRandom } from "../../seeded-random.ts";
import type { NodeConstants } from "../../step-model.ts";
import type { RoutedRequest, RouterView } from "../routers/router.ts";

export interface ViewNode {
  inFlight?: number;
  prefilling?: number;
  uncached?: number;
  kv?: number;
  cached?: number;
  promptRate?: number;
  family?: number;
  isUsable?: boolean;
  constants?: Partial<NodeConstants>;
}

/** A step of 10 ms + 1 ms per sequence, 1 ms per 1,000 cached tokens; prompts at 0.1 ms per token. */
const ROUND: NodeConstants = {
  baseMs: 10,
  usPerSequence: 1_000,
  nsPerCachedToken: 1_000,
  usPerPrefillToken: 100,
  nsPerSquaredPrefillToken: 0,
  kvCapacityTokens: 100_000,
};

export function viewOf(nodes: readonly ViewNode[], seed = 1): RouterView {
  const isUsable = Uint8Array.from(nodes, (node) => (node.isUsable === false ? 0 : 1));
  return {
    nowMs: 0,
    rows: nodes.length,
    isUsable,
    usableCount: isUsable.reduce((sum, value) => sum + value, 0),
    inFlight: Float64Array.from(nodes, (node) => node.inFlight ?? 0),
    prefilling: Int32Array.from(nodes, (node) => node.prefilling ?? 0),
    uncachedTokens: Float64Array.from(nodes, (node) => node.uncached ?? 0),
    kvTokens: Int32Array.from(nodes, (node) => node.kv ?? 0),
    promptRate: (row) => nodes[row]?.promptRate ?? 0,
    cachedTokens: (row) => nodes[row]?.cached ?? 0,
    family: Int32Array.from(nodes, (node) => node.family ?? 0),
    usdPerHour: Float64Array.from(nodes, () => 1),
    believed: nodes.map((node) => ({ ...ROUND, ...node.constants })),
    networkMs: new Float64Array(nodes.length),
    random: seededRandom(seed),
  };
}

export function requestOf(request: Partial<RoutedRequest> = {}): RoutedRequest {
  return {
    index: 0,
    promptTokens: 1_000,
    expectedTokens: 100,
    session: -1,
    blocks: null,
    klass: 0,
    ttftTargetMs: 500,
    tokenTargetMs: 25,
    responseTargetMs: Number.NaN,
    ...request,
  };
}
