/**
 * HTTP/2 connections of one worker to one node: one, and more only while its streams are all in use. The same contract as
 * `connection-pool.ts`: what is taken carries one request.
 */

import type { ConnectError, ConnectionTarget, NodeExchangeHandler } from "../http1/node-connection.ts";
import { NodeSession, type SessionLimits, type SessionOwner } from "../http2/node-session.ts";
import type { Connection } from "./connection-pool.ts";

export interface StreamPoolOptions {
  target: ConnectionTarget;
  limits: SessionLimits;
  maxConnections: number;
  /** A connection without a stream is closed after this long, ms. */
  keepAliveMs: number;
  /** A connection takes no new streams after this long, ms, so that names are looked up again. */
  maxAgeMs: number;
}

/** A request that waits for a stream may wait with so many others; beyond that it fails at once. */
const WAITING_MAX = 65_536;

const SWEEPS_PER_KEEP_ALIVE = 4;

export class StreamPool implements SessionOwner {
  readonly #options: StreamPoolOptions;
  /** Those that take streams, or will. */
  readonly #sessions: NodeSession[] = [];
  readonly #waiting: ((connection: Connection) => void)[] = [];
  #isClosing = false;
  #sweeper: NodeJS.Timeout | null = null;

  constructor(options: StreamPoolOptions) {
    this.#options = options;
  }

  /** As `ConnectionPool.take`. A stream is always fresh: one that carried nothing left no trace on its connection. */
  take(_options: { isFresh: boolean }, onConnection: (connection: Connection) => void): (() => void) | null {
    const session = this.#waiting.length === 0 ? this.#withRoom() : null;
    if (session !== null) {
      onConnection(hand(session));
      return NOTHING;
    }
    if (this.#waiting.length >= WAITING_MAX) return null;
    this.#waiting.push(onConnection);
    this.#openIfNeeded();
    return () => {
      const at = this.#waiting.indexOf(onConnection);
      if (at >= 0) this.#waiting.splice(at, 1);
    };
  }

  /** Takes no new requests; connections end with their last stream. */
  close(): void {
    this.#isClosing = true;
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    this.#sweeper = null;
    for (const session of [...this.#sessions])
      if (!session.isConnecting || this.#waiting.length === 0) session.retire();
  }

  onReady(): void {
    this.#sweeper ??= setInterval(() => this.#sweep(), this.#options.keepAliveMs / SWEEPS_PER_KEEP_ALIVE).unref();
    this.#serve();
  }

  onRoom(): void {
    this.#serve();
  }

  onRetired(session: NodeSession): void {
    const at = this.#sessions.indexOf(session);
    if (at >= 0) this.#sessions.splice(at, 1);
    if (this.#waiting.length > 0) this.#openIfNeeded();
  }

  onConnectError(session: NodeSession, error: ConnectError): void {
    const at = this.#sessions.indexOf(session);
    if (at >= 0) this.#sessions.splice(at, 1);
    // a connection that has streams in use serves them, one after the other
    if (this.#sessions.length > 0) return;
    for (const onConnection of this.#waiting.splice(0)) onConnection(failed(error));
  }

  #serve(): void {
    while (this.#waiting.length > 0) {
      const session = this.#withRoom();
      if (session === null) break;
      this.#waiting.shift()?.(hand(session));
    }
    if (this.#waiting.length > 0) this.#openIfNeeded();
    else if (this.#isClosing) for (const session of [...this.#sessions]) session.retire();
  }

  #withRoom(): NodeSession | null {
    const nowMs = performance.now();
    for (const session of [...this.#sessions]) {
      if (session.isConnecting) continue;
      if (nowMs - session.openedAtMs > this.#options.maxAgeMs) session.retire();
      else if (session.streamCount === 0 && nowMs - session.idleSinceMs > this.#options.keepAliveMs) session.retire();
      else if (session.hasRoom) return session;
    }
    return null;
  }

  #openIfNeeded(): void {
    if (this.#sessions.length >= this.#options.maxConnections) return;
    if (this.#sessions.some((session) => session.isConnecting || session.hasRoom)) return;
    this.#sessions.push(new NodeSession(this.#options.target, this.#options.limits, this));
  }

  #sweep(): void {
    this.#withRoom();
    const nowMs = performance.now();
    for (const session of [...this.#sessions]) {
      const isIdle = !session.isConnecting && session.streamCount === 0;
      if (isIdle && nowMs - session.idleSinceMs > this.#options.keepAliveMs) session.retire();
    }
    if (this.#sessions.length > 0 || this.#sweeper === null) return;
    clearInterval(this.#sweeper);
    this.#sweeper = null;
  }
}

function hand(session: NodeSession): Connection {
  const stream = session.take();
  let isHeld = true;
  return {
    wasStale: () => stream.wasStale,
    send: (request, handler) => stream.send(request, handler),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    release: () => {
      if (!isHeld) return;
      isHeld = false;
      stream.release();
    },
  };
}

/** Stands for the connection that could not be made: its request fails the way it would have on it. */
function failed(error: ConnectError): Connection {
  let handler: NodeExchangeHandler | null = null;
  return {
    wasStale: () => false,
    send: (_request, given) => {
      handler = given;
      queueMicrotask(() => handler?.onError(error));
    },
    pause: NOTHING,
    resume: NOTHING,
    release: () => {
      handler = null;
    },
  };
}

const NOTHING = (): void => {};
