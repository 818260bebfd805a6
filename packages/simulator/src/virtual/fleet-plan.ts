/** Which nodes a run has, what they are, and what routers believe of them. */

import { nodeConstants } from "../node-constants.ts";
import { seededRandom } from "../seeded-random.ts";
import type { NodeConstants } from "../step-model.ts";

/** Some equal nodes. */
export interface NodeGroup {
  readonly family: string;
  /** Key of `data/node-params.csv`: `H100-SXM-80GB/llama-3-8b/bf16/1`. */
  readonly hardware: string;
  readonly count: number;
  /** Whole node. */
  readonly usdPerHour: number;
  /** There and back. */
  readonly networkMs: number;
}

export interface PlannedNode {
  readonly id: string;
  /** Index of the family in `FleetPlan.families`. */
  readonly family: number;
  readonly constants: NodeConstants;
  /** What routers with a node model believe: off by a systematic error. */
  readonly believed: NodeConstants;
  readonly usdPerHour: number;
  readonly networkMs: number;
}

export interface FleetPlan {
  /** In the order of the chain. */
  readonly families: readonly string[];
  readonly nodes: readonly PlannedNode[];
}

/**
 * Lays out the nodes of a fleet; a family's groups stand under one name, families in order of first mention.
 *
 * @param constantsError share by which each node's believed constants are too high or too low, drawn per node.
 * @throws Error when a hardware key is unknown.
 */
export function planFleet(
  groups: readonly NodeGroup[],
  { constantsError, seed }: { constantsError: number; seed: number },
): FleetPlan {
  const families = [...new Set(groups.map(({ family }) => family))];
  const random = seededRandom(seed + 15_485_863);
  const counts = new Map<string, number>();
  const nodes = groups.flatMap((group) => {
    const constants = nodeConstants(group.hardware);
    return Array.from({ length: group.count }, (): PlannedNode => {
      const number = (counts.get(group.family) ?? 0) + 1;
      counts.set(group.family, number);
      const factor = 1 + (random() < 0.5 ? -constantsError : constantsError);
      return {
        id: `${group.family.toLowerCase()}-${number}`,
        family: families.indexOf(group.family),
        constants,
        believed: scaled(constants, factor),
        usdPerHour: group.usdPerHour,
        networkMs: group.networkMs,
      };
    });
  });
  return { families, nodes };
}

/** Constants of a node on which every step takes so many times as long. */
function scaled(constants: NodeConstants, factor: number): NodeConstants {
  return {
    baseMs: constants.baseMs * factor,
    usPerSequence: constants.usPerSequence * factor,
    nsPerCachedToken: constants.nsPerCachedToken * factor,
    usPerPrefillToken: constants.usPerPrefillToken * factor,
    nsPerSquaredPrefillToken: constants.nsPerSquaredPrefillToken * factor,
    kvCapacityTokens: constants.kvCapacityTokens,
  };
}

/** USD per node and hour, and the node's hardware (§2.2 and §2.4 of the routing benchmark). */
const H100_8B = { family: "H100", hardware: "H100-SXM-80GB/llama-3-8b/bf16/1", usdPerHour: 2.99, networkMs: 1 };
const MI300X_8B = { family: "MI300X", hardware: "MI300X-192GB/llama-3-8b/bf16/1", usdPerHour: 1.99, networkMs: 1 };
const A100_8B = { family: "A100", hardware: "A100-SXM-80GB/llama-3-8b/bf16/1", usdPerHour: 1.49, networkMs: 1 };
const L40S_8B = { family: "L40S", hardware: "L40S-48GB/llama-3-8b/bf16/1", usdPerHour: 0.86, networkMs: 1 };
const L4_8B = { family: "L4", hardware: "L4-24GB/llama-3-8b/bf16/1", usdPerHour: 0.4, networkMs: 1 };
const H200_70B = { family: "H200", hardware: "H200-SXM-141GB/llama-3-70b/fp8/1", usdPerHour: 3.79, networkMs: 1 };
const MI300X_70B = { family: "MI300X", hardware: "MI300X-192GB/llama-3-70b/fp8/1", usdPerHour: 1.99, networkMs: 1 };
const H100X2_70B = { family: "H100x2", hardware: "H100-SXM-80GB/llama-3-70b/fp8/2", usdPerHour: 5.98, networkMs: 1 };

/** Fleets F1 to F6 of the benchmark (§4.1). */
export const FLEETS = {
  F1: [{ ...H100_8B, count: 8 }],
  F2: [
    { ...MI300X_8B, count: 4 },
    { ...H100_8B, count: 4 },
  ],
  F3: [
    { ...MI300X_8B, count: 2 },
    { ...H100_8B, count: 2 },
    { ...A100_8B, count: 3 },
    { ...L40S_8B, count: 4 },
  ],
  F4: [
    { ...MI300X_8B, count: 2 },
    { ...H100_8B, count: 2 },
    { ...A100_8B, count: 3 },
    { ...L40S_8B, count: 4 },
    { ...L4_8B, count: 8 },
  ],
  F5: [
    { ...H200_70B, count: 4 },
    { ...MI300X_70B, count: 4 },
    { ...H100X2_70B, count: 2 },
  ],
  F6: [
    { ...MI300X_8B, count: 18 },
    { ...H100_8B, count: 18 },
    { ...A100_8B, count: 27 },
    { ...L40S_8B, count: 37 },
  ],
} as const satisfies Readonly<Record<string, readonly NodeGroup[]>>;
export type FleetName = keyof typeof FLEETS;
