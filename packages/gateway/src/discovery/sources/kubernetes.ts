/**
 * Nodes from a cluster: EndpointSlices of a service, or pods by label. Each namespace is listed and then watched. A watch
 * that ends goes on where it ended; one whose version is gone, that is silent, or that fails begins with a whole list.
 */

import { errorText, pause, type RunningSource, type SourceContext, type StartSource } from "../source.ts";
import { type ClusterAccess, clusterAccess, type LoadClient } from "./kubernetes-access.ts";
import {
  ApiError,
  type ClusterObject,
  listObjects,
  type ObjectQuery,
  type WatchEnd,
  type WatchEvent,
  watchObjects,
} from "./kubernetes-api.ts";
import { queryOf, TargetReader } from "./kubernetes-targets.ts";

/** First pause after a failure, ms; it doubles. */
const BACK_OFF_MS = 500;
/** Longest pause after failures, ms. */
const BACK_OFF_MAX_MS = 30_000;
/** A watch that ended sooner than this did not work, ms. */
const SHORT_WATCH_MS = 1_000;
/** The API server ends a watch after this, s, and up to half as much again: replicas spread. */
const WATCH_SECONDS = 300;
/** Changes that come faster than this, ms, are told together: with thousands of pods each list costs some 20 ms. */
const TELL_EVERY_MS = 100;

/** The product's source; tests load another client. */
export function kubernetesSource(load?: LoadClient): StartSource {
  return (context) => new KubernetesSource(context, load);
}

export const startKubernetesSource: StartSource = kubernetesSource();

/** What is known of one namespace. */
interface Watched {
  readonly query: ObjectQuery;
  /** By namespace and name; null: not listed yet. */
  objects: Map<string, ClusterObject> | null;
  error: string | null;
}

