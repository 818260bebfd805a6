/** Which page is shown: the part of the address behind `#`, so that the gateway serves one document only. */

import { useEffect, useState } from "preact/hooks";

/** `#/decisions/ID?node=a` → page `decisions`, rest `ID`, query `node=a`. */
export interface Route {
  readonly page: string;
  readonly rest: string;
  readonly query: URLSearchParams;
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
  const [, page = "", rest = "", search = ""] = /^#\/([a-z-]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(location.hash) ?? [];
  const query = new URLSearchParams(search);
  try {
    return { page: page === "" ? "overview" : page, rest: decodeURIComponent(rest), query };
  } catch {
    return { page, rest: "", query };
  }
}
