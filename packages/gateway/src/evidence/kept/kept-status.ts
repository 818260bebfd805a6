/** Kept decisions, as the status tells them. */

import type { StatusJson } from "@zml/protocol/admin";
import type { KeptStatus } from "./kept-decisions.ts";

export function keptStatus(status: KeptStatus): StatusJson["decisions"] {
  const { keep, state, reason, kept, overwritten, lostToStore, unfinished, records, bytes } = status;
  const at = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  return {
    state: keep === null ? "off" : state,
    reason,
    kept,
    dropped: { overwritten, store: lostToStore },
    unfinished,
    stored: { records, bytes, oldest_at: at(status.oldestAtMs), newest_at: at(status.newestAtMs) },
  };
}
