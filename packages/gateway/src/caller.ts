/** A request and its answer as the data port sees them, whichever version of HTTP the caller speaks. */

import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";

/** What carries an answer: a socket, or a stream of an HTTP/2 connection. */
export interface CallerLink {
  /** Bytes that the caller has not taken yet. */
  readonly writableLength: number;
  /** The caller's; absent once the connection is gone. */
  readonly remoteAddress?: string | undefined;
  /** Ends the link when nothing of the answer is taken for so long, ms; 0: no limit. */
  setTimeout(ms: number): unknown;
}

/** What came: `IncomingMessage`, or what `http2/caller-stream.ts` makes of a stream. */
export type CallerRequest = Readable & {
  readonly headers: IncomingHttpHeaders;
  /** Name, value, name, value … as received. */
  readonly rawHeaders: readonly string[];
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMajor: number;
  readonly socket: CallerLink;
};

/** Where the answer goes: `ServerResponse`, or its counterpart for a stream. */
export interface CallerResponse {
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  /** Everything was handed on, the end included. */
  readonly writableFinished: boolean;
  /** Null: it waits for its turn behind another answer of the same connection. */
  readonly socket: CallerLink | null;
  setHeader(name: string, value: string | number): unknown;
  /**
   * Fields of ours, before the head is written: the lines that HTTP/1.1 has for them, `name: value\r\n` each, names in
   * lower case. Nobody looks at them again, so that only what was checked where it came in may stand there.
   */
  setLines(lines: string): void;
  /** @param fields name, value, name, value …. */
  writeHead(status: number, fields?: string[] | Record<string, string>): CallerResponse;
  /** False: wait until `onceWritable` calls back before more is written. */
  write(chunk: Buffer | string): boolean;
  /** The next bytes of a body that has begun, a text of Latin-1 or as they are; returns as `write`. */
  writePiece(bytes: string | Buffer): boolean;
  /** Calls back once when what was written has left. */
  onceWritable(listener: () => void): void;
  end(): unknown;
  end(chunk: Buffer | string): unknown;
  end(chunk: string, encoding: "latin1"): unknown;
  /** Breaks the answer off, so that the caller can tell. */
  destroy(): unknown;
  on(event: "close" | "error", listener: () => void): unknown;
  once(event: "close", listener: () => void): unknown;
}
