/**
 * Takes a connection over from the `http.Server` that listens, once its parser has met the preface of HTTP/2
 * (docs/decisions/0005). Until then the server's own limits hold, so that half a preface is a slow head like any other.
 */

import { Socket } from "node:net";

/** What a client that knows that we speak HTTP/2 begins with (RFC 9113, 3.4). */
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** The parser's word for a preface. */
export const PREFACE_ERROR = "HPE_PAUSED_H2_UPGRADE";

/** What `clientError` is given. `rawPacket`: the bytes read last; `bytesParsed`: how far in them the parser came. */
export type ParserError = Error & { code?: string; rawPacket?: Buffer; bytesParsed?: number };

/** An `http.Server`'s parser of a connection, as far as it is touched. */
interface ServerParser {
  remove(): void;
  close(): void;
}

/**
 * Detaches HTTP/1.1 from a socket and puts back what the HTTP/2 session has to read.
 *
 * @returns false when the preface is not the first thing on the connection: then nothing was touched.
 */
export function takeOver(socket: Socket & { parser?: ServerParser | null }, error: ParserError): boolean {
  const { rawPacket = EMPTY, bytesParsed = rawPacket.length } = error;
  const rest = rawPacket.subarray(bytesParsed);
  // what came before in the same connection was HTTP/1.1, or an empty line that its parser forgives
  if (socket.bytesRead - rest.length !== PREFACE.length) return false;
  const { parser } = socket;
  // a listener for data makes the server give the handle back
  socket.on("data", NOTHING);
  if (parser !== undefined && parser !== null) {
    socket.parser = null;
    parser.remove();
    // it is at work further down the stack
    setImmediate(() => parser.close());
  }
  for (const name of SERVER_EVENTS) {
    const own = PLAIN.listeners(name);
    for (const listener of socket.listeners(name)) {
      if (!own.includes(listener)) socket.off(name, listener as () => void);
    }
  }
  for (const name of OVERRIDES) delete (socket as Partial<Socket>)[name];
  socket.setTimeout(0);
  // a caller who closes its side of an HTTP/2 connection is gone
  socket.allowHalfOpen = false;
  socket.pause();
  // the preface may have come in pieces, and the parser keeps none
  socket.unshift(rest.length === 0 ? PREFACE : Buffer.concat([PREFACE, rest]));
  return true;
}

const EMPTY = Buffer.alloc(0);
const NOTHING = (): void => {};

/** Events that the server listens to on its sockets. */
const SERVER_EVENTS = ["data", "end", "close", "drain", "error", "timeout", "pause", "resume"] as const;

/** Methods that the server replaces on its sockets. */
const OVERRIDES = ["on", "addListener", "prependListener", "setEncoding"] as const;

/** A socket that no server has seen: what listens to it is the socket's own. */
const PLAIN = new Socket();
