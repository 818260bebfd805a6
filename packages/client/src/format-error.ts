/** Answers that ZML doesn't give → the typed error: says what came, and never the body itself. */
import { requestIdOf, routingOf } from "./answer-head.ts";
import { ResponseFormatError } from "./errors.ts";

/** The answer in question. */
export interface FormatContext {
  readonly response: Response;
  readonly url: string;
}

/** `what` came in place of what was `wanted`. */
export function formatError(
  context: FormatContext,
  what: string,
  wanted: string,
  cause?: unknown,
): ResponseFormatError {
  const { response, url } = context;
  const text =
    `${url} answered ${response.status} with ${what} in place of ${wanted}: something between may answer in place of ZML: ` +
    "check the base URL and the proxies";
  return make(context, text, cause);
}

/** A redirect: following it may turn a POST into a GET, and take the key and the prompt to another host. */
export function redirectError(context: FormatContext): ResponseFormatError {
  const { response, url } = context;
  const text =
    `${url} answered ${response.status}, a redirect${targetOf(context)}, which is not followed: give the address that ` +
    "answers by itself as base URL";
  return make(context, text);
}

/** In words, before it was read. */
export function sizeOf(response: Response): string {
  const length = response.headers.get("content-length");
  return length === null ? "unknown size" : `${length} bytes`;
}

function make({ response }: FormatContext, text: string, cause?: unknown): ResponseFormatError {
  return new ResponseFormatError(text, {
    status: response.status,
    contentType: response.headers.get("content-type") ?? undefined,
    routing: routingOf(response.headers),
    requestId: requestIdOf(response.headers),
    cause,
  });
}

/** Where a redirect leads, without its query. */
function targetOf({ response, url }: FormatContext): string {
  try {
    const { origin, pathname } = new URL(response.headers.get("location") ?? "", url);
    return ` to ${origin}${pathname}`;
  } catch {
    return "";
  }
}
