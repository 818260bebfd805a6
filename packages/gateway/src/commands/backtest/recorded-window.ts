/** What is read of a window of kept records, and how what can't be back-tested is told. */

import type { OutsideCall, RecordedAttempt, Results, Traffic } from "@zml/simulator/backtest";
import type { WindowFleet } from "./read-fleet.ts";
import type { RecordedCharges } from "./recorded-charges.ts";

/** The parts of the simulator that are used here; it is loaded on use. */
export type Backtesting = typeof import("@zml/simulator/backtest");

/** What can't be back-tested, in words for whoever asked. */
export class BacktestError extends Error {
  override readonly name = "BacktestError";
  readonly code: "empty_window" | "unknown_fleet" | "too_many_records" | "draft" | "store";
  /** What is wrong with the draft, one for each place. */
  readonly errors: readonly { readonly path: string; readonly message: string }[];

  constructor(code: BacktestError["code"], message: string, errors: BacktestError["errors"] = []) {
    super(message);
    this.code = code;
    this.errors = errors;
  }
}

/** Why a request is not replayed. */
export interface Skipped {
  /** The node answered that the request itself is wrong. */
  caller_error: number;
  /** Its record has no outcome: its attempt outlived the ring, or still ran as the gateway stopped. */
  unfinished: number;
  /** Names of its model, policy or node are not known any more. */
  unknown_names: number;
  /** No node of the window serves its model. */
  unserved_model: number;
}

/** A capacity that decisions were made on. */
export interface RecordedSpeed {
  /** Since the window began, ms; the first may be before. */
  readonly atMs: number;
  readonly tokensPerSecond: number;
}

export interface RecordedWindow {
  readonly fromMs: number;
  readonly toMs: number;
  readonly traffic: Traffic;
  readonly happened: Results;
  readonly fleet: WindowFleet;
  /** By node and model: attempts that succeeded, of a sample of the window. */
  readonly attempts: ReadonlyMap<string, { node: number; model: number; attempts: RecordedAttempt[] }>;
  /** What ran shortly before the window, by time. */
  readonly earlier: readonly OutsideCall[];
  /** What came shortly after it, by time. */
  readonly later: readonly OutsideCall[];
  /** By node and model: capacities that decisions were made on, from when on, at least one. */
  readonly speeds: ReadonlyMap<string, readonly RecordedSpeed[]>;
  /** What answers were charged by. */
  readonly charges: RecordedCharges;
  readonly skipped: Skipped;
  readonly records: number;
  readonly lost: number;
  /** Requests that were decided under other settings of their policy than those that are in force. */
  readonly underOtherSettings: number;
  /** By model: prompt tokens as nodes counted them over those estimated. */
  readonly promptRatios: ReadonlyMap<number, number>;
  /** True: a gateway began within it, and knew nothing. */
  readonly isFromStart: boolean;
}

/** What was left out, in words. */
export function skippedText(skipped: Skipped): string {
  const words: Record<keyof Skipped, string> = {
    caller_error: "refused by the node for what was asked",
    unfinished: "without an outcome",
    unknown_names: "of models, policies or nodes whose names are lost",
    unserved_model: "of models that no node of the window serves",
  };
  const parts = (Object.keys(words) as (keyof Skipped)[]).flatMap((name) =>
    skipped[name] > 0 ? [`${skipped[name]} ${words[name]}`] : [],
  );
  return parts.length === 0 ? "none" : parts.join(", ");
}
