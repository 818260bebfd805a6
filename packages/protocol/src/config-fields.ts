import { z } from "zod";

/**
 * Field types of the configuration file, with error texts for the person who wrote the file: what was expected, what
 * stands there, what to write instead. No text ever shows the value of a field that could hold a secret.
 */

/** Node ids, families, accounts, policies and key names: safe in a header, a metric label and a path as they are. */
export const NAME_PATTERN = /^[A-Za-z0-9._:/-]{1,128}$/;

/** A day: far above any sane limit in time, far below 2^31 ms, where timers overflow and fire at once. */
export const MAX_DURATION_MS = 86_400_000;

/** USD per GPU-hour: far above any GPU, and a slip of the pen is told. */
export const MAX_GPU_HOUR_USD = 1_000_000;

/** The longest excerpt of a wrong value that a message shows. */
const SHOWN_CHARACTERS = 64;

/** How a message shows a value that is no secret. Long strings are cut, lists and mappings are only named. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (typeof value === "string") {
    return JSON.stringify(value.length > SHOWN_CHARACTERS ? `${value.slice(0, SHOWN_CHARACTERS)}…` : value);
  }
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "a mapping";
  return String(value);
}

/** What a schema says where a mapping belongs. */
export const mapping = { error: (issue: { input?: unknown }) => `expected a mapping, got ${shown(issue.input)}` };

/** What a schema says where a list belongs. */
export const list = { error: (issue: { input?: unknown }) => `expected a list, got ${shown(issue.input)}` };

const MS_PER_UNIT: Record<string, number> = { ms: 1, s: 1000, sec: 1000, m: 60_000, min: 60_000, h: 3_600_000 };
const BYTES_PER_UNIT: Record<string, number> = {
  b: 1,
  k: 1024,
  kb: 1000,
  kib: 1024,
  m: 1024 ** 2,
  mb: 1000 ** 2,
  mib: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1000 ** 3,
  gib: 1024 ** 3,
};

/** `(write 30000)` for "30s" when the unit is known; an empty string when there is nothing useful to say. */
function inPlainNumber(value: unknown, units: Record<string, number>): string {
  if (typeof value !== "string") return "";
  const match = /^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$/.exec(value);
  if (match === null) return "";
  const factor = match[2] === "" ? 1 : units[(match[2] ?? "").toLowerCase()];
  if (factor === undefined) return "";
  const plain = Math.round(Number(match[1]) * factor);
  return Number.isSafeInteger(plain) ? ` (write ${plain})` : "";
}

interface Range {
  readonly min: number;
  readonly max: number;
}

function integer(what: string, { min, max }: Range, units: Record<string, number>) {
  return z
    .int({ error: (issue) => `expected ${what}, got ${shown(issue.input)}${inPlainNumber(issue.input, units)}` })
    .min(min, { error: (issue) => `expected ${what} of at least ${min}, got ${shown(issue.input)}` })
    .max(max, { error: (issue) => `expected ${what} of at most ${max}, got ${shown(issue.input)}` });
}

/** A whole number of milliseconds, at least 1 unless told otherwise. */
export function durationMs({ min = 1, max = MAX_DURATION_MS }: Partial<Range> = {}) {
  return integer("a number of milliseconds", { min, max }, MS_PER_UNIT);
}

/** A whole number of bytes. */
export function byteCount(range: Range) {
  return integer("a number of bytes", range, BYTES_PER_UNIT);
}

/** A whole number of things. */
export function count(range: Range) {
  return integer("a whole number", range, {});
}

/** A number that may have a fraction. */
export function decimal(what: string, { min, max }: Range) {
  return z
    .number({ error: (issue) => `expected ${what}, got ${shown(issue.input)}` })
    .min(min, { error: (issue) => `expected ${what} of at least ${min}, got ${shown(issue.input)}` })
    .max(max, { error: (issue) => `expected ${what} of at most ${max}, got ${shown(issue.input)}` });
}

