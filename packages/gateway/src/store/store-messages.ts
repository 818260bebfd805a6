/** What the control thread and the store's thread say to each other. */

import type { StoreCallName } from "./operations.ts";
import type { StoreFaultKind } from "./store-fault.ts";

/** In place of a folder: keeps nothing. */
export const MEMORY = ":memory:";

/** `workerData` of the store's thread. */
export interface StoreThreadStart {
  /** The file, or ":memory:". */
  readonly path: string;
}

export type ToStoreThread =
  /** `name` null: only opens the file. */
  { kind: "call"; id: number; name: StoreCallName | null; args: unknown } | { kind: "close" };

export type FromStoreThread =
  | { kind: "done"; id: number; result: unknown }
  | { kind: "failed"; id: number; fault: StoreFaultKind; message: string };
