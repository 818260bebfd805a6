/** What the constructor takes, parsed once into what calls use. */
import { ConfigurationError } from "./errors.ts";
import { patientFetch } from "./patient-fetch.ts";
import { MAX_TIMER_MS, SYSTEM_TIMING, type Timing } from "./timing.ts";
import { VERSION } from "./version.ts";

/** The platform's fetch, or one with its signature. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Headers by name, those that are `undefined` left out; or pairs, as a `Headers` and a `Map` give them. */
export type GivenHeaders = Readonly<Record<string, string | undefined>> | Iterable<readonly [string, string]>;

/** Arguments of the client; all have defaults. */
export interface ClientOptions {
  /** The gateway's data port, with or without `/v1`. Default: `ZML_BASE_URL`, else `http://127.0.0.1:8080`. */
  readonly baseUrl?: string | undefined;
  /** Default: `ZML_API_KEY`; without one no key is sent. */
  readonly apiKey?: string | undefined;
  /** The gateway's admin port. Default: `ZML_ADMIN_URL`, else `http://127.0.0.1:8081`. */
  readonly adminUrl?: string | undefined;
  /** A key with the scope `admin`. Default: `ZML_ADMIN_KEY`; without one no key is sent. */
  readonly adminKey?: string | undefined;
  /** Deadline of a call with all its retries, ms; of a stream: to its head, then the longest silence. Default: 600,000. */
  readonly timeoutMs?: number | undefined;
  /** How often a call is sent again after a failure that may pass. Default: 2. */
  readonly maxRetries?: number | undefined;
  /** In place of the platform's. */
  readonly fetch?: Fetch | undefined;
  /** Sent with every call. */
  readonly headers?: GivenHeaders | undefined;
  /** Clock, sleep and chance; for tests. */
  readonly timing?: Timing | undefined;
}

/** One port of the gateway. */
export interface Port {
  /** Without a `/` at its end. */
  readonly url: string;
  /** For every call, in lower case; the key is among them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Never shown: an answer that echoes it is cleaned with it. */
  readonly key: string | undefined;
  /** Where the key is given, in words. */
  readonly keyOption: string;
}

/** The options with every default. */
export interface Settings {
  readonly data: Port;
  readonly admin: Port;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly fetch: Fetch;
  readonly timing: Timing;
}

const DEFAULT_TIMEOUT_MS = 600_000;
const DEFAULT_MAX_RETRIES = 2;

/** @throws ConfigurationError */
export function readSettings(options: ClientOptions): Settings {
  const given = options.fetch ?? globalThis.fetch;
  if (typeof given !== "function") {
    throw new ConfigurationError("this runtime has no fetch: give the option fetch, or use Node 20 or newer");
  }
  // not as a method: the platform's fetch wants no `this`; async: what it throws is a rejection
  const fetchOnce: Fetch = async (url, init) => given(url, init);
  const headers = { ...userAgent(), ...readHeaders("headers", options.headers) };
  // a key of the data port is none of the admin port's business
  const { authorization: _, ...adminHeaders } = headers as Record<string, string>;
  return {
    data: readPort(
      { option: "baseUrl", variable: "ZML_BASE_URL", value: options.baseUrl, fallback: "http://127.0.0.1:8080" },
      { option: "apiKey", variable: "ZML_API_KEY", value: options.apiKey },
      headers,
    ),
    admin: readPort(
      { option: "adminUrl", variable: "ZML_ADMIN_URL", value: options.adminUrl, fallback: "http://127.0.0.1:8081" },
      { option: "adminKey", variable: "ZML_ADMIN_KEY", value: options.adminKey },
      adminHeaders,
    ),
    timeoutMs: readTimeout(options.timeoutMs) ?? DEFAULT_TIMEOUT_MS,
    maxRetries: readRetries(options.maxRetries) ?? DEFAULT_MAX_RETRIES,
    fetch: options.fetch === undefined ? patientFetch(fetchOnce) : fetchOnce,
    timing: options.timing ?? SYSTEM_TIMING,
  };
}

interface Setting {
  readonly option: string;
  readonly variable: string;
  readonly value: string | undefined;
}

function readPort(
  url: Setting & { readonly fallback: string },
  key: Setting,
  headers: Readonly<Record<string, string>>,
): Port {
  const secret = readKey(key);
  return {
    url: readUrl(url),
    headers: { ...(secret !== undefined && { authorization: `Bearer ${secret}` }), ...headers },
    key: secret,
    keyOption: `${key.option} or ${key.variable}`,
  };
}