class KubernetesSource implements RunningSource {
  readonly #context: SourceContext;
  readonly #load: LoadClient | undefined;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<unknown>;
  readonly #reader: TargetReader;
  #watched: readonly Watched[] = [];
  /** Gone since the last list was told. */
  #deleted: ClusterObject[] = [];
  #tellTimer: NodeJS.Timeout | null = null;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(context: SourceContext, load: LoadClient | undefined) {
    this.#context = context;
    this.#load = load;
    this.#reader = new TargetReader(context.config);
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#tellTimer !== null) clearTimeout(this.#tellTimer);
    await this.#ended;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #run(): Promise<void> {
    const { config } = this.#context;
    let namespaces = config.namespaces;
    for (let failures = 0; namespaces.length === 0 && !this.#isStopping; failures++) {
      try {
        namespaces = [(await this.#access()).namespace ?? "default"];
      } catch (error) {
        this.#tell({ found: false, error: errorText(error) });
        await pause(this.#backOffMs(failures, error), this.#stopping.signal);
      }
    }
    // all of them are in "*"
    const wanted = namespaces.includes("*") ? [null] : [...new Set(namespaces)];
    this.#watched = wanted.map((namespace) => ({ query: queryOf(config, namespace), objects: null, error: null }));
    await Promise.all(this.#watched.map((watched) => this.#follow(watched)));
  }

  /** Lists and watches until the end. Never rejects. */
  async #follow(watched: Watched): Promise<void> {
    let failures = 0;
    while (!this.#isStopping) {
      try {
        // read anew each time: files may have been replaced meanwhile
        const access = await this.#access();
        const version = await this.#list(access, watched);
        const isSound = await this.#watch(access, watched, version);
        failures = isSound ? 0 : failures + 1;
        if (!isSound) await pause(this.#backOffMs(failures - 1), this.#stopping.signal);
      } catch (error) {
        if (this.#isStopping) return;
        watched.error = errorText(error);
        this.#tell({ found: false, error: null });
        await pause(this.#backOffMs(failures, error), this.#stopping.signal);
        failures += 1;
      }
    }
  }

  #access(): Promise<ClusterAccess> {
    return clusterAccess(this.#context.config, this.#load);
  }

  async #list(access: ClusterAccess, watched: Watched): Promise<string> {
    const { timeoutMs } = this.#context.config;
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(timeoutMs)]);
    const { objects, version } = await listObjects(access, watched.query, signal);
    if (this.#isStopping) return version;
    watched.objects = new Map(objects.map((object) => [keyOf(object), object]));
    watched.error = null;
    this.#tell({ found: true, error: null });
    return version;
  }

  /**
   * Watches until a whole list is due. Returns false when the watch did not work: the next one must not come at once.
   */
  async #watch(access: ClusterAccess, watched: Watched, listVersion: string): Promise<boolean> {
    const { config, clock } = this.#context;
    const listDueMs = clock.nowMs() + config.refreshMs;
    let version = listVersion;
    let short = 0;
    while (!this.#isStopping) {
      const beganMs = clock.nowMs();
      const leftMs = listDueMs - beganMs;
      if (leftMs <= 0) return true;
      const due = AbortSignal.timeout(Math.ceil(leftMs));
      let end: WatchEnd;
      try {
        end = await watchObjects(access, watched.query, {
          version,
          seconds: Math.ceil(WATCH_SECONDS * (1 + clock.random() / 2)),
          idleMs: config.idleMs,
          connectMs: config.timeoutMs,
          signal: AbortSignal.any([this.#stopping.signal, due]),
          onEvents: (events) => this.#take(watched, events),
        });
      } catch (error) {
        if (due.aborted) return true;
        throw error;
      }
      if (due.aborted) return true;
      const lastedMs = clock.nowMs() - beganMs;
      if (end.kind === "gone") return lastedMs >= SHORT_WATCH_MS;
      if (end.kind === "silent") return true;
      version = end.version;
      short = lastedMs < SHORT_WATCH_MS ? short + 1 : 0;
      if (short > 0) await pause(Math.min(BACK_OFF_MAX_MS, 100 * 2 ** Math.min(short - 1, 20)), this.#stopping.signal);
    }
    return true;
  }

  #take(watched: Watched, events: readonly WatchEvent[]): void {
    for (const { type, object } of events) {
      if (type === "DELETED") {
        watched.objects?.delete(keyOf(object));
        this.#deleted.push(object);
      } else watched.objects?.set(keyOf(object), object);
    }
    if (this.#isStopping) return;
    const waitMs = Math.max(0, this.#toldAtMs + TELL_EVERY_MS - this.#context.clock.nowMs());
    this.#tellTimer ??= setTimeout(() => this.#tell({ found: true, error: null }), waitMs);
  }

  /** Tells the list of all namespaces, once each has been listed. */
  #tell({ found, error }: { found: boolean; error: string | null }): void {
    if (this.#isStopping) return;
    const { clock, onLook } = this.#context;
    if (found && this.#tellTimer !== null) {
      clearTimeout(this.#tellTimer);
      this.#tellTimer = null;
    }
    const first = error ?? this.#watched.find((watched) => watched.error !== null)?.error ?? null;
    const isWhole = this.#watched.length > 0 && this.#watched.every(({ objects }) => objects !== null);
    if (!isWhole) this.#deleted.length = 0;
    if (!found || !isWhole) {
      // a namespace that is listed says nothing yet about the others
      if (first !== null) onLook({ found: null, error: first });
      return;
    }
    this.#toldAtMs = clock.nowMs();
    const objects = this.#watched.flatMap((watched) => [...(watched.objects?.values() ?? [])]);
    onLook({ found: this.#reader.read(objects, this.#deleted.splice(0)), error: first });
  }

  #backOffMs(failures: number, error: unknown = null): number {
    const backOffMs = Math.min(BACK_OFF_MAX_MS, BACK_OFF_MS * 2 ** Math.min(failures, 20));
    const statedMs = error instanceof ApiError ? error.retryAfterMs : 0;
    return Math.max(statedMs, backOffMs * (0.5 + this.#context.clock.random() / 2));
  }
}

function keyOf({ metadata: { namespace, name } }: ClusterObject): string {
  return `${namespace ?? ""}/${name}`;
}
