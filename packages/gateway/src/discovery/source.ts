/** What a source of nodes is given, what it tells, and how it fails. */

import type { SourceConfig } from "@zml/protocol";

/** One endpoint as a source names it. */
export interface Target {
  /** Address or name, an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
  /** Its name in TLS and in the host field; null: the host. */
  readonly serverName: string | null;
  /** For people; null: none. */
  readonly displayName: string | null;
  /** What the source says about it, by label. */
  readonly labels: Readonly<Record<string, string>>;
}

/** Something that a source named and that is no node. */
export interface Dropped {
  readonly target: string;
  /** For the operator, in words. */
  readonly reason: string;
}

/** The whole list of a source at one moment. */
export interface Found {
  readonly targets: readonly Target[];
  /** Ends by itself and takes no more requests: it goes at once, also where an empty list would wait. */
  readonly leaving: readonly Pick<Target, "host" | "port">[];
  readonly dropped: readonly Dropped[];
  /** What is worth knowing about the list; null: nothing. */
  readonly note: string | null;
}

/** What came of looking. */
export interface Look {
  /** The list; null: there is no new one. */
  readonly found: Found | null;
  /** Why the look failed, or a part of it; null: it did not. */
  readonly error: string | null;
}

/** Time and chance, so that tests choose them. */
export interface SourceClock {
  /** Monotonic, ms. */
  nowMs(): number;
  /** In [0, 1). */
  random(): number;
}

/** What a source works with. */
export interface SourceContext {
  readonly config: SourceConfig;
  readonly clock: SourceClock;
  /** Called after each look, and at each change that a watch tells. */
  readonly onLook: (look: Look) => void;
}

/** A source that runs. */
export interface RunningSource {
  /** Ends it; nothing is told afterwards. Resolves when nothing of it runs. */
  stop(): Promise<void>;
}

/** Starts a source of one kind. Never throws: what can't work is told as a look that failed. */
export type StartSource = (context: SourceContext) => RunningSource;

/** Why a look failed. The text is for the operator and holds nothing secret. */
export class SourceError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "SourceError";
  }
}

/** What tells targets apart; the end of a node's id. */
export function targetKey({ host, port }: Pick<Target, "host" | "port">): string {
  return `${host}:${port}`;
}

/** The text of an error for an operator; of a fault of ours the name alone, since its text may hold anything. */
export function errorText(error: unknown): string {
  if (error instanceof SourceError) return error.message;
  const code = error instanceof Error && "code" in error ? String(error.code) : null;
  return code ?? (error instanceof Error ? error.name : "unknown fault");
}

/** Waits, or ends with the signal. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) return Promise.resolve();
  const timer = setTimeout(resolve, ms);
  timer.unref();
  const onAbort = (): void => resolve();
  signal.addEventListener("abort", onAbort, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  });
}

/** What an aborted look rejects with. */
export function lookEnded(): SourceError {
  return new SourceError("the look was ended");
}
