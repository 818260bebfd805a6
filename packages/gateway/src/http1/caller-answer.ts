/**
 * An answer to a caller of HTTP/1.1, whose pieces take the short way: framed here and handed to the socket in one write.
 * Node's own way makes four of each piece, collects them for a turn of the loop and joins them again, which is a third of
 * what relaying an event costs. Fields of ours go into the head as text: Node's way takes each apart and checks it.
 */

import type { IncomingMessage } from "node:http";
import type { CallerResponse } from "../caller.ts";
import { ServerResponse } from "../node-http.ts";

export class CallerAnswer<Request extends IncomingMessage = IncomingMessage>
  extends ServerResponse<Request>
  implements CallerResponse
{
  /** The last piece went to the socket itself, so that its `drain` is the one to wait for. */
  #isDirect = false;
  #lines = "";

  setLines(lines: string): void {
    this.#lines = lines;
  }

  /** Node's own step that puts status line and fields together; what stands behind the status line is fields to it. */
  override _storeHeader(statusLine: string, fields: unknown): void {
    super._storeHeader(statusLine + this.#lines, fields);
  }

  writePiece(bytes: string | Buffer): boolean {
    const { socket } = this;
    // without a socket it waits for its turn; while it is corked what was written before waits too; and what is large is
    // not worth the copy into a text
    this.#isDirect = typeof bytes === "string" && socket?.writable === true && this.#isOut;
    if (!this.#isDirect || socket === null) return this.write(bytes, "latin1");
    return socket.write(this.chunkedEncoding ? `${bytes.length.toString(16)}\r\n${bytes}\r\n` : bytes, "latin1");
  }

  /** The head has left, and nothing of this answer stands before what is written now. */
  get #isOut(): boolean {
    return this.headersSent && this.writableCorked === 0 && !this.writableEnded && !this.destroyed;
  }

  onceWritable(listener: () => void): void {
    if (this.#isDirect && this.socket !== null) this.socket.once("drain", listener);
    else this.once("drain", listener);
  }
}

declare module "node:http" {
  interface OutgoingMessage {
    /** Not among Node's types; it is in every version that this runs on, and tests would see it missing. */
    _storeHeader(firstLine: string, fields: unknown): void;
  }
}
