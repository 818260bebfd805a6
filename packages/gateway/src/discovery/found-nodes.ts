/**
 * What one source has found, as it counts: its last good list while it fails, the list before while an empty one waits,
 * and of both what can be a node.
 */

import { isDeepStrictEqual } from "node:util";
import type { NodeConfig, SourceConfig } from "@zml/protocol";
import { type BuiltNode, buildNode, type NodeSurroundings } from "./build-node.ts";
import { type Dropped, type Look, type Target, targetKey } from "./source.ts";

interface Built {
  readonly target: Target;
  readonly result: BuiltNode;
}

export class FoundNodes {
  #source: SourceConfig;
  #around: NodeSurroundings;
  #targets: readonly Target[] = [];
  /** Dropped by the source itself. */
  #droppedBySource: readonly Dropped[] = [];
  #built = new Map<string, Built>();
  #nodes: readonly NodeConfig[] = [];
  #entries = new Map<NodeConfig, Readonly<Record<string, unknown>>>();
  #dropped: readonly Dropped[] = [];
  #emptySinceMs = Number.NaN;
  #lastSuccessMs = Number.NaN;
  #lastLookMs = Number.NaN;
  #error: string | null = null;
  #note: string | null = null;

  constructor(source: SourceConfig, around: NodeSurroundings) {
    this.#source = source;
    this.#around = around;
  }

  /** By id. The same object while nothing in them changes. */
  get nodes(): readonly NodeConfig[] {
    return this.#nodes;
  }

  /** A node as it would stand in the file. */
  entryOf(node: NodeConfig): Readonly<Record<string, unknown>> | undefined {
    return this.#entries.get(node);
  }

  /** What was named and is no node. */
  get dropped(): readonly Dropped[] {
    return this.#dropped;
  }

  /** Targets of the list that counts. */
  get targetCount(): number {
    return this.#targets.length;
  }

  /** Monotonic time of the last look without any error, ms; NaN: none yet. */
  get lastSuccessMs(): number {
    return this.#lastSuccessMs;
  }

  /** Monotonic time of the last look, ms; NaN: none yet. */
  get lastLookMs(): number {
    return this.#lastLookMs;
  }

  /** Why the last look failed, or a part of it; null: it did not. */
  get error(): string | null {
    return this.#error;
  }

  get note(): string | null {
    return this.#note;
  }

  /** When an empty list that waits will count, monotonic ms; NaN: none waits. */
  get emptyAtMs(): number {
    return this.#emptySinceMs + this.#source.emptyGraceMs;
  }

  /** Takes over the configuration; nodes are built anew where it matters. */
  configure(source: SourceConfig, around: NodeSurroundings): void {
    const isSame = isDeepStrictEqual(relevant(source, around), relevant(this.#source, this.#around));
    this.#source = source;
    this.#around = around;
    if (!isSame) this.#built.clear();
    this.#build();
  }

  /** Takes what came of a look. Returns true when the nodes changed. */
  take({ found, error }: Look, nowMs: number): boolean {
    this.#lastLookMs = nowMs;
    this.#error = error;
    if (error === null) this.#lastSuccessMs = nowMs;
    if (found === null) return false;
    this.#note = found.note;
    this.#droppedBySource = found.dropped;
    const leaving = new Set(found.leaving.map(targetKey));
    const before = this.#nodes;
    if (found.targets.length > 0) {
      this.#targets = found.targets;
      this.#emptySinceMs = Number.NaN;
    } else {
      this.#targets = this.#targets.filter((target) => !leaving.has(targetKey(target)));
      if (this.#targets.length === 0) this.#emptySinceMs = Number.NaN;
      else if (Number.isNaN(this.#emptySinceMs)) this.#emptySinceMs = nowMs;
      this.#endGrace(nowMs);
    }
    this.#build();
    return this.#nodes !== before;
  }

  /** Looks whether an empty list counts by now. Returns true when the nodes changed. */
  tick(nowMs: number): boolean {
    const before = this.#nodes;
    if (this.#endGrace(nowMs)) this.#build();
    return this.#nodes !== before;
  }

  /** A source that fails meanwhile has not confirmed that it is empty. */
  #endGrace(nowMs: number): boolean {
    if (Number.isNaN(this.#emptySinceMs) || this.#error !== null || nowMs < this.emptyAtMs) return false;
    this.#targets = [];
    this.#emptySinceMs = Number.NaN;
    return true;
  }

  #build(): void {
    const { maxNodes } = this.#source;
    const dropped: Dropped[] = [...this.#droppedBySource];
    const built = new Map<string, Built>();
    const known = this.#built;
    // those that are there stay where not all find room
    const order = [...this.#targets].sort(
      (left, right) =>
        Number(known.has(targetKey(right))) - Number(known.has(targetKey(left))) ||
        compare(targetKey(left), targetKey(right)),
    );
    for (const target of order) {
      const key = targetKey(target);
      const twin = built.get(key);
      if (twin !== undefined) {
        if (!isDeepStrictEqual(twin.target, target)) dropped.push({ target: key, reason: "it is named twice" });
        continue;
      }
      if (built.size >= maxNodes) {
        dropped.push({ target: key, reason: `max_nodes (${maxNodes}) are there: raise it` });
        continue;
      }
      const old = known.get(key);
      const isSame = old !== undefined && isDeepStrictEqual(old.target, target);
      const result = isSame ? old.result : buildNode(target, this.#source, this.#around);
      built.set(key, isSame ? old : { target, result });
    }
    const nodes: NodeConfig[] = [];
    this.#entries = new Map();
    for (const [key, { result }] of built) {
      if ("node" in result) {
        nodes.push(result.node);
        this.#entries.set(result.node, result.entry);
      } else dropped.push({ target: key, reason: result.reason });
    }
    this.#built = built;
    this.#dropped = dropped;
    nodes.sort((left, right) => compare(left.id, right.id));
    const isSame = nodes.length === this.#nodes.length && nodes.every((node, index) => node === this.#nodes[index]);
    if (!isSame) this.#nodes = nodes;
  }
}

/** What a node is built from, beside its target. */
function relevant(
  { name, node, scheme, path, labels }: SourceConfig,
  { timeouts, health, failover, prices, data, admin }: NodeSurroundings,
) {
  const feeds = prices.feeds.map((feed) => feed.name);
  return {
    name,
    node,
    scheme,
    path,
    labels,
    timeouts,
    health,
    failover,
    feeds,
    data: data.listen,
    admin: admin.listen,
  };
}

/** By code unit: the same order on every machine. */
function compare(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}
