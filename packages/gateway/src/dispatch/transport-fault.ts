/** What an error of a connection says, in the engine's words. By class and code, never by message. */

import type { TransportFault } from "@zml/engine";
import { ConnectError } from "./node-connection.ts";
import { BadResponseError } from "./response-parser.ts";

/** Why an attempt ended without an answer. */
export interface Fault {
  fault: TransportFault;
  /** The connection was a reused one and brought no byte of an answer: it carried nothing. */
  isUnsent: boolean;
}

/** @param connection `hasAnswerBegun`: a response head has been read; `isReused`: it carried an answer before. */
export function faultOf(error: Error, connection: { hasAnswerBegun: boolean; isReused: boolean }): Fault {
  if (error instanceof ConnectError) return { fault: connectFault(error.code), isUnsent: false };
  if (error instanceof BadResponseError) return { fault: "bad_response", isUnsent: false };
  return { fault: "reset", isUnsent: !connection.hasAnswerBegun && connection.isReused };
}

function connectFault(code: string): TransportFault {
  switch (code) {
    case "ECONNREFUSED":
      return "connect_refused";
    case "ETIMEDOUT":
      return "connect_timeout";
    default:
      return "connect_failed";
  }
}
