/** One call: sent, sent again where that helps, under one deadline. */
import { CallScope } from "./call-scope.ts";
import { type ConnectionFailure, connectionFailure } from "./connection-error.ts";
import { type APIStatusError, ZMLError } from "./errors.ts";
import { redirectError } from "./format-error.ts";
import { type BodyText, MAX_ERROR_BYTES, readBody } from "./read-body.ts";
import type { CallOptions } from "./requests.ts";
import { backoffMs, isRetried } from "./retry.ts";
import { type Port, readHeaders, readRetries, readTimeout, type Settings } from "./settings.ts";
import { errorOfAnswer } from "./status-error.ts";

/** What is sent. */
export interface WireRequest {
  readonly port: Port;
  readonly method: "GET" | "POST";
  /** With the leading `/`. */
  readonly path: string;
  readonly body?: string;
  /** Of ZML itself, in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A head that was no error; what reads its body ends the scope. */
export interface Opened {
  readonly response: Response;
  readonly scope: CallScope;
  readonly url: string;
  readonly port: Port;
  /** When the head came, by the wall clock. */
  readonly dateMs: number;
}

/**
 * Sends a request until a head comes that is no error.
 * @throws ConfigurationError, APIConnectionError, APIStatusError, or the reason of the caller's signal
 */
export async function send(settings: Settings, request: WireRequest, options: CallOptions): Promise<Opened> {
  const { timing } = settings;
  const { port, method } = request;
  const url = port.url + request.path;
  const init: RequestInit = {
    method,
    headers: { ...port.headers, ...request.headers, ...readHeaders("extraHeaders", options.extraHeaders) },
    // a redirect may turn a POST into a GET, or take a prompt to another host
    redirect: "manual",
  };
  if (request.body !== undefined) init.body = request.body;
  const maxRetries = readRetries(options.maxRetries) ?? settings.maxRetries;
  const scope = new CallScope(timing, readTimeout(options.timeoutMs) ?? settings.timeoutMs, options.signal, url);
  init.signal = scope.signal;
  try {
    for (let retry = 0; ; retry++) {
      const result = await attempt(settings, url, init, scope);
      if ("isRetried" in result) {
        if (!result.isRetried || !(await waits(undefined, retry))) throw result.error;
        continue;
      }
      if (result.ok) return { response: result, scope, url, port, dateMs: timing.dateMs() };
      // status 0: a browser that hides where the redirect leads
      if (result.status < 400) {
        scope.abort(new ZMLError("the answer is not read"));
        throw redirectError({ response: result, url });
      }
      const error = await readError(result, url, port, settings, scope);
      if (!isRetried(error.status, error.shouldRetry) || !(await waits(error.retryAfter, retry))) throw error;
    }
  } catch (error) {
    scope.end();
    throw error;
  }

  /** Waits before the next attempt; `false` when there is none. */
  async function waits(askedSeconds: number | undefined, retry: number): Promise<boolean> {
    if (retry >= maxRetries) return false;
    const waitMs = askedSeconds === undefined ? backoffMs(retry, timing.random()) : askedSeconds * 1000;
    if (waitMs >= scope.leftMs) return false;
    await timing.sleep(waitMs, scope.signal);
    scope.check();
    return true;
  }
}

async function attempt(
  settings: Settings,
  url: string,
  init: RequestInit,
  scope: CallScope,
): Promise<Response | ConnectionFailure> {
  const fetching = settings.fetch(url, init);
  try {
    return await scope.race(fetching);
  } catch (cause) {
    if (scope.signal.aborted) {
      // a fetch that knows no signal: what it still brings is let go
      fetching.then(
        (late) => late.body?.cancel().catch(() => {}),
        () => {},
      );
    }
    scope.check();
    return connectionFailure(cause, url);
  }
}

async function readError(
  response: Response,
  url: string,
  port: Port,
  settings: Settings,
  scope: CallScope,
): Promise<APIStatusError> {
  let body: BodyText | null = null;
  try {
    body = await scope.race(readBody(response, MAX_ERROR_BYTES));
  } catch {
    // the status is known and says more than a body that breaks off; but who left is not told of it
    scope.checkCaller();
  }
  return errorOfAnswer(response, body, { url, port, dateMs: settings.timing.dateMs() });
}
