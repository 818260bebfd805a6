/** The fleet and its policies as a replay needs them: what is kept beside the records. No address, no secret. */

import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { PolicyData } from "@zml/engine";

/** A node, as of the time of the state. Unknown numbers are null. */
export interface KeptNode {
  /** Index of its name (id at url) in the run. */
  readonly identity: number;
  readonly id: string;
  readonly account: string;
  readonly family: number;
  readonly gpus: number;
  /** Index into `NODE_STATES`. */
  readonly state: number;
  readonly usdPerHour: number | null;
  readonly maxInFlight: number | null;
  readonly concurrencyLimit: number | null;
  /** Models that it serves: index, KV memory and context, tokens. */
  readonly models: readonly {
    readonly model: number;
    readonly kvCapacityTokens: number | null;
    readonly contextTokens: number | null;
  }[];
}

export interface FleetState {
  readonly version: number;
  /** By index. */
  readonly families: readonly string[];
  readonly nodes: readonly KeptNode[];
  readonly models: readonly {
    readonly index: number;
    readonly account: string;
    readonly name: string;
    readonly policy: string | null;
  }[];
  /** The built-in ones of the accounts included; NaN stands as null. */
  readonly policies: readonly PolicyData[];
  readonly accounts: readonly { readonly name: string; readonly defaultPolicy: string | null }[];
  /** How often nodes are polled. */
  readonly pollEveryMs: number;
  readonly failover: { readonly maxAttempts: number; readonly windowMs: number; readonly retryBudget: number };
}

export function encodeFleetState(state: FleetState): Uint8Array {
  return deflateRawSync(JSON.stringify(state), { level: 1 });
}

/** @throws Error when the bytes are none. */
export function decodeFleetState(body: Uint8Array): FleetState {
  const state = JSON.parse(inflateRawSync(body).toString("utf8")) as FleetState;
  const number = (value: unknown) => (typeof value === "number" ? value : Number.NaN);
  return {
    ...state,
    policies: state.policies.map((policy) => ({
      ...policy,
      latencyTargetMs: number(policy.latencyTargetMs),
      ttftTargetMs: number(policy.ttftTargetMs),
      tokenTargetMs: number(policy.tokenTargetMs),
    })),
  };
}
