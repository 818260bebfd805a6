/** The way to a node: name, connection, TLS, and how long it keeps an idle connection. */

import { lookup } from "node:dns/promises";
import { isIP, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { whyNoNodeAddress } from "@zml/protocol/node-address";
import { codeOf } from "../http1/error-code.ts";
import { targetOf } from "../http1/node-connection.ts";
import { type NodeTls, openSocket } from "../http1/open-socket.ts";

/** Where to go. */
export interface SocketTarget {
  readonly url: string;
  readonly serverName: string | null;
  readonly allowsLinkLocal: boolean;
  /** Its own TLS; null: the system's authorities. */
  readonly tls: NodeTls | null;
  readonly connectMs: number;
  /** What the handshake asks for. Default: http/1.1. */
  readonly protocol?: "http/1.1" | "h2";
  /** Aborts when the check's time is over. */
  readonly signal: AbortSignal;
}

/** What became of it. `code`: of the system or of TLS, or `timeout`, `link_local`. */
export type Reach =
  | { readonly isReached: false; readonly stage: "name" | "connect" | "tls"; readonly code: string }
  | {
      readonly isReached: true;
      readonly address: string;
      readonly addresses: number;
      readonly tookMs: number;
      /** Null: no TLS. */
      readonly tls: { readonly protocol: string; readonly validTo: Date | null } | null;
      /** Open, and free. */
      readonly socket: Socket;
    };

/** Looks the name up and connects, as traffic would. Never rejects. */
export async function reach({
  url,
  serverName,
  allowsLinkLocal,
  tls,
  connectMs,
  protocol = "http/1.1",
  signal,
}: SocketTarget): Promise<Reach> {
  const limits = { connectMs, headerBytes: 0, serverName, allowsLinkLocal };
  const { host, port, isTls } = targetOf(url, limits);
  const startedAtMs = performance.now();
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(connectMs)]);
  let addresses: { address: string }[];
  try {
    addresses = isIP(host) !== 0 ? [{ address: host }] : await beforeAbort(lookup(host, { all: true }), deadline);
  } catch (error) {
    return { isReached: false, stage: "name", code: deadline.aborted ? "timeout" : codeOf(error) };
  }
  const allowed = allowsLinkLocal ? addresses : addresses.filter(({ address }) => whyNoNodeAddress(address) === null);
  if (allowed.length === 0) return { isReached: false, stage: "name", code: "link_local" };
  let last: Reach = { isReached: false, stage: "connect", code: "timeout" };
  for (const { address } of allowed) {
    // link-local ones were left out above
    const to = { host: address, port, isTls, serverName: serverName ?? host, allowsLinkLocal: true, tls };
    const tried = await open(openSocket(to, protocol), isTls, deadline);
    if (!(tried instanceof Object && "stage" in tried)) {
      const isSecure = tried instanceof TLSSocket;
      const until = isSecure ? new Date(tried.getPeerCertificate().valid_to) : null;
      const validTo = until === null || Number.isNaN(until.getTime()) ? null : until;
      return {
        isReached: true,
        address: address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`,
        addresses: allowed.length,
        tookMs: performance.now() - startedAtMs,
        tls: isSecure ? { protocol: tried.getProtocol() ?? "TLS", validTo } : null,
        socket: tried,
      };
    }
    last = { isReached: false, ...tried };
  }
  return last;
}

/** The socket once it is open, or why it is not. */
function open(
  socket: Socket,
  isTls: boolean,
  deadline: AbortSignal,
): Promise<Socket | { stage: "connect" | "tls"; code: string }> {
  const { promise, resolve } = Promise.withResolvers<Socket | { stage: "connect" | "tls"; code: string }>();
  let stage: "connect" | "tls" = "connect";
  const fail = (code: string): void => {
    socket.destroy();
    resolve({ stage, code });
  };
  const onAbort = (): void => fail("timeout");
  deadline.addEventListener("abort", onAbort);
  const done = (): void => {
    deadline.removeEventListener("abort", onAbort);
    resolve(socket);
  };
  socket.once("connect", () => {
    stage = "tls";
    if (!isTls) done();
  });
  socket.once("secureConnect", done);
  socket.once("close", () => fail("ECONNRESET"));
  socket.on("error", (error) => fail(codeOf(error)));
  if (deadline.aborted) onAbort();
  return promise;
}

/** How a node treats an idle connection. */
export type KeepAlive =
  /** It says how long, ms. */
  | { readonly kind: "told"; readonly ms: number }
  /** It closed after so many ms without a byte. */
  | { readonly kind: "closed"; readonly afterMs: number }
  /** It said, or showed, that each answer ends its connection. */
  | { readonly kind: "none" }
  /** It was still open after so many ms. */
  | { readonly kind: "open"; readonly afterMs: number }
  /** It did not answer. */
  | { readonly kind: "unknown" };

/**
 * Asks once over an open socket, then waits and sees who closes it first. Ends the socket. Never rejects.
 *
 * @param waitMs idle time after which ZML would close it.
 */
export async function watchIdle(
  socket: Socket,
  { host, path, waitMs, signal }: { host: string; path: string; waitMs: number; signal: AbortSignal },
): Promise<KeepAlive> {
  const { promise, resolve } = Promise.withResolvers<KeepAlive>();
  let head = "";
  let lastByteAtMs = Number.NaN;
  let timer: NodeJS.Timeout | null = null;
  const end = (): void => {
    const idleMs = performance.now() - lastByteAtMs;
    if (Number.isNaN(idleMs)) resolve({ kind: "unknown" });
    else if (/^connection:.*\bclose\b/im.test(head)) resolve({ kind: "none" });
    else resolve({ kind: "closed", afterMs: idleMs });
  };
  socket.on("data", (bytes: Buffer) => {
    lastByteAtMs = performance.now();
    if (head.length < HEAD_CHARACTERS) head += bytes.toString("latin1");
    const [, seconds] = /^keep-alive:.*\btimeout=(\d+)/im.exec(head) ?? [];
    if (seconds !== undefined) resolve({ kind: "told", ms: Number(seconds) * 1000 });
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(() => resolve({ kind: "open", afterMs: waitMs }), waitMs);
  });
  socket.once("end", end);
  socket.once("close", end);
  socket.on("error", end);
  const onAbort = (): void => resolve({ kind: "unknown" });
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\naccept: */*\r\nuser-agent: zml\r\n\r\n`, "latin1");
  const result = await promise;
  if (timer !== null) clearTimeout(timer);
  signal.removeEventListener("abort", onAbort);
  socket.destroy();
  return result;
}

/** More than the head of an answer; the body does not matter. */
const HEAD_CHARACTERS = 16_384;

/** The answer, or a rejection as soon as the time is over. */
async function beforeAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(new Error("timeout"));
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
