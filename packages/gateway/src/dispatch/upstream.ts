/**
 * A node as one worker dispatches to it: its connection pool, its adapter and the attempts that run there. Every node
 * has a pool of its own, so that a node that hangs uses up nothing that others need.
 */

import type { AdapterVerdict } from "@zml/engine";
import type { DenseMember, DenseSet } from "../dense-set.ts";
import { targetOf } from "../http1/node-connection.ts";
import type { WorkerNode } from "../thread-messages.ts";
import { type Connection, ConnectionPool } from "./connection-pool.ts";
import { StreamPool } from "./stream-pool.ts";

/** How a node's engine speaks, as far as dispatch asks: the serving engine's adapter. */
export interface EngineHabits {
  /** Members that the engine does not know make it refuse a body. */
  readonly refusesUnknownFields: boolean;
  /** What an answer says about the node; null: its status says it all. */
  classify(answer: {
    status: number;
    contentType: string | null;
    body: Buffer;
    firstEvent: { data: string; event: string | null } | null;
  }): AdapterVerdict | null;
}

/** A node, with what is known of its engine. */
export interface UpstreamNode {
  node: WorkerNode;
  habits: EngineHabits;
  /** Path on the node of one of our constant paths: a prefix of the node's URL is kept. */
  pathOf(path: string): string;
}

/** Something that runs on a node and can be failed from outside. */
export interface RunningAttempt extends DenseMember {
  /** The node refuses connections: fails the attempt unless its answer has been committed. */
  nodeDown(): void;
}

export class Upstream {
  node: WorkerNode;
  habits: EngineHabits;
  readonly running: DenseSet<RunningAttempt>;
  readonly #pool: ConnectionPool | StreamPool;
  readonly #join: (path: string) => string;
  readonly #paths = new Map<string, string>();

  /**
   * @param headerBytes the largest response head that is read (`limits.header_bytes`).
   * @param running what runs on the node; of the upstream that this one replaces, if it does.
   */
  constructor({ node, habits, pathOf }: UpstreamNode, headerBytes: number, running: DenseSet<RunningAttempt>) {
    this.running = running;
    this.node = node;
    this.habits = habits;
    this.#join = pathOf;
    const shared = {
      target: targetOf(node.url, {
        connectMs: node.timeouts.connectMs,
        headerBytes,
        serverName: node.serverName,
        allowsLinkLocal: node.allowsLinkLocal,
        tls: node.tls,
      }),
      maxConnections: node.maxConnections,
      keepAliveMs: node.keepAliveMs,
      maxAgeMs: node.maxConnectionAgeMs,
    };
    this.#pool =
      node.httpVersion === "2" ? new StreamPool({ ...shared, limits: node.http2 }) : new ConnectionPool(shared);
  }

  /** Facts that are looked at per attempt changed (key, engine, limits); the pool stays. */
  update({ node, habits }: UpstreamNode): void {
    this.node = node;
    this.habits = habits;
  }

  /** Path on the node of one of our constant paths: a prefix of the node's URL is kept. */
  pathOf(path: string): string {
    let joined = this.#paths.get(path);
    if (joined === undefined) {
      joined = this.#join(path);
      this.#paths.set(path, joined);
    }
    return joined;
  }

  /** Takes a connection, a pooled one or one that is opened for this request alone; see `ConnectionPool.take`. */
  connect(options: { isFresh: boolean }, onConnection: (connection: Connection) => void): (() => void) | null {
    return this.#pool.take(options, onConnection);
  }

  /** Closes connections as their requests end. */
  close(): void {
    this.#pool.close();
  }
}