/** `true` or `false`; YAML 1.2 has no `yes` and `on`. */
export function flag() {
  return z.boolean({ error: (issue) => `expected true or false, got ${shown(issue.input)}` });
}

/** A name of {@link NAME_PATTERN}. */
export function name(what: string) {
  return z
    .string({ error: (issue) => `expected ${what}, got ${shown(issue.input)}${quoteIt(issue.input)}` })
    .regex(NAME_PATTERN, {
      error: (issue) =>
        `expected ${what} of 1 to 128 characters out of A-Z a-z 0-9 . _ : / -, got ${shown(issue.input)}`,
    })
    .refine(isAddressable, { error: (issue) => `expected ${what} ${ADDRESSABLE}, got ${shown(issue.input)}` });
}

/** Clients take `.` and `..` for steps of a path, written out and as `%2e`: no address leads to what has such a name. */
function isAddressable(value: string): boolean {
  return value !== "." && value !== "..";
}

const ADDRESSABLE = "that an address can hold: neither . nor .. alone";

/** YAML reads `name: 100` as a number: the cure is a pair of quotes. */
function quoteIt(value: unknown): string {
  return typeof value === "number" || typeof value === "boolean" ? ` (write "${value}", with the quotes)` : "";
}

const utf8 = new TextEncoder();

/** A model name: 1–256 bytes of UTF-8 without control characters. */
export function modelName() {
  return z
    .string({ error: (issue) => `expected a model name, got ${shown(issue.input)}${quoteIt(issue.input)}` })
    .refine(isModelName, {
      error: (issue) => `expected a model name of 1 to 256 bytes without control characters, got ${shown(issue.input)}`,
    })
    .refine(isAddressable, { error: (issue) => `expected a model name ${ADDRESSABLE}, got ${shown(issue.input)}` });
}

/** Whether callers and nodes may use this as a model's name. */
export function isModelName(value: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (value.length === 0 || value.length > 256 || /[\u0000-\u001f\u007f-\u009f]/.test(value)) return false;
  return value.isWellFormed() && utf8.encode(value).length <= 256;
}

/** One of a closed list. */
export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, {
    error: (issue) => `expected one of ${values.join(", ")}, got ${shown(issue.input)}${quoteIt(issue.input)}`,
  });
}

/** Any text that is not empty. */
export function text(what: string) {
  return z
    .string({ error: (issue) => `expected ${what}, got ${shown(issue.input)}` })
    .min(1, { error: `expected ${what}, got an empty text` });
}

/** A DNS name or an IPv4 address, without port and brackets. */
export function hostName(what: string) {
  return z
    .string({ error: (issue) => `expected ${what}, got ${shown(issue.input)}` })
    .regex(
      /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?$/,
      {
        error: (issue) => `expected ${what} such as vllm.example.net, got ${shown(issue.input)}`,
      },
    );
}

/** A name of the kind that Kubernetes gives to services, namespaces and ports. */
export function label(what: string) {
  return z
    .string({ error: (issue) => `expected ${what}, got ${shown(issue.input)}` })
    .regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, {
      error: (issue) => `expected ${what} of at most 63 characters out of a-z 0-9 -, got ${shown(issue.input)}`,
    });
}

/** The name of an environment variable. People paste the key itself here, so the value is never shown. */
export function envName() {
  const expected = "expected the name of an environment variable (the secret itself never stands in the file)";
  return z.string({ error: expected }).regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: expected });
}

/** HOST:PORT, with IPv6 hosts in brackets. Port 0 lets the system choose. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** The parts of a listen address, or `null` if it is none. */
export function parseListen(value: string): ListenAddress | null {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)):(\d{1,5})$/.exec(value);
  if (match === null) return null;
  const port = Number(match[3]);
  const host = match[1] ?? match[2] ?? "";
  if (port > 65_535) return null;
  if (match[1] !== undefined && !URL.canParse(`http://[${host}]/`)) return null;
  // Four numbers with dots are an IPv4 address or a mistake, never a host name.
  if (/^[\d.]+$/.test(host) && !isIpv4(host)) return null;
  return { host, port };
}

