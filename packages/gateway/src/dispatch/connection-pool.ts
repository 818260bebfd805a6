/**
 * Connections of one worker to one node. Each is an undici `Client` that carries one request at a time; idle ones are
 * kept in a stack, so that taking one costs the same however many there are and the warmest goes first. (A `Pool` looks
 * at each of its clients per dispatch, and tells nobody whether a connection was used before.)
 */

import type { Socket } from "node:net";
import type { Dispatcher } from "undici";
import { buildConnector, Client, type ClientOptions, type Connector } from "../undici.ts";

/** How connections are made and kept. */
export interface ConnectionPoolOptions {
  origin: string;
  maxConnections: number;
  connectMs: number;
  /** Idle connections are closed after this long, ms; below what engines use, so that we close first. */
  keepAliveMs: number;
  /** A connection is replaced after this long, ms, so that names are looked up again. */
  maxAgeMs: number;
  /** Largest response head, bytes. */
  headerBytes: number;
}

/** A request that waits for a connection may wait with so many others; beyond that it fails at once. */
const WAITING_MAX = 65_536;

/** A connection in somebody's hands. Given back exactly once, with `release` or `discard`. */
export interface Connection {
  /** Its socket has carried an answer before: the node may have closed it meanwhile. */
  isReused(): boolean;
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void;
  /** The request ended, well or not; the connection (or the next one in its place) is free. */
  release(): void;
  /** Nothing may wait behind what it is doing. */
  discard(): void;
}

interface PooledClient {
  client: Client;
  openedAtMs: number;
  /** Answers on the present socket. */
  answers: number;
}

export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #clientOptions: ClientOptions;
  readonly #idle: PooledClient[] = [];
  readonly #waiting = new Set<(connection: Connection) => void>();
  #count = 0;
  #isClosing = false;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
    this.#clientOptions = {
      pipelining: 1,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      // attempts have their own timers; the client's defaults of 300 s would undercut them
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: options.headerBytes,
      allowH2: false,
      connect: markingConnector(options.connectMs),
    };
  }

  /** Connections that exist, idle ones included. */
  get count(): number {
    return this.#count;
  }

  /**
   * Takes a connection: calls back at once, or when one is free.
   *
   * @returns takes the wish back while it waits. Null: too many wait already.
   */
  take(options: { isFresh: boolean }, onConnection: (connection: Connection) => void): (() => void) | null {
    const pooled = options.isFresh ? undefined : this.#takeIdle();
    if (pooled !== undefined) {
      onConnection(this.#hand(pooled));
      return NOTHING;
    }
    if (this.#count < this.#options.maxConnections || options.isFresh) {
      onConnection(this.#hand(this.#open()));
      return NOTHING;
    }
    if (this.#waiting.size >= WAITING_MAX) return null;
    this.#waiting.add(onConnection);
    return () => this.#waiting.delete(onConnection);
  }

  /** Closes idle connections now and each of the others when it is given back. */
  close(): void {
    this.#isClosing = true;
    for (const pooled of this.#idle.splice(0)) this.#drop(pooled);
  }

  #takeIdle(): PooledClient | undefined {
    for (;;) {
      const pooled = this.#idle.pop();
      if (pooled === undefined) return undefined;
      if (performance.now() - pooled.openedAtMs < this.#options.maxAgeMs) return pooled;
      this.#drop(pooled);
    }
  }

  #open(): PooledClient {
    this.#count += 1;
    const client = new Client(this.#options.origin, this.#clientOptions);
    const pooled: PooledClient = { client, openedAtMs: performance.now(), answers: 0 };
    client.on("connect", () => {
      pooled.answers = 0;
    });
    return pooled;
  }

  #hand(pooled: PooledClient): Connection {
    let isHeld = true;
    return {
      isReused: () => pooled.answers > 0,
      dispatch: (options, handler) => pooled.client.dispatch(options, handler),
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        pooled.answers += 1;
        this.#giveBack(pooled);
      },
      discard: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#count -= 1;
        pooled.client.destroy().catch(NOTHING);
        this.#serveWaiting();
      },
    };
  }

  #giveBack(pooled: PooledClient): void {
    if (this.#isClosing || this.#count > this.#options.maxConnections) {
      this.#drop(pooled);
      return;
    }
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#idle.push(pooled);
      return;
    }
    this.#waiting.delete(next);
    next(this.#hand(pooled));
  }

  #serveWaiting(): void {
    const [next] = this.#waiting;
    if (next === undefined || this.#count >= this.#options.maxConnections) return;
    this.#waiting.delete(next);
    next(this.#hand(this.#open()));
  }

  #drop(pooled: PooledClient): void {
    this.#count -= 1;
    pooled.client.close().catch(NOTHING);
  }
}

const NOTHING = (): void => {};

/** Errors of connects, told apart from those of connections: the client hands both on in the same way. */
const connectErrors = new WeakSet<Error>();

/** True for an error that kept a connection from being made. */
export function isConnectError(error: Error): boolean {
  return connectErrors.has(error);
}

function markingConnector(connectMs: number): Connector {
  const connect = buildConnector({ timeout: connectMs, allowH2: false });
  return (options, callback) => {
    connect(options, (error: Error | null, socket: Socket | null) => {
      if (error !== null) connectErrors.add(error);
      if (error !== null || socket === null) callback(error ?? new Error("no socket"), null);
      else callback(null, socket);
    });
  };
}
