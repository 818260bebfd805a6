/**
 * What a gateway that runs and the one that takes over say to each other: JSON lines over a Unix socket in the folder of
 * the store, which only its user may open. The listening sockets themselves go over a second connection (see
 * `handover-relay.ts`).
 */

import { join } from "node:path";
import type { ListenAddress } from "@zml/protocol";

/** Grows when an older gateway could not follow; the two sides may be of different versions. */
export const HANDOVER_VERSION = 1;

/** Where the gateway of a store listens for the next one. */
export function handoverPath(storeFolder: string): string {
  return join(storeFolder, "handover", "zml.sock");
}

export interface Addresses {
  readonly data: ListenAddress;
  readonly admin: ListenAddress;
}

/** From the new one. */
export type FromSuccessor =
  /** On the second connection: the sockets go here. Nothing follows on it. */
  | { readonly kind: "sockets"; readonly token: string }
  | ({ readonly kind: "hello"; readonly version: number; readonly token: string; readonly pid: number } & Addresses)
  /** It is warm: it wants the sockets. */
  | { readonly kind: "take" }
  /** It accepts connections and answers on the admin port. */
  | { readonly kind: "serving" };

/** From the old one. */
export type FromPredecessor =
  | { readonly kind: "refused"; readonly reason: string }
  /** It has let go of the store; the addresses are those that it listens on. */
  | ({ readonly kind: "welcome"; readonly pid: number } & Addresses)
  /** The sockets were sent: those of the data port, and one of the admin port. */
  | { readonly kind: "given"; readonly dataSockets: number }
  /** It accepts no more. */
  | { readonly kind: "leaving" };

/** What the relay sends beside a socket, and behind the last one. */
export type SocketNote =
  | { readonly kind: "listener"; readonly of: "data" | "admin" }
  | { readonly kind: "end"; readonly sockets: number };

/** A line may not be longer than this, bytes. */
const LINE_BYTES_MAX = 4_096;

/** Reads JSON lines; what is none, or too long, is an error. */
export class Lines<T> {
  #text = "";

  push(bytes: Buffer | string, take: (message: T) => void): void {
    this.#text += bytes.toString();
    for (;;) {
      const end = this.#text.indexOf("\n");
      if (end < 0) {
        if (this.#text.length > LINE_BYTES_MAX) throw new Error(`a line of more than ${LINE_BYTES_MAX} bytes`);
        return;
      }
      const line = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 1);
      take(JSON.parse(line) as T);
    }
  }
}

export function lineOf(message: FromSuccessor | FromPredecessor): string {
  return `${JSON.stringify(message)}\n`;
}
