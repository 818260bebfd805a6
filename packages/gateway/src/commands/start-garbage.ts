/**
 * What a start leaves in the heap of its thread: 11 MB of room for new objects, of which an idle gateway uses one, and 2 MB of
 * garbage. V8 gives room back only in a collection that is asked to save memory, and asks for none by itself in a thread that
 * has little to do.
 */

import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The start is over by then, and so are the first polls, ms. */
const START_OVER_MS = 2_000;

/** A larger heap holds a large fleet: its collection takes longer, and what the start left is little of it. */
const HEAP_BYTES_MAX = 64 * 1024 * 1024;

/** Gives it back once the start is over: some 30 ms of CPU, on this thread alone. */
export function collectStartGarbageLater(): void {
  setTimeout(collectStartGarbage, START_OVER_MS).unref();
}

/** @returns false: the heap is too large for that. */
export function collectStartGarbage(): boolean {
  if (getHeapStatistics().used_heap_size > HEAP_BYTES_MAX) return false;
  // the flag holds for contexts that are made meanwhile, of which this is the only one
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: object) => void;
  setFlagsFromString("--no-expose-gc");
  collect({ type: "major", execution: "sync", flavor: "last-resort" });
  return true;
}
