/** What an error of the client says, in the engine's words. By code, never by message. */

import type { TransportFault } from "@zml/engine";
import { errors } from "../undici.ts";
import { isConnectError } from "./connection-pool.ts";

/** Why a dispatch ended without an answer. */
export interface Fault {
  fault: TransportFault;
  /** The connection was a reused one and brought no byte of an answer: it carried nothing. */
  isUnsent: boolean;
}

/** @param connection `hasAnswerBegun`: a response head has been read; `isReused`: it carried an answer before. */
export function faultOf(error: Error, connection: { hasAnswerBegun: boolean; isReused: boolean }): Fault {
  const code = codeOf(error);
  if (isConnectError(error) || code === "UND_ERR_CONNECT_TIMEOUT") {
    return { fault: connectFault(code), isUnsent: false };
  }
  if (error instanceof errors.HeadersOverflowError || isProtocolError(error)) {
    return { fault: "bad_response", isUnsent: false };
  }
  return { fault: "reset", isUnsent: !connection.hasAnswerBegun && connection.isReused };
}

function connectFault(code: string): TransportFault {
  switch (code) {
    case "ECONNREFUSED":
      return "connect_refused";
    case "UND_ERR_CONNECT_TIMEOUT":
    case "ETIMEDOUT":
      return "connect_timeout";
    default:
      return "connect_failed";
  }
}

function isProtocolError(error: Error): boolean {
  return error instanceof errors.HTTPParserError || error instanceof errors.ResponseContentLengthMismatchError;
}

function codeOf(error: Error): string {
  // several addresses were tried: the last one stands for all
  const last = error instanceof AggregateError ? error.errors.at(-1) : error;
  const code: unknown = last instanceof Error && "code" in last ? last.code : undefined;
  return typeof code === "string" ? code : "";
}
