/**
 * The work's own end, or that of the signal: what doesn't listen to a signal must not hold who waits for it.
 *
 * @param ended makes the error that an abort rejects with.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal, ended: () => Error): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = (): void => reject(ended());
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  work.then(resolve, reject);
  return promise.finally(() => signal.removeEventListener("abort", onAbort));
}
