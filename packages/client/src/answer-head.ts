/** What the head of an answer says, whatever its body is. */
import {
  decodeRoutingHeader,
  REQUEST_ID_HEADER,
  type ReceivedRouting,
  ROUTING_HEADER,
  SHOULD_RETRY_HEADER,
} from "@zml/protocol/wire";

/** Where the request went. */
export function routingOf(headers: Headers): ReceivedRouting | null {
  const text = headers.get(ROUTING_HEADER);
  return text === null ? null : decodeRoutingHeader(text);
}

export function requestIdOf(headers: Headers): string | undefined {
  return headers.get(REQUEST_ID_HEADER) ?? undefined;
}

/** `x-should-retry`; `undefined` when it is absent or neither word. */
export function shouldRetryOf(headers: Headers): boolean | undefined {
  const text = headers.get(SHOULD_RETRY_HEADER)?.toLowerCase();
  return text === "true" ? true : text === "false" ? false : undefined;
}

/** The media type without parameters, in lower case; `undefined` when the answer names none. */
export function mediaTypeOf(headers: Headers): string | undefined {
  return headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase() || undefined;
}
