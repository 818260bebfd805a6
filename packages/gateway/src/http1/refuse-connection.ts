/** The last words to a connection whose next message is no request: no request exists that could be answered. */

import type { Duplex } from "node:stream";
import { ERRORS, errorBody } from "@zml/protocol/errors";

/**
 * Answers what the parser refused, and ends the connection.
 *
 * @param parserCode the parser's word for it.
 */
export function refuseConnection(
  socket: Duplex,
  parserCode: string,
  { headerBytes, headMs }: { headerBytes: number; headMs: number },
): void {
  const code = errorCodeOf(parserCode);
  const message =
    code === "header_too_large"
      ? ERRORS.header_too_large.message({ limitBytes: headerBytes })
      : code === "body_timeout"
        ? ERRORS.body_timeout.message({ limitMs: headMs })
        : ERRORS.bad_request.message();
  const body = JSON.stringify(errorBody("openai", code, { message }));
  const { status } = ERRORS[code];
  socket.end(
    `HTTP/1.1 ${status} Error\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function errorCodeOf(parserCode: string): "header_too_large" | "body_timeout" | "bad_request" {
  switch (parserCode) {
    case "HPE_HEADER_OVERFLOW":
      return "header_too_large";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "body_timeout";
    default:
      return "bad_request";
  }
}
