/** One request to a price interface: bounded in time and bytes, its failures in words that hold no secret. */

import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { z } from "zod";
import { type FeedContext, FeedError } from "./feed-context.ts";

/** Largest answer of an interface, after decompression: twenty times a page of Google's catalogue. */
export const ANSWER_BYTES_MAX = 32 * 2 ** 20;
/** A key file is one line. */
const KEY_FILE_BYTES_MAX = 8192;
/** A provider that asks for a longer pause gets this one, ms. */
const RETRY_AFTER_MAX_MS = 3_600_000;

/** What to ask. */
export interface PriceRequest {
  readonly url: string;
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
}

/**
 * The key of a feed, from the environment or its file. Read anew at each fetch, so that a rotated file is taken up.
 *
 * @returns null when the feed names none.
 * @throws FeedError when the file can't be read or holds no key.
 */
export async function apiKeyOf({ config, apiKey, signal }: FeedContext): Promise<string | null> {
  if (apiKey !== null) return apiKey.reveal();
  if (config.apiKeyFile === null) return null;
  let text: string;
  try {
    text = (await readFile(config.apiKeyFile, { encoding: "utf8", signal })).trim();
  } catch (cause) {
    throw new FeedError(`api_key_file can't be read (${codeOf(cause)}): check its path and its permissions`, { cause });
  }
  if (text.length > KEY_FILE_BYTES_MAX || !/^[!-~]+$/.test(text)) {
    throw new FeedError("api_key_file holds no key: one line of printable characters is expected");
  }
  return text;
}

/** The header with a feed's key; without a key none. */
export async function bearer(context: FeedContext): Promise<Record<string, string>> {
  const key = await apiKeyOf(context);
  return key === null ? {} : { authorization: `Bearer ${key}` };
}

/**
 * Asks and reads the answer.
 *
 * @returns the body's chunks, at most {@link ANSWER_BYTES_MAX} in sum; and the content type, lower case.
 * @throws FeedError for every way in which there is no such answer: no connection, a status that is no 200, too large.
 */
export async function ask(
  context: FeedContext,
  request: PriceRequest,
): Promise<{ chunks: AsyncIterable<Uint8Array>; contentType: string }> {
  const place = placeOf(request.url);
  let response: Response;
  try {
    response = await fetch(request.url, {
      method: request.method ?? "GET",
      headers: {
        accept: "application/json, text/csv;q=0.9",
        ...(request.body === undefined ? {} : { "content-type": "application/json" }),
        ...request.headers,
      },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      // a redirect could carry the key to a host that nobody configured, or lead to a metadata address
      redirect: "manual",
      signal: context.signal,
    });
  } catch (cause) {
    throw new FeedError(`${place} gave no answer (${codeOf(cause)})`, { cause });
  }
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new FeedError(`${place} answered ${statusText(response.status)}`, {
      retryAfterMs: retryAfterMs(response.headers),
    });
  }
  return {
    chunks: bounded(response.body, place),
    contentType: (response.headers.get("content-type") ?? "").toLowerCase(),
  };
}

/**
 * Asks for JSON of a shape.
 *
 * @throws FeedError also when the answer is HTML, truncated, or of another shape.
 */
export async function askJson<S extends z.ZodType>(
  context: FeedContext,
  request: PriceRequest,
  schema: S,
): Promise<z.output<S>> {
  const { chunks } = await ask(context, request);
  return parseJson(await textOf(chunks), schema, placeOf(request.url));
}

/**
 * JSON of a shape.
 *
 * @param place how the text calls where it came from.
 * @throws FeedError when it is no JSON, or of another shape.
 */
export function parseJson<S extends z.ZodType>(text: string, schema: S, place: string): z.output<S> {
  if (text.trim() === "") throw new FeedError(`${place} is empty`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // the parser's own text quotes the answer
    const what = /^\s*</.test(text) ? "HTML or XML where JSON was expected" : "no JSON, or truncated";
    throw new FeedError(`${place}: the answer is ${what}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue === undefined || issue.path.length === 0 ? "the top level" : issue.path.slice(0, 6).join(".");
  throw new FeedError(`${place}: the answer has an unknown shape at ${path}: ${issue?.code ?? "unknown"}`);
}

/** The whole body as text. */
export async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts).toString("utf8");
}

/** The origin: in path and query of a list's address there may be a token. */
export function placeOf(url: string): string {
  return new URL(url).origin;
}

/** Lets go of the thread between two pages, so that polls keep their time while a catalogue is read. */
export async function breathe(signal: AbortSignal): Promise<void> {
  await delay(0, undefined, { signal }).catch((cause: unknown) => {
    throw new FeedError("the fetch was ended", { cause });
  });
}

async function* bounded(body: ReadableStream<Uint8Array> | null, place: string): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX)
        throw new FeedError(`${place}: the answer is larger than ${ANSWER_BYTES_MAX} bytes`);
      yield chunk;
    }
  } catch (cause) {
    if (cause instanceof FeedError) throw cause;
    throw new FeedError(`${place}: the answer broke off (${codeOf(cause)})`, { cause });
  }
}

function statusText(status: number): string {
  if (status === 401) return "401: the key is missing, wrong or no longer valid";
  if (status === 403) return "403: the key may not read prices";
  if (status === 404) return "404: there is no such address";
  if (status === 429) return "429: too many requests";
  if (status >= 300 && status < 400) return `${status}: a redirect, which is not followed; configure the final address`;
  return String(status);
}

/** `Retry-After` in seconds or as a date, or the reset of the rate limit's window; ms, bounded; 0: nobody said. */
function retryAfterMs(headers: Headers): number {
  const stated = headers.get("retry-after") ?? headers.get("ratelimit-reset") ?? headers.get("x-ratelimit-reset");
  if (stated === null) return 0;
  const seconds = Number(stated);
  // some state the moment of the reset instead of the time to it, in seconds or in ms
  const momentMs = seconds > 1e12 ? seconds : seconds > 1e9 ? seconds * 1000 : Number.NaN;
  const waitMs = Number.isNaN(momentMs) ? seconds * 1000 : momentMs - Date.now();
  const ms = Number.isFinite(seconds) ? waitMs : Date.parse(stated) - Date.now();
  return Number.isFinite(ms) ? Math.min(Math.max(0, ms), RETRY_AFTER_MAX_MS) : 0;
}

/** Codes of Node, undici, zlib and TLS. What a server calls its errors is not among them: it may quote what was sent. */
const CODE = /^(?:(?:ERR|UND_ERR|HPE|Z)_[A-Z0-9_]{1,60}|[A-Z]+(?:_[A-Z]+)*)$/;

/** The short name of a fault: `ECONNREFUSED`, `TimeoutError`. Texts of other people's errors are never shown. */
export function codeOf(error: unknown): string {
  for (let inner = error, depth = 0; inner instanceof Error && depth < 4; inner = inner.cause, depth += 1) {
    if ("code" in inner && typeof inner.code === "string" && CODE.test(inner.code)) return inner.code;
    if (inner.name === "AbortError" || inner.name === "TimeoutError") return inner.name;
  }
  return error instanceof Error && /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : "unknown";
}
