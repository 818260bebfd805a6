/** What the control thread and the thread of kept decisions say to each other. Structured-cloneable. */

import type { DecisionJson } from "@zml/protocol/admin";
import type { StoreFaultKind } from "../../store/store-fault.ts";
import type { DecisionFilter } from "../recent-decisions.ts";
import type { IndexedName, NodeChange } from "./decision-database.ts";
import type { FleetState } from "./fleet-state.ts";

/** How much is kept. */
export interface KeepBounds {
  readonly days: number;
  readonly bytes: number;
}

/** `workerData` of the thread. */
export interface KeptStart {
  readonly path: string;
  readonly rings: readonly { readonly buffer: SharedArrayBuffer; readonly records: number; readonly from: number }[];
  /** Unix ms of engine time 0. */
  readonly originMs: number;
  /** Of decision ids. */
  readonly tail: number;
  readonly keep: KeepBounds;
}

/** Where a page of kept decisions goes on: a chunk, and records of it that have been looked at. */
export interface KeptPlace {
  readonly chunk: number;
  readonly skip: number;
}

/** A page of kept decisions. */
export interface KeptPage {
  readonly items: readonly DecisionJson[];
  readonly next: KeptPlace | null;
  readonly lookedAt: number;
}

/** Calls of the thread. */
export interface KeptCalls {
  find: { args: { worker: number; sequence: number; unixMs: number; id: string }; result: DecisionJson | null };
  page: {
    args: {
      filter: Omit<DecisionFilter, "from">;
      /** Null: the newest. */
      from: KeptPlace | null;
      /** Of this process: records from these sequences on are told from the ring, by worker. */
      inRing: readonly number[];
    };
    result: KeptPage;
  };
  /** Writes what was read so far. */
  flush: { args: null; result: null };
  backup: { args: { path: string }; result: null };
}
export type KeptCallName = keyof KeptCalls;

/** What the thread does and has done since it began. */
export interface KeptCounts {
  /** `degraded`: the last write failed for the reason that is given. */
  readonly state: "ok" | "degraded";
  readonly reason: string | null;
  /** Records that were written. */
  readonly kept: number;
  /** Records that were overwritten in a ring before they were read, and of those the ones lost to a store that failed. */
  readonly overwritten: number;
  readonly lostToStore: number;
  /** Records without an outcome: their attempt ran for longer than the ring remembers. */
  readonly unfinished: number;
  /** In the file. */
  readonly records: number;
  readonly bytes: number;
  readonly oldestAtMs: number | null;
  readonly newestAtMs: number | null;
  /** Of this thread, ms: what keeping costs. */
  readonly cpuMs: number;
  /** Read so far, by worker. */
  readonly positions: readonly number[];
}

export type ToKeptThread =
  | {
      readonly kind: "notes";
      readonly atMs: number;
      readonly names: readonly IndexedName[];
      readonly state: FleetState | null;
      readonly changes: readonly NodeChange[];
    }
  | { readonly kind: "configure"; readonly keep: KeepBounds }
  | { readonly kind: "call"; readonly id: number; readonly name: KeptCallName; readonly args: unknown }
  | { readonly kind: "close" };

export type FromKeptThread =
  | { readonly kind: "counts"; readonly counts: KeptCounts }
  | { readonly kind: "done"; readonly id: number; readonly result: unknown }
  | { readonly kind: "failed"; readonly id: number; readonly fault: StoreFaultKind; readonly message: string };
