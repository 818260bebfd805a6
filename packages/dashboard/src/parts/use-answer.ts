/** One question to the admin API, asked again at a pace while the page is looked at. */

import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, ask } from "../api.ts";

export interface Answer<T> {
  readonly value: T | null;
  readonly error: ApiError | null;
  /** Asks once more, now. */
  readonly again: () => void;
}

/** @param path null: nothing is asked. @param everyMs 0: once. */
export function useAnswer<T>(path: string | null, everyMs = 0): Answer<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; error: ApiError | null }>({
    path,
    value: null,
    error: null,
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const look = async (): Promise<void> => {
      if (document.visibilityState !== "hidden") {
        try {
          const value = await ask<T>(path, { signal: ended.signal });
          setState({ path, value, error: null });
        } catch (error) {
          if (ended.signal.aborted) return;
          const told = error instanceof ApiError ? error : new ApiError(0, String(error));
          setState((before) => ({ path, value: before.path === path ? before.value : null, error: told }));
        }
      }
      if (everyMs > 0) timer = setTimeout(look, everyMs);
    };
    void look();
    return () => {
      ended.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [path, everyMs, turn]);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  // an answer to another question is none
  return state.path === path ? { value: state.value, error: state.error, again } : { value: null, error: null, again };
}
