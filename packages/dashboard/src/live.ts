/** Follows the fleet: asks at the gateway's pace while the page is looked at, and not at all while it is not. */

import type { LiveJson } from "@zml/protocol/admin";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask } from "./api.ts";
import { ForeignAnswer, type Live, merged, type NodeNames } from "./live-model.ts";
import type { Whoami } from "./types.ts";
import { type SeenWork, whileSeen } from "./while-seen.ts";

/** First wait after an error; it doubles up to the longest. */
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** Between two questions whose key it is, where the fleet is not shown to it, ms. */
const TENANT_EVERY_MS = 15_000;
/** Answers that rates are taken over: over one second they jump. */
const KEPT = 6;

/** Two answers some seconds apart, for rates, and how the gateway is reached. */
export interface Following {
  readonly now: Live | null;
  readonly before: Live | null;
  readonly names: NodeNames;
  /** Why the last question had no answer; null: it had one. */
  readonly error: ApiError | null;
  /** When it is asked again after an error, Unix ms. */
  readonly retryAtMs: number | null;
  /** Null: not told yet, or the gateway is of a version that does not tell. */
  readonly who: Whoami | null;
  /** Asks again at once. */
  readonly retry: () => void;
}

const NO_NAMES: NodeNames = { id: [], family: [], account: [], engine: [] };

/** @param login another number: start anew, with the key that is there then. */
export function useLive(login: number): Following {
  const work = useRef<SeenWork | null>(null);
  const [following, setFollowing] = useState<Omit<Following, "retry" | "names">>(NOTHING);
  useEffect(() => {
    setFollowing(NOTHING);
    let last = NOTHING;
    let recent: Live[] = [];
    let failures = 0;
    const lookAsTenant = async (signal: AbortSignal): Promise<number> => {
      last = { ...NOTHING, who: await askWho(signal) };
      failures = 0;
      setFollowing(last);
      return TENANT_EVERY_MS;
    };
    const look = async (signal: AbortSignal): Promise<number | null> => {
      try {
        if (isTenant(last.who)) return await lookAsTenant(signal);
        const since = last.now === null || last.error?.kind === "foreign" ? null : last.now.mark;
        const answer = await askLive(since, signal);
        if (answer === null) return await lookAsTenant(signal);
        const now = merged(since === null ? null : last.now, answer);
        const isSameProcess = last.now !== null && startOf(now) === startOf(last.now);
        const who = isSameProcess && last.who !== null ? last.who : await askWho(signal);
        if (last.now === null || now.mark !== last.now.mark)
          recent = [...(isSameProcess ? recent : []), now].slice(-KEPT);
        last = { now, before: recent.length > 1 ? (recent[0] ?? null) : null, error: null, retryAtMs: null, who };
        failures = 0;
        setFollowing(last);
        return now.everyMs;
      } catch (error) {
        if (signal.aborted) return null;
        const waitMs = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** failures) * (0.8 + 0.4 * Math.random());
        failures += 1;
        last = { ...last, error: toldError(error), retryAtMs: Date.now() + waitMs };
        setFollowing(last);
        return waitMs;
      }
    };
    work.current = whileSeen(look);
    const onOnline = (): void => work.current?.now();
    addEventListener("online", onOnline);
    return () => {
      work.current?.end();
      removeEventListener("online", onOnline);
    };
  }, [login]);
  return { ...following, names: following.now?.names ?? NO_NAMES, retry: () => work.current?.now() };
}

const NOTHING: Omit<Following, "retry" | "names"> = {
  now: null,
  before: null,
  error: null,
  retryAtMs: null,
  who: null,
};

/** A gateway that was started again counts from 0 and has marks of its own. */
function startOf({ mark }: Live): string {
  return mark.slice(0, mark.indexOf("-"));
}

/** True: a key of an account that is not the operators'. */
export function isTenant(who: Whoami | null): who is Whoami {
  return who !== null && !who.is_operator;
}

/** Null: the fleet is not shown to this key. */
async function askLive(since: string | null, signal: AbortSignal): Promise<LiveJson | null> {
  try {
    return await ask<LiveJson>(`/live${since === null ? "" : `?since=${since}`}`, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.code === "operator_only") return null;
    throw error;
  }
}

async function askWho(signal: AbortSignal): Promise<Whoami | null> {
  try {
    return await ask<Whoami>("/whoami", { signal });
  } catch (error) {
    // an older gateway has no such route
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function toldError(error: unknown): ApiError {
  if (error instanceof ForeignAnswer) {
    return new ApiError("foreign", 0, "The gateway answers in a way that this page does not understand");
  }
  return error instanceof ApiError ? error : new ApiError("foreign", 0, String(error));
}

/** Change of a count per second between the two answers; null: there is only one. */
export function rate({ now, before }: Pick<Following, "now" | "before">, of: (live: Live) => number): number | null {
  if (now === null || before === null || now.clockMs <= before.clockMs) return null;
  return ((of(now) - of(before)) * 1000) / (now.clockMs - before.clockMs);
}
