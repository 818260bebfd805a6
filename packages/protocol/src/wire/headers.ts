/** Names of the headers that ZML reads or writes, in the lower case that HTTP/2 demands. */

/** Why the request went where it went: see {@link Routing}. To the node and back to the caller. */
export const ROUTING_HEADER = "x-zml-routing";
/** The caller's choice of a policy. Wins over the body's `policy`. */
export const POLICY_HEADER = "x-zml-policy";
/** The caller's wish for an accelerator family. Wins over the body's `accelerator`. */
export const ACCELERATOR_HEADER = "x-zml-accelerator";
/** Ties the attempts of a request together. Honoured or made, and returned. */
export const REQUEST_ID_HEADER = "x-request-id";
/** W3C trace context. Honoured or made, and returned. */
export const TRACEPARENT_HEADER = "traceparent";
/** `false`: every attempt that made sense was made; SDKs that know the header don't retry. */
export const SHOULD_RETRY_HEADER = "x-should-retry";
/** Seconds until a saturated fleet may have room. */
export const RETRY_AFTER_HEADER = "retry-after";
