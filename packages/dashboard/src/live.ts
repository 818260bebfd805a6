/** Follows the fleet: asks once a second while the page is looked at, and not at all while it is not. */

import { useEffect, useState } from "preact/hooks";
import { ApiError, ask } from "./api.ts";
import type { Live, NodeNames } from "./types.ts";

const EVERY_MS = 1_000;
/** After an error; a gateway that restarts is back within seconds. */
const RETRY_MS = 3_000;

/** Answers that rates are taken over: over one second they jump. */
const KEPT = 6;

/** Two answers some seconds apart, for rates, with the names that belong to them. */
export interface Following {
  readonly now: Live | null;
  readonly before: Live | null;
  readonly names: NodeNames;
  readonly error: ApiError | null;
}

const NO_NAMES: NodeNames = { id: [], family: [], account: [], engine: [] };
const NOTHING: Following = { now: null, before: null, names: NO_NAMES, error: null };

/** @param login another number: start anew, with the key that is there then. */
export function useLive(login: number): Following {
  const [following, setFollowing] = useState<Following>(NOTHING);
  useEffect(() => {
    setFollowing(NOTHING);
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let last: Following = NOTHING;
    let recent: Live[] = [];
    const look = async (): Promise<void> => {
      timer = null;
      if (document.visibilityState === "hidden") return;
      try {
        const tag = last.now === null ? "" : `?nodes_tag=${encodeURIComponent(last.now.nodes_tag)}`;
        const now = await ask<Live>(`/live${tag}`, { signal: ended.signal });
        recent = [...(isLater(now, last.now) ? recent : []), now].slice(-KEPT);
        const before = recent.length > 1 ? (recent[0] ?? null) : null;
        last = { now, before, names: now.nodes ?? last.names, error: null };
      } catch (error) {
        if (ended.signal.aborted) return;
        last = { ...last, error: error instanceof ApiError ? error : new ApiError(0, String(error)) };
      }
      setFollowing(last);
      timer = setTimeout(look, last.error === null ? EVERY_MS : RETRY_MS);
    };
    const onVisibility = (): void => {
      if (document.visibilityState === "visible" && timer === null) void look();
    };
    document.addEventListener("visibilitychange", onVisibility);
    void look();
    return () => {
      ended.abort();
      if (timer !== null) clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisibility);
    };
  }, [login]);
  return following;
}

/** A gateway that was started again counts from 0. */
function isLater(now: Live, before: Live | null): boolean {
  return before !== null && now.clock_ms > before.clock_ms && now.totals.requests >= before.totals.requests;
}

/** Change of a count per second between the two answers; null: there is only one. */
export function rate({ now, before }: Following, of: (live: Live) => number): number | null {
  if (now === null || before === null) return null;
  return ((of(now) - of(before)) * 1000) / (now.clock_ms - before.clock_ms);
}
