/** One question to the admin API, asked again at a pace while the page is looked at. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";
import { type SeenWork, whileSeen } from "../while-seen.ts";

export interface Answer<T> {
  readonly value: T | null;
  readonly error: ApiError | null;
  /** Asks once more, now. */
  readonly again: () => void;
}

/** After an error, however quick the pace is, ms. */
const RETRY_MS = 5_000;

/** @param path null: nothing is asked. @param everyMs 0: once. */
export function useAnswer<T>(path: string | null, everyMs = 0): Answer<T> {
  const work = useRef<SeenWork | null>(null);
  const [state, setState] = useState<{ path: string | null; value: T | null; error: ApiError | null }>({
    path,
    value: null,
    error: null,
  });
  useEffect(() => {
    if (path === null) return;
    const look = async (signal: AbortSignal): Promise<number | null> => {
      try {
        const value = await ask<T>(path, { signal });
        setState({ path, value, error: null });
      } catch (error) {
        if (signal.aborted) return null;
        const told = error instanceof ApiError ? error : new ApiError("foreign", 0, String(error));
        setState((before) => ({ path, value: before.path === path ? before.value : null, error: told }));
        // what was refused is refused again; a gateway that is gone may come back
        return everyMs > 0 || told.kind === "unreachable" ? Math.max(everyMs, RETRY_MS) : null;
      }
      return everyMs > 0 ? everyMs : null;
    };
    work.current = whileSeen(look);
    return () => work.current?.end();
  }, [path, everyMs]);
  const again = useCallback(() => work.current?.now(), []);
  // an answer to another question is none
  return state.path === path ? { value: state.value, error: state.error, again } : { value: null, error: null, again };
}
