/** Questions to the admin API of the gateway that served this page. */

/** Of the browser's tab: a key is gone when it closes, and never in a URL or a cookie. */
const KEY_ITEM = "zml-admin-key";

/** `unreachable`: nobody answers. `foreign`: the answer is of another version. `refused`: the API's own words. */
export type ErrorKind = "unreachable" | "foreign" | "refused";

/** A question without the answer that was wanted. */
export class ApiError extends Error {
  readonly kind: ErrorKind;
  /** HTTP status; 0: there was none. */
  readonly status: number;
  /** The API's own word for what is wrong; "": it has none. */
  readonly code: string;
  /** What is wrong with which field. */
  readonly details: readonly string[];

  constructor(kind: ErrorKind, status: number, message: string, details: readonly string[] = [], code = "") {
    super(message);
    this.kind = kind;
    this.status = status;
    this.details = details;
    this.code = code;
  }
}

export function hasKey(): boolean {
  return sessionStorage.getItem(KEY_ITEM) !== null;
}

/** @param key null: forget it. */
export function setKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY_ITEM);
  else sessionStorage.setItem(KEY_ITEM, key);
}

/** An answer that takes longer is of no use to who looks, ms. */
const DEADLINE_MS = 15_000;

/**
 * Asks the admin API.
 *
 * @param path below `/admin/v1`.
 * @throws ApiError
 */
export async function ask<T>(
  path: string,
  init: { method?: string; body?: unknown; signal?: AbortSignal; deadlineMs?: number } = {},
): Promise<T> {
  const key = sessionStorage.getItem(KEY_ITEM);
  const headers: Record<string, string> = { accept: "application/json" };
  if (key !== null) headers["authorization"] = `Bearer ${key}`;
  if (init.body !== undefined) headers["content-type"] = "application/json";
  const deadline = AbortSignal.timeout(init.deadlineMs ?? DEADLINE_MS);
  const signal = init.signal === undefined ? deadline : AbortSignal.any([init.signal, deadline]);
  let response: Response;
  let text: string;
  try {
    response = await fetch(`/admin/v1${path}`, {
      method: init.method ?? "GET",
      headers,
      signal,
      ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
    });
    text = await response.text();
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new ApiError("unreachable", 0, "The gateway does not answer");
  }
  if (response.ok) return parsed<T>(text);
  const problem = parsed<{
    detail?: string;
    title?: string;
    code?: string;
    errors?: { path?: string; message?: string; hint?: string }[];
  }>(text);
  throw new ApiError(
    "refused",
    response.status,
    problem.detail ?? problem.title ?? `status ${response.status}`,
    (Array.isArray(problem.errors) ? problem.errors : []).map(({ path = "", message = "", hint = "" }) =>
      [path, message, hint].filter((part) => part !== "").join(": "),
    ),
    problem.code,
  );
}

/** What is no JSON is another server's, or another version's. */
function parsed<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError("foreign", 0, "The gateway answers in a way that this page does not understand");
  }
}
