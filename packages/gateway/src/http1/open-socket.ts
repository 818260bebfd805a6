/** Opens a socket to a node, clear or with TLS: the one place that knows which addresses and certificates a node may have. */

import { connect, isIP, type OnReadOpts, Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { whyNoNodeAddress } from "@zml/protocol/node-address";
import { linkLocalError, lookupAnyNode, lookupNode } from "./node-lookup.ts";

/** TLS of one node. PEM; null: not set. */
export interface NodeTls {
  /** Authorities that count for this node, in place of the system's. */
  readonly ca: string | null;
  /** Our certificate, where the node asks for one, with its key. */
  readonly cert: string | null;
  readonly key: string | null;
  /** Name that the node's certificate has to hold; null: the host's. */
  readonly serverName: string | null;
  /** Any certificate will do: whoever is on the way can read along. */
  readonly skipVerify: boolean;
}

/** What a socket needs to know of where it goes. */
export interface SocketTarget {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  /** Name of the server in TLS, where `host` is an address; default: `host`. */
  readonly serverName?: string;
  /** Also to link-local and metadata addresses; see `node-lookup.ts`. */
  readonly allowsLinkLocal?: boolean;
  /** Default: the system's authorities, the host's name, no certificate of ours. */
  readonly tls?: NodeTls | null;
}

/** Hears what a socket read: the first `length` bytes of `block`, valid until it returns. */
export type OnRead = (block: Buffer, length: number) => void;

/** A connection without traffic is probed by the kernel after this long, ms: a node that vanished is noticed. */
const KEEP_ALIVE_PROBE_MS = 60_000;

/** Room for one read, bytes: what libuv asks for by itself. */
const READ_BYTES = 64 * 1024;

/**
 * What every socket of this thread reads into. A read ends before the next one begins, so that one block serves them all:
 * a block of its own for each read costs an allocation of 64 KiB, a copy to its size, and a collection later.
 */
let readBlock: Buffer | null = null;

/**
 * @param protocol what is to be spoken, for ALPN.
 * @param onRead hears what comes in, in place of the event `data`. The bytes are the first `length` of a block that the
 *   next read overwrites: whoever keeps some copies them.
 * @returns the socket, which connects; `secureConnect` with TLS, else `connect`, tells that it has. To an address that
 *   no node has nothing is sent: then it fails with `LINK_LOCAL`.
 */
export function openSocket(target: SocketTarget, protocol: "http/1.1" | "h2", onRead?: OnRead): Socket {
  const { host, port, isTls, allowsLinkLocal = false } = target;
  // addresses that a name has are looked at as it is looked up
  if (!allowsLinkLocal && whyNoNodeAddress(host) !== null) return new Socket().destroy(linkLocalError());
  const address = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS };
  const checked = { lookup: allowsLinkLocal ? lookupAnyNode : lookupNode };
  const reading = onRead === undefined ? {} : { onread: readerOf(onRead) };
  return isTls
    ? connectTls({ ...address, ...checked, ...reading, ...tlsOptions(target), ALPNProtocols: [protocol] })
    : connect({ ...address, ...checked, ...reading });
}

function readerOf(onRead: OnRead): OnReadOpts {
  readBlock ??= Buffer.allocUnsafeSlow(READ_BYTES);
  return {
    buffer: readBlock,
    callback: (length, block) => {
      onRead(block as Buffer, length);
      return true;
    },
  };
}

/** How TLS with a node is spoken: which authorities and name count, and who we are. */
function tlsOptions({ host, serverName, tls }: Pick<SocketTarget, "host" | "serverName" | "tls">): ConnectionOptions {
  const name = tls?.serverName ?? serverName ?? host;
  return {
    // TLS knows names of servers only, no addresses
    ...(isIP(name) === 0 ? { servername: name } : {}),
    ...(tls?.ca == null ? {} : { ca: tls.ca }),
    ...(tls?.cert == null || tls.key === null ? {} : { cert: tls.cert, key: tls.key }),
    ...(tls?.skipVerify === true ? { rejectUnauthorized: false } : {}),
  };
}
