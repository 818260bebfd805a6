/**
 * Node's fetch gives up by itself after 300 s without a head or between two reads, far below our own deadline, and has no
 * option for that. Its dispatcher has, per request: so each request goes to the dispatcher that it would have gone to, with
 * these two limits taken off. Where there is no such dispatcher (Deno, Bun, browsers), nothing is changed.
 */
import type { Fetch } from "./settings.ts";

interface Dispatcher {
  readonly isMockActive?: boolean;
  dispatch(options: object, handler: object): boolean;
}

/** Handlers of undici 8 (Node 26) go to the second, older ones to the first; a newer undici sets both. */
const FIRST = Symbol.for("undici.globalDispatcher.1");
const SECOND = Symbol.for("undici.globalDispatcher.2");

const patient: Dispatcher = {
  get isMockActive() {
    return dispatcherFor(false)?.isMockActive ?? false;
  },
  dispatch(options, handler) {
    const dispatcher = dispatcherFor("onResponseStart" in handler);
    if (dispatcher === undefined) throw new Error("Node's dispatcher went away between two requests");
    return dispatcher.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler);
  },
};

/** The platform's fetch, under no limits of time but ours. */
export function patientFetch(platformFetch: Fetch): Fetch {
  return (url, init) => {
    // to ask for it loads the dispatcher
    void globalThis.Response;
    if (dispatcherFor(false) === undefined) return platformFetch(url, init);
    return platformFetch(url, { ...init, dispatcher: patient } as RequestInit);
  };
}

function dispatcherFor(isNewHandler: boolean): Dispatcher | undefined {
  const { [FIRST]: first, [SECOND]: second } = globalThis as { [FIRST]?: unknown; [SECOND]?: unknown };
  const [wanted, other] = isNewHandler ? [second, first] : [first, second];
  return [wanted, other].find(isDispatcher);
}

function isDispatcher(value: unknown): value is Dispatcher {
  return typeof value === "object" && value !== null && typeof (value as Dispatcher).dispatch === "function";
}
