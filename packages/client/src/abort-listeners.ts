/**
 * One listener per signal, whoever listens: an application may give one signal to a thousand calls at once, where taking a
 * listener off is a search through all of them, and Node 20 warns from the eleventh on.
 */

type OnAbort = (reason: unknown) => void;

const listening = new WeakMap<AbortSignal, Set<OnAbort>>();

/** Calls back when the signal aborts. @returns what takes that back */
export function onAbort(signal: AbortSignal, callback: OnAbort): () => void {
  const callbacks = listening.get(signal) ?? listenTo(signal);
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}

function listenTo(signal: AbortSignal): Set<OnAbort> {
  const callbacks = new Set<OnAbort>();
  listening.set(signal, callbacks);
  // stays as long as the signal does, and holds nothing but the set
  signal.addEventListener(
    "abort",
    () => {
      for (const callback of callbacks) callback(signal.reason);
      callbacks.clear();
    },
    { once: true },
  );
  return callbacks;
}
