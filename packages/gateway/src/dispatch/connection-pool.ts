/**
 * Connections of one worker to one node. Idle ones are kept in a stack, so that taking one costs the same however many
 * there are, the warmest goes first and the coldest can be closed.
 */

import {
  type ConnectionTarget,
  NodeConnection,
  type NodeExchangeHandler,
  type NodeRequest,
} from "../http1/node-connection.ts";

/** How connections are made and kept. */
export interface ConnectionPoolOptions {
  target: ConnectionTarget;
  maxConnections: number;
  /** Idle connections are closed after this long, ms; below what engines use, so that we close first. */
  keepAliveMs: number;
  /** A connection is replaced after this long, ms, so that names are looked up again. */
  maxAgeMs: number;
}

/** A request that waits for a connection may wait with so many others; beyond that it fails at once. */
const WAITING_MAX = 65_536;

/** How often idle connections are looked at, as a share of `keepAliveMs`. */
const SWEEPS_PER_KEEP_ALIVE = 4;

/** A connection in somebody's hands, until `release`. */
export interface Connection {
  /** Of a lost connection: the node had closed it before the request came (see `NodeConnection.wasStale`). */
  wasStale(): boolean;
  send(request: NodeRequest, handler: NodeExchangeHandler): void;
  pause(): void;
  resume(): void;
  /** Gives it back, once; what still runs on it is aborted. */
  release(): void;
}

/** A request that waits for a connection. */
interface Wish {
  /** On a socket that carried nothing before. */
  isFresh: boolean;
  onConnection: (connection: Connection) => void;
}

interface IdleConnection {
  connection: NodeConnection;
  sinceMs: number;
}

export class ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #idle: IdleConnection[] = [];
  /** In order of arrival; rarely more than a few, since `max_in_flight` is the usual bound. */
  readonly #waiting: Wish[] = [];
  #count = 0;
  #isClosing = false;
  #sweeper: NodeJS.Timeout | null = null;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
  }

  /**
   * Takes a connection: calls back at once, or when one is free.
   *
   * @returns takes the wish back while it waits. Null: too many wait already.
   */
  take(options: { isFresh: boolean }, onConnection: (connection: Connection) => void): (() => void) | null {
    const idle = this.#takeIdle();
    if (idle !== null) {
      // without its socket it opens another
      if (options.isFresh) idle.abort();
      onConnection(this.#hand(idle));
      return NOTHING;
    }
    if (this.#count < this.#options.maxConnections) {
      onConnection(this.#hand(this.#make()));
      return NOTHING;
    }
    if (this.#waiting.length >= WAITING_MAX) return null;
    const wish: Wish = { isFresh: options.isFresh, onConnection };
    // a request that needs a fresh one has had its turn once
    if (wish.isFresh) this.#waiting.unshift(wish);
    else this.#waiting.push(wish);
    return () => {
      const at = this.#waiting.indexOf(wish);
      if (at >= 0) this.#waiting.splice(at, 1);
    };
  }

  /** Closes idle connections now, and each of the others when it is given back and nobody waits for it. */
  close(): void {
    this.#isClosing = true;
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    this.#sweeper = null;
    for (const { connection } of this.#idle.splice(0)) this.#drop(connection);
  }

  #takeIdle(): NodeConnection | null {
    const idle = this.#idle.pop();
    if (idle === undefined) return null;
    const { connection, sinceMs } = idle;
    const nowMs = performance.now();
    // closed here, it opens a socket of its own for the next request
    if (nowMs - sinceMs > this.#idleLimitMs(connection) || this.#isOld(connection, nowMs)) connection.abort();
    return connection;
  }

  #isOld(connection: NodeConnection, nowMs: number): boolean {
    return nowMs - connection.openedAtMs > this.#options.maxAgeMs;
  }

  #idleLimitMs(connection: NodeConnection): number {
    const { keepAliveMs } = this.#options;
    const hintMs = connection.keepAliveHintMs;
    return hintMs < keepAliveMs ? hintMs : keepAliveMs;
  }

  #make(): NodeConnection {
    this.#count += 1;
    return new NodeConnection(this.#options.target);
  }

  #hand(connection: NodeConnection): Connection {
    return new HeldConnection(connection, this.#takeBack);
  }

  readonly #takeBack = (connection: NodeConnection): void => {
    if (connection.isBusy) connection.abort();
    this.#giveBack(connection);
  };

  #giveBack(connection: NodeConnection): void {
    const next = this.#waiting.shift();
    const nowMs = performance.now();
    if (next !== undefined) {
      if (next.isFresh || this.#isOld(connection, nowMs)) connection.abort();
      next.onConnection(this.#hand(connection));
      return;
    }
    if (this.#isClosing) {
      this.#drop(connection);
      return;
    }
    this.#idle.push({ connection, sinceMs: nowMs });
    this.#sweeper ??= setInterval(() => this.#sweep(), this.#options.keepAliveMs / SWEEPS_PER_KEEP_ALIVE).unref();
  }

  /** Closes what has been idle for too long; the coldest stand first. */
  #sweep(): void {
    const nowMs = performance.now();
    for (;;) {
      const [coldest] = this.#idle;
      if (coldest === undefined || nowMs - coldest.sinceMs <= this.#idleLimitMs(coldest.connection)) break;
      this.#idle.shift();
      this.#drop(coldest.connection);
    }
    if (this.#idle.length > 0 || this.#sweeper === null) return;
    clearInterval(this.#sweeper);
    this.#sweeper = null;
  }

  #drop(connection: NodeConnection): void {
    this.#count -= 1;
    connection.abort();
  }
}

/** A connection of the pool in somebody's hands. A class, since one is made for each attempt. */
class HeldConnection implements Connection {
  readonly #connection: NodeConnection;
  readonly #takeBack: (connection: NodeConnection) => void;
  #isHeld = true;

  constructor(connection: NodeConnection, takeBack: (connection: NodeConnection) => void) {
    this.#connection = connection;
    this.#takeBack = takeBack;
  }

  wasStale(): boolean {
    return this.#connection.wasStale;
  }

  send(request: NodeRequest, handler: NodeExchangeHandler): void {
    this.#connection.send(request, handler);
  }

  pause(): void {
    this.#connection.pause();
  }

  resume(): void {
    this.#connection.resume();
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#takeBack(this.#connection);
  }
}

const NOTHING = (): void => {};
