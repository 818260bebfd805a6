/**
 * A node as one worker dispatches to it: its connection pool, its adapter and the attempts that run there. Every node
 * has a pool of its own, so that a node that hangs uses up nothing that others need.
 */

import type { Socket } from "node:net";
import type { AdapterVerdict } from "@zml/engine";
import { buildConnector, Client, type Dispatcher, Pool } from "undici";
import type { WorkerNode } from "../thread-messages.ts";

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
export interface RunningAttempt {
  /** The node refuses connections: fails the attempt unless its answer has been committed. */
  nodeDown(): void;
}

/** What a connection had carried when it broke. */
export interface BrokenConnection {
  isConnecting: boolean;
  /** Bytes of earlier answers; above 0 the connection was reused. */
  bytesRead: number;
}

/**
 * What is known of the connection behind an error that a dispatch ended with. The errors of sockets carry no such
 * facts, so that the connector notes them before the client sees the error.
 */
const brokenConnections = new WeakMap<Error, BrokenConnection>();

/** Facts about the connection that an error came from, null: none are known. */
export function brokenConnectionOf(error: Error): BrokenConnection | null {
  return brokenConnections.get(error) ?? null;
}

export class Upstream {
  node: WorkerNode;
  habits: EngineHabits;
  readonly running = new Set<RunningAttempt>();
  readonly #pool: Pool;
  readonly #options: Pool.Options;
  readonly #origin: string;
  readonly #join: (path: string) => string;
  readonly #paths = new Map<string, string>();

  /** @param headerBytes the largest response head that is read (`limits.header_bytes`). */
  constructor({ node, habits, pathOf }: UpstreamNode, headerBytes: number) {
    this.node = node;
    this.habits = habits;
    this.#join = pathOf;
    this.#origin = new URL(node.url).origin;
    this.#options = {
      connections: node.maxConnections,
      pipelining: 1,
      keepAliveTimeout: node.keepAliveMs,
      keepAliveMaxTimeout: node.keepAliveMs,
      clientTtl: node.maxConnectionAgeMs,
      // the attempt has its own timers; the client's defaults of 300 s would undercut them
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: headerBytes,
      allowH2: false,
      connect: notingConnector(node.timeouts.connectMs),
    };
    this.#pool = new Pool(this.#origin, this.#options);
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

  /** Sends a request on a pooled connection, or on one that is opened for it alone. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, isFreshConnection: boolean): void {
    if (!isFreshConnection) {
      this.#pool.dispatch(options, handler);
      return;
    }
    const { connections: _connections, clientTtl: _clientTtl, ...clientOptions } = this.#options;
    const client = new Client(this.#origin, clientOptions);
    client.dispatch(options, handler);
    // ends when its one request has ended
    client.close().catch(() => {});
  }

  /** Fails what has not been committed. */
  fail(): void {
    for (const attempt of [...this.running]) attempt.nodeDown();
  }

  /** Closes the pool when its running requests have ended. */
  close(): void {
    this.#pool.close().catch(() => {});
  }

  /** Ends everything at once. */
  destroy(): void {
    this.#pool.destroy().catch(() => {});
  }
}

function notingConnector(connectMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: connectMs, allowH2: false });
  return (options, callback) => {
    connect(options, (error, socket) => {
      if (error !== null) {
        brokenConnections.set(error, { isConnecting: true, bytesRead: 0 });
        callback(error, null);
        return;
      }
      noteErrors(socket);
      callback(null, socket);
    });
  };
}

function noteErrors(socket: Socket): void {
  socket.on("error", (error) => {
    brokenConnections.set(error, { isConnecting: false, bytesRead: socket.bytesRead });
  });
}
