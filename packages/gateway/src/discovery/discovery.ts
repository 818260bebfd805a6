/**
 * Nodes that come and go by themselves: runs the sources of the configuration and says which nodes there are, beside
 * those that the file lists. Whatever a source does wrong, its last good list stays.
 */

import { isDeepStrictEqual } from "node:util";
import type { Config, NodeConfig, SourceConfig, SourceKind } from "@zml/protocol";
import type { ConfigSecrets } from "../config/resolve-secrets.ts";
import type { GatewayLog } from "../control/gateway-log.ts";
import { FoundNodes } from "./found-nodes.ts";
import { mergeNodes } from "./merge-nodes.ts";
import type { Dropped, Look, RunningSource, SourceClock, StartSource } from "./source.ts";
import { startDnsSource } from "./sources/dns.ts";
import { startFileSource } from "./sources/file-sd.ts";
import { startKubernetesSource } from "./sources/kubernetes.ts";

/** Changes are collected for this long, ms: a rollout changes a list many times a second, and each is a new version. */
const COLLECT_MS = 100;

const SOURCES: Readonly<Record<SourceKind, StartSource>> = {
  dns: startDnsSource,
  file_sd: startFileSource,
  kubernetes: startKubernetesSource,
};

export interface DiscoveryOptions {
  readonly log: GatewayLog;
  readonly clock: SourceClock;
  /** Called when the nodes changed, at most every 100 ms. */
  readonly onChange: () => void;
  /** For tests. Default: the product's. */
  readonly sources?: Readonly<Record<SourceKind, StartSource>>;
}

/** A source and how it does. */
export interface SourceState {
  config: SourceConfig;
  readonly found: FoundNodes;
  running: RunningSource;
  /** Of its nodes, those that others have the place of. */
  clashes: readonly Dropped[];
  /** What was logged last, so that each state is logged once. */
  loggedError: string | null;
  loggedDropped: readonly Dropped[];
  graceTimer: NodeJS.Timeout | null;
}

/** A node that a source found, and joined. */
export interface FoundEntry {
  readonly node: NodeConfig;
  /** As it would stand in the file. */
  readonly entry: Readonly<Record<string, unknown>>;
}