function isIpv4(host: string): boolean {
  const parts = host.split(".");
  return parts.length === 4 && parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) <= 255);
}

/** The address as people and `zml ready` write it. */
export function formatListen({ host, port }: ListenAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine can connect to the host. */
export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === "localhost") return true;
  if (isIpv4(host)) return host.startsWith("127.");
  if (!host.includes(":")) return false;
  const canonical = new URL(`http://[${host}]/`).hostname;
  return canonical === "[::1]" || canonical.startsWith("[::ffff:7f");
}

/** A listen address as it stands in the file. */
export function listen() {
  const expected = "expected HOST:PORT such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080";
  return z
    .string({ error: (issue) => `${expected}, got ${shown(issue.input)}` })
    .refine((value) => parseListen(value) !== null, { error: (issue) => `${expected}, got ${shown(issue.input)}` });
}

/** Where a page comes from, as browsers write it, or `*`. */
export function pageOrigin() {
  const expected = 'expected an origin such as https://app.example.com, without a path, or "*"';
  return z.string({ error: (issue) => `${expected}, got ${shown(issue.input)}` }).refine(isPageOrigin, {
    // what stands before an @ may be a password
    error: ({ input }) => `${expected}${String(input).includes("@") ? "" : `, got ${shown(input)}${asOrigin(input)}`}`,
  });
}

/** An address, or a network in CIDR notation. */
export function network() {
  const expected = "expected an address or a network such as 10.0.0.0/8";
  return z
    .string({ error: (issue) => `${expected}, got ${shown(issue.input)}` })
    .refine(isNetwork, { error: ({ input }) => `${expected}, got ${shown(input)}` });
}

const IP = z.union([z.ipv4(), z.ipv6()]);
const CIDR = z.union([z.cidrv4(), z.cidrv6()]);

function isNetwork(value: string): boolean {
  return (value.includes("/") ? CIDR : IP).safeParse(value).success;
}

function isPageOrigin(value: string): boolean {
  if (value === "*") return true;
  if (!URL.canParse(value)) return false;
  const { origin, protocol } = new URL(value);
  // pages of browser extensions and of apps have schemes of their own, for which URL knows no origin
  return origin === "null"
    ? /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._-]+$/.test(value) && protocol !== "file:"
    : origin === value;
}

function asOrigin(value: unknown): string {
  if (typeof value !== "string" || !URL.canParse(value)) return "";
  const { origin } = new URL(value);
  return origin === "null" ? "" : ` (write ${origin})`;
}

/** Why a string is not the base URL of a node, or `null` if it is one. Never repeats credentials. */
export function whyNotNodeUrl(value: string): string | null {
  if (!URL.canParse(value)) {
    return value.includes("@")
      ? "expected a URL such as http://10.0.0.21:8000 (the value is not shown, it may hold a password)"
      : `expected a URL such as http://10.0.0.21:8000, got ${shown(value)}`;
  }
  const url = new URL(value);
  if (url.username !== "" || url.password !== "") {
    return "the URL holds credentials: take them out and name an environment variable in api_key_env";
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return `expected a URL with http:// or https://, got the scheme ${shown(url.protocol.slice(0, -1))}${
      /^[\w.-]+:\d+/.test(value) ? ` (write http://${/^[\w.-]+:\d+/.exec(value)?.[0]})` : ""
    }`;
  }
  // What stands after ? and # may be a token: it is left out of the text.
  if (value.includes("?")) return "the URL has a query: a node's URL is an origin and at most a path prefix";
  if (value.includes("#")) return "the URL has a fragment: a node's URL is an origin and at most a path prefix";
  return null;
}

/** A node's base URL. */
export function nodeUrl() {
  return z
    .string({ error: (issue) => `expected a URL such as http://10.0.0.21:8000, got ${shown(issue.input)}` })
    .refine((value) => whyNotNodeUrl(value) === null, {
      error: (issue) => (typeof issue.input === "string" ? (whyNotNodeUrl(issue.input) ?? "wrong URL") : "wrong URL"),
    });
}
