/**
 * Which connections of callers are let in. One beyond a limit is closed as it is accepted, before a byte of it is read, a
 * parser made or a handshake begun: an answer would cost more than the connection, and under TLS could not be read.
 */

import { BlockList, isIPv6, type Socket } from "node:net";
import type { ConnectionCounts } from "./connection-counts.ts";
import type { Log } from "./data-plane.ts";
import type { WorkerSettings } from "./thread-messages.ts";

/** Whoever is over a limit is over it many times: one line says how often, ms. */
const TELL_EVERY_MS = 10_000;

export class ConnectionGate {
  readonly #counts: ConnectionCounts;
  readonly #log: Log;
  /** What the close of a connection does, once. */
  readonly #ends = new WeakMap<Socket, () => void>();
  #limits: WorkerSettings["data"];
  #trusted: BlockList;
  /** Connections of this worker that are open. */
  open = 0;
  #refused = 0;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(counts: ConnectionCounts, log: Log, limits: WorkerSettings["data"]) {
    this.#counts = counts;
    this.#log = log;
    this.#limits = limits;
    this.#trusted = listOf(limits.trustedProxies);
  }

  /** New limits hold for new connections. */
  setLimits(limits: WorkerSettings["data"]): void {
    if (limits.trustedProxies !== this.#limits.trustedProxies) this.#trusted = listOf(limits.trustedProxies);
    this.#limits = limits;
  }

  /** Lets a connection in until it closes, or closes it. Returns whether it is in. */
  admit(socket: Socket): boolean {
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    const address = socket.remoteAddress;
    const isTrusted = address !== undefined && this.#trusted.check(address, isIPv6(address) ? "ipv6" : "ipv4");
    const maxPerAddress = isTrusted ? Number.POSITIVE_INFINITY : maxConnectionsPerAddress;
    const place = this.#counts.take(address, { maxConnections, maxPerAddress });
    if (typeof place === "string") {
      socket.destroy();
      const isTotal = place === "total";
      this.#tell(isTotal ? "data.max_connections" : "data.max_connections_per_address", {
        limit: isTotal ? maxConnections : maxConnectionsPerAddress,
        address: address ?? "gone",
      });
      return false;
    }
    this.open += 1;
    let isOpen = true;
    this.#ends.set(socket, () => {
      if (isOpen) this.open -= 1;
      isOpen = false;
      place.release();
    });
    this.watch(socket);
    return true;
  }

  /** Watches for the close of a connection that was let in; again, where what listened to it was taken off. */
  watch(socket: Socket): void {
    const end = this.#ends.get(socket);
    if (end !== undefined) socket.once("close", end);
  }

  #tell(setting: string, fields: Record<string, string | number>): void {
    this.#refused += 1;
    const nowMs = performance.now();
    if (nowMs - this.#toldAtMs < TELL_EVERY_MS) return;
    this.#toldAtMs = nowMs;
    this.#log("warn", `connections of callers are closed at accept: ${setting} is reached`, {
      ...fields,
      closed: this.#refused,
    });
    this.#refused = 0;
  }
}

/** @param networks addresses and networks that the configuration has checked. */
function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/", 2);
    const family = isIPv6(address) ? "ipv6" : "ipv4";
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return list;
}