export class Discovery {
  readonly #options: DiscoveryOptions;
  #states = new Map<string, SourceState>();
  #stopping: Promise<unknown>[] = [];
  #timer: NodeJS.Timeout | null = null;
  #isStopped = false;
  #foundNodes: readonly FoundEntry[] = [];
  /** Wake up when a source looked. */
  readonly #waiting = new Set<() => void>();
  /** Account and family → when it was first found: the order decides the built-in policy's chain, and must not flap. */
  readonly #familyRanks = new Map<string, number>();
  #secrets: { readonly base: ConfigSecrets; readonly merged: ConfigSecrets } | null = null;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
  }

  /** The sources, in the file's order. */
  get states(): Iterable<SourceState> {
    return this.#states.values();
  }

  /**
   * Runs the sources of a configuration. One that did not change goes on; one that did looks at once and keeps its list
   * until then, unless it is of another kind; one that went takes its nodes along.
   */
  configure(config: Config): void {
    if (this.#isStopped) return;
    const before = this.#states;
    this.#states = new Map();
    for (const source of config.discovery.sources) {
      const old = before.get(source.name);
      const isSameKind = old?.config.kind === source.kind;
      if (old !== undefined && isSameKind) before.delete(source.name);
      this.#states.set(source.name, this.#stateFor(source, config, isSameKind ? old : undefined));
    }
    for (const state of before.values()) this.#end(state);
  }

  /** Resolves when each source has looked once, whatever came of it, or after `waitMs`. */
  async firstLooks(waitMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = (): void => {
      const isAnyOpen = [...this.#states.values()].some(({ found }) => Number.isNaN(found.lastLookMs));
      if (!isAnyOpen || this.#isStopped) resolve();
    };
    const timer = setTimeout(resolve, waitMs);
    this.#waiting.add(look);
    look();
    await promise;
    clearTimeout(timer);
    this.#waiting.delete(look);
  }

  /** The configuration with the nodes that were found, and the secrets with their keys. */
  effective(config: Config, secrets: ConfigSecrets): { config: Config; secrets: ConfigSecrets } {
    const states = [...this.#states.values()];
    const merged = mergeNodes(
      config.nodes,
      states.map(({ config: { name }, found }) => ({ source: name, nodes: found.nodes })),
    );
    for (const state of states) {
      state.clashes = merged.clashes.get(state.config.name) ?? [];
      this.#logDropped(state);
    }
    this.#noteFound(merged.found, states);
    if (merged.found.length === 0) return { config, secrets };
    const nodes = [...config.nodes, ...this.#byFamily(merged.found)];
    return { config: { ...config, nodes }, secrets: this.#secretsOf(merged.found, secrets) };
  }

  /** The nodes that joined those of the configuration, as they would stand in the file. Another list with each change. */
  get foundNodes(): readonly FoundEntry[] {
    return this.#foundNodes;
  }

  #noteFound(found: readonly NodeConfig[], states: readonly SourceState[]): void {
    const entries = found.flatMap((node) => {
      const entry = states.find(({ config }) => config.name === node.origin)?.found.entryOf(node);
      return entry === undefined ? [] : [{ node, entry }];
    });
    const before = this.#foundNodes;
    const isSame = entries.length === before.length && entries.every(({ node }, index) => node === before[index]?.node);
    if (!isSame) this.#foundNodes = entries;
  }

  /** Ends every source. Resolves when nothing of them runs. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const state of this.#states.values()) this.#end(state);
    for (const look of this.#waiting) look();
    await Promise.all(this.#stopping);
  }

  #stateFor(source: SourceConfig, config: Config, old: SourceState | undefined): SourceState {
    if (old !== undefined) {
      const isSame = isDeepStrictEqual(asRun(old.config), asRun(source));
      old.config = source;
      old.found.configure(source, config);
      if (isSame) return old;
      this.#endRun(old.running);
      old.running = this.#start(source, old);
      return old;
    }
    const state: SourceState = {
      config: source,
      found: new FoundNodes(source, config),
      running: NOT_RUNNING,
      clashes: [],
      loggedError: null,
      loggedDropped: [],
      graceTimer: null,
    };
    state.running = this.#start(source, state);
    return state;
  }

  #start(config: SourceConfig, state: SourceState): RunningSource {
    const start = (this.#options.sources ?? SOURCES)[config.kind];
    let isCurrent = true;
    const running = start({
      config,
      clock: this.#options.clock,
      onLook: (look) => {
        if (isCurrent) this.#take(state, look);
      },
    });
    return {
      stop: () => {
        isCurrent = false;
        return running.stop();
      },
    };
  }

  #take(state: SourceState, look: Look): void {
    const nowMs = this.#options.clock.nowMs();
    const before = state.found.nodes;
    const wasWaiting = !Number.isNaN(state.found.emptyAtMs);
    const isChanged = state.found.take(look, nowMs);
    this.#logState(state, { before, wasWaiting });
    this.#waitForGrace(state, nowMs);
    if (isChanged) this.#changeSoon();
    for (const wake of this.#waiting) wake();
  }

  /** An empty list that waits counts when its time is over, also if the source tells nothing more. */
  #waitForGrace(state: SourceState, nowMs: number): void {
    if (state.graceTimer !== null) clearTimeout(state.graceTimer);
    state.graceTimer = null;
    const { emptyAtMs } = state.found;
    if (Number.isNaN(emptyAtMs)) return;
    state.graceTimer = setTimeout(
      () => {
        const now = this.#options.clock.nowMs();
        const before = state.found.nodes;
        if (state.found.tick(now)) {
          this.#logState(state, { before, wasWaiting: true });
          this.#changeSoon();
        } else if (state.found.error === null) this.#waitForGrace(state, now);
      },
      Math.max(0, emptyAtMs - nowMs) + 1,
    );
    state.graceTimer.unref();
  }

  #changeSoon(): void {
    if (this.#isStopped) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#options.onChange();
    }, COLLECT_MS);
  }

  #end(state: SourceState): void {
    if (state.graceTimer !== null) clearTimeout(state.graceTimer);
    this.#endRun(state.running);
  }

  #endRun(running: RunningSource): void {
    const end = running.stop().finally(() => {
      this.#stopping = this.#stopping.filter((other) => other !== end);
    });
    this.#stopping.push(end);
  }

  /** Families in the order in which they were first found, whichever of their nodes are there now. */
  #byFamily(found: readonly NodeConfig[]): NodeConfig[] {
    const ranks = this.#familyRanks;
    const rankOf = ({ account, family }: NodeConfig): number => {
      const key = JSON.stringify([account, family]);
      const rank = ranks.get(key) ?? ranks.size;
      ranks.set(key, rank);
      return rank;
    };
    const ranked = found.map((node) => ({ node, rank: rankOf(node) }));
    return ranked.sort((left, right) => left.rank - right.rank).map(({ node }) => node);
  }

  /** The very object of the last time while nothing in it changes: whoever holds nodes by it need not look again. */
  #secretsOf(found: readonly NodeConfig[], secrets: ConfigSecrets): ConfigSecrets {
    const nodes = new Map(secrets.nodes);
    for (const { id, origin } of found) {
      const secret = secrets.sources.get(origin);
      if (secret !== undefined) nodes.set(id, secret);
    }
    if (nodes.size === secrets.nodes.size) return secrets;
    const last = this.#secrets;
    const isSame =
      last !== null &&
      last.base === secrets &&
      last.merged.nodes.size === nodes.size &&
      [...nodes].every(([id, secret]) => last.merged.nodes.get(id) === secret);
    if (isSame) return last.merged;
    const merged = { ...secrets, nodes };
    this.#secrets = { base: secrets, merged };
    return merged;
  }

  #logState(state: SourceState, { before, wasWaiting }: { before: readonly NodeConfig[]; wasWaiting: boolean }): void {
    const { log } = this.#options;
    const { found, config } = state;
    const source = config.name;
    if (found.error !== state.loggedError) {
      if (found.error !== null) {
        log.warn(
          { source, error: found.error, nodes: found.nodes.length },
          "a source of nodes fails: its last list stays",
        );
      } else log.info({ source, nodes: found.nodes.length }, "a source of nodes answers again");
      state.loggedError = found.error;
    }
    if (!wasWaiting && !Number.isNaN(found.emptyAtMs)) {
      const fields = { source, nodes: found.nodes.length, empty_grace_ms: config.emptyGraceMs };
      log.warn(fields, "a source lists no node any more: its last list stays for empty_grace_ms");
    }
    if (found.nodes === before) return;
    const ids = new Set(found.nodes.map(({ id }) => id));
    const removed = before.filter(({ id }) => !ids.delete(id)).length;
    log.info({ source, nodes: found.nodes.length, added: ids.size, removed }, "the nodes of a source changed");
  }

  /** Many at once are one line: the report names more of them. */
  #logDropped(state: SourceState): void {
    const dropped = [...state.found.dropped, ...state.clashes];
    const isSame = isDeepStrictEqual(dropped, state.loggedDropped);
    state.loggedDropped = dropped;
    const [first] = dropped;
    if (isSame || first === undefined) return;
    const fields = { source: state.config.name, count: dropped.length, target: first.target, reason: first.reason };
    this.#options.log.warn(fields, "targets of a source are no nodes");
  }
}

const NOT_RUNNING: RunningSource = { stop: () => Promise.resolve() };

/** What a source runs with; the rest is only about what its targets become. */
function asRun({ node: _node, scheme: _scheme, path: _path, labels: _labels, ...run }: SourceConfig) {
  return { ...run, maxNodes: 0, emptyGraceMs: 0 };
}
