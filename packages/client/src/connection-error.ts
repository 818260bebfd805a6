/** Why fetch rejected, in words that help. Each runtime says it in its own way. */
import { APIConnectionError, APITimeoutError, TLSError } from "./errors.ts";

/** What fetch threw, classified. */
export interface ConnectionFailure {
  readonly error: APIConnectionError;
  /** Whether the request can't have been worked on, or the same one may pass. */
  readonly isRetried: boolean;
}

/** The deepest chain of causes that is looked at. */
const MAX_CAUSES = 5;

const TLS_CODE = /^ERR_(SSL|TLS)_|CERT|^UNABLE_TO_|^DEPTH_ZERO_|^EPROTO$|^HOSTNAME_MISMATCH$/;
const TLS_TEXT = /certificate|\btls\b|\bssl\b/i;

/** `cause` is what the platform's fetch rejected with, not by our own abort. */
export function connectionFailure(cause: unknown, url: string): ConnectionFailure {
  const { codes, texts } = chainOf(cause);
  const code = codes.at(-1);
  const options = { cause };
  const where = new URL(url).origin;
  if (codes.some((each) => each === "UND_ERR_HEADERS_TIMEOUT" || each === "UND_ERR_BODY_TIMEOUT")) {
    const text =
      `${where} sent nothing for longer than the platform's fetch waits (${code}): stream the answer, or give the client ` +
      "a fetch with a longer limit";
    // the request arrived, and may still be worked on
    return { error: new APITimeoutError(text, options), isRetried: false };
  }
  if (codes.some((each) => TLS_CODE.test(each)) || texts.some((each) => TLS_TEXT.test(each.replaceAll(where, "")))) {
    const text =
      `the TLS connection to ${where} failed${code === undefined ? "" : ` (${code})`}: check that this port speaks TLS, ` +
      "and make the runtime trust the authority of its certificate (Node: NODE_EXTRA_CA_CERTS=FILE)";
    // a reset in the handshake may pass, a certificate doesn't
    return { error: new TLSError(text, options), isRetried: code === "ECONNRESET" };
  }
  if (texts.includes("bad port")) {
    const text = `the platform's fetch refuses the port of ${where}, as browsers do: let ZML listen on another one`;
    return { error: new APIConnectionError(text, options), isRetried: false };
  }
  if (code?.startsWith("HPE_") === true || texts.some((each) => /does not match the HTTP/.test(each))) {
    const text = `what ${where} answered is no HTTP: check the port, and whether it wants https`;
    return { error: new APIConnectionError(text, options), isRetried: false };
  }
  const known = code === undefined ? "" : ` (${code})`;
  return {
    error: new APIConnectionError(`no answer from ${where}${known}: ${adviceOf(code)}`, options),
    isRetried: true,
  };
}

function adviceOf(code: string | undefined): string {
  switch (code) {
    case "ECONNREFUSED":
    case "ConnectionRefused":
      return "nobody listens there: check that the gateway runs, and the base URL";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the name of the host is not known: check the base URL";
    case "ECONNRESET":
    case "UND_ERR_SOCKET":
      return "the connection broke before an answer came: try again, and check what stands between";
    default:
      return "check that the gateway runs, the base URL and the network (in a browser also CORS)";
  }
}

function chainOf(cause: unknown): { codes: string[]; texts: string[] } {
  const codes: string[] = [];
  const texts: string[] = [];
  let link: unknown = cause;
  for (let depth = 0; depth < MAX_CAUSES && typeof link === "object" && link !== null; depth++) {
    const { code, message, cause: next, errors } = link as Record<string, unknown>;
    if (typeof code === "string") codes.push(code);
    if (typeof message === "string") texts.push(message);
    // one error per address that was tried
    link = next ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return { codes, texts };
}