function readUrl(setting: Setting & { readonly fallback: string }): string {
  const fromEnvironment = setting.value === undefined ? variable(setting.variable) : undefined;
  const from = fromEnvironment === undefined ? setting.option : setting.variable;
  const text: unknown = setting.value ?? fromEnvironment ?? setting.fallback;
  const advice = `give ${from} as ${setting.fallback} or https://HOST`;
  // not shown when it may hold a password
  const shown =
    typeof text !== "string" ? `a ${typeof text}` : text.includes("@") ? "…@…" : JSON.stringify(text.slice(0, 200));
  let url: URL;
  try {
    url = new URL(typeof text === "string" ? text.trim() : "");
  } catch {
    throw new ConfigurationError(`${from} is no URL: ${shown}: ${advice}`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new ConfigurationError(
      `${from} holds a user name or password: ${advice}, and the key as an option of its own`,
    );
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new ConfigurationError(`${from} is no http or https URL: ${shown}: ${advice}`);
  }
  if (url.search !== "" || url.hash !== "") {
    throw new ConfigurationError(`${from} has a query or a fragment: ${shown}: ${advice}, with nothing after the path`);
  }
  return url.origin + url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "").replace(/\/+$/, "");
}

function readKey(setting: Setting): string | undefined {
  const fromEnvironment = setting.value === undefined ? variable(setting.variable) : undefined;
  const from = fromEnvironment === undefined ? setting.option : setting.variable;
  const key: unknown = setting.value ?? fromEnvironment;
  // empty is how shells, compose files and `process.env.KEY ?? ""` say that there is none
  if (key === undefined || key === null || key === "") return undefined;
  if (typeof key !== "string" || !/^[!-~]+$/.test(key)) {
    throw new ConfigurationError(`${from} is no key: give printable ASCII without blanks (a line break at its end?)`);
  }
  return key;
}

/**
 * Headers with lower-case names; those that are `undefined` are left out.
 * @throws ConfigurationError that names the header and never its value
 */
export function readHeaders(option: string, headers: GivenHeaders | undefined): Record<string, string> {
  const read: Record<string, string> = {};
  for (const [name, value] of pairsOf(option, headers ?? {})) {
    if (value === undefined) continue;
    if (typeof name !== "string" || !/^[\w!#$%&'*+.^`|~-]+$/.test(name)) {
      throw new ConfigurationError(`${option} has ${JSON.stringify(name)}, which is no name of a header: use a token`);
    }
    if (typeof value !== "string" || !/^[\t -~\u0080-\u00ff]*$/.test(value)) {
      throw new ConfigurationError(
        `${option}[${JSON.stringify(name)}] is no value of a header: give text without line breaks, in Latin-1`,
      );
    }
    read[name.toLowerCase()] = value;
  }
  return read;
}

function pairsOf(option: string, headers: GivenHeaders): readonly (readonly [unknown, unknown])[] {
  if (typeof headers === "object") {
    if (!(Symbol.iterator in headers)) return Object.entries(headers);
    const pairs: readonly unknown[] = [...headers];
    if (pairs.every(isPair)) return pairs;
  }
  throw new ConfigurationError(`${option} is ${describe(headers)}: give an object of names and values, or Headers`);
}

function isPair(value: unknown): value is readonly [unknown, unknown] {
  return Array.isArray(value) && value.length === 2;
}

/** @throws ConfigurationError */
export function readTimeout(timeoutMs: number | undefined): number | undefined {
  if (timeoutMs === undefined) return undefined;
  if (typeof timeoutMs === "number" && timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS) return timeoutMs;
  throw new ConfigurationError(
    `timeoutMs is ${describe(timeoutMs)}: give a number of milliseconds above 0 and up to ${MAX_TIMER_MS}`,
  );
}

/** @throws ConfigurationError */
export function readRetries(maxRetries: number | undefined): number | undefined {
  if (maxRetries === undefined) return undefined;
  if (Number.isSafeInteger(maxRetries) && maxRetries >= 0) return maxRetries;
  throw new ConfigurationError(`maxRetries is ${describe(maxRetries)}: give a whole number from 0`);
}

function describe(value: unknown): string {
  return typeof value === "number" ? String(value) : `a ${typeof value}`;
}

/** An environment variable, where there are such. */
function variable(name: string): string | undefined {
  try {
    const { process } = globalThis as { process?: { env?: Readonly<Record<string, string | undefined>> } };
    return process?.env?.[name];
  } catch {
    // Deno without --allow-env
    return undefined;
  }
}

/** Browsers set their own, and ask the server first when a script sets it. */
function userAgent(): Record<string, string> {
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  return /^Mozilla\//.test(navigator?.userAgent ?? "") ? {} : { "user-agent": `zml-js/${VERSION}` };
}
