/** What an error of a connection says, in the engine's words. By class and code, never by message. */

import type { TransportFault } from "@zml/engine";
import { ConnectError } from "../http1/node-connection.ts";
import { BadResponseError, HeadTooLargeError } from "../http1/response-parser.ts";
import { UnsentError } from "../http2/node-session.ts";

/** Why an attempt ended without an answer. */
export interface Fault {
  fault: TransportFault;
  /** The node had closed the connection before the request came: it carried nothing. */
  isUnsent: boolean;
}

/** @param wasStale the connection was lost because the node had closed it before (see `NodeConnection.wasStale`). */
export function faultOf(error: Error, wasStale: boolean): Fault {
  if (error instanceof ConnectError) return { fault: connectFault(error.code), isUnsent: false };
  if (error instanceof HeadTooLargeError) return { fault: "head_too_large", isUnsent: false };
  if (error instanceof BadResponseError) return { fault: "bad_response", isUnsent: false };
  return { fault: "reset", isUnsent: wasStale || error instanceof UnsentError };
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
