/** Which page is shown: the part of the address behind `#`, so that the gateway serves one document only. */

import { useEffect, useState } from "preact/hooks";

/** `#/decisions/ID` → page `decisions`, rest `ID`. */
export interface Route {
  readonly page: string;
  readonly rest: string;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const follow = (): void => setRoute(current());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}

function current(): Route {
  const [, page = "", rest = ""] = /^#\/([a-z-]*)(?:\/(.*))?$/.exec(location.hash) ?? [];
  try {
    return { page: page === "" ? "overview" : page, rest: decodeURIComponent(rest) };
  } catch {
    return { page, rest: "" };
  }
}
