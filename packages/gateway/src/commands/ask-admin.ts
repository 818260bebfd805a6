/** Asks the admin port of a running gateway. */

import { ERRORS } from "@zml/protocol";
import type { FleetReportJson } from "../control/fleet-report.ts";
import { type AdminProblem, denialHint, problemOf } from "./admin-problem.ts";
import { EXIT } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

/** The default of `--admin`. */
export const DEFAULT_ADMIN = "http://127.0.0.1:8081";
/** The variable that holds the admin key, unless `--key-env` names another. */
export const ADMIN_KEY_ENV = "ZML_ADMIN_KEY";
/** The variable that names the admin port in place of the default. */
export const ADMIN_URL_ENV = "ZML_ADMIN_URL";

const TIMEOUT_MS = 10_000;

/** Whom to ask, and with which key. */
export interface AdminOptions {
  /** `HOST:PORT` or base URL of the admin port. */
  readonly admin: string;
  /** Name of the variable that holds a key for the admin port. */
  readonly keyEnv?: string;
}

/** What is asked. */
export interface AdminQuestion {
  /** Default: GET. */
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Such as `/admin/v1/fleet`. */
  readonly path: string;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** The entity tag that the object must still have. */
  readonly ifMatch?: string;
  /** Take the answer as text of this type. Default: JSON. */
  readonly accept?: string;
  /** What an answer of a gateway has at least; a page of something else has no such members. */
  readonly members: readonly string[];
  readonly signal?: AbortSignal;
  /** Default: 10 s. */
  readonly timeoutMs?: number;
}

/** An answer of the admin port. */
export interface AdminValue {
  readonly status: number;
  /** The body as it came, with a line feed at its end. */
  readonly text: string;
  readonly value: unknown;
  /** The object's entity tag. */
  readonly etag: string | null;
}

/** An answer, or why there is none, in words that say what to do. */
export type AdminAnswer = AdminValue | AdminProblem;

/** One question, ended after its time or by its signal. Never rejects. */
export async function askAdmin(
  terminal: Terminal,
  { admin, keyEnv }: AdminOptions,
  question: AdminQuestion,
): Promise<AdminAnswer> {
  const key = terminal.env[keyEnv ?? ADMIN_KEY_ENV] || undefined;
  if (keyEnv !== undefined && key === undefined) {
    return refuse(`the environment variable ${keyEnv} is not set: give it the admin key`, EXIT.denied);
  }
  if (key !== undefined && !/^[!-~]+$/.test(key)) {
    return refuse(`the value of ${keyEnv ?? ADMIN_KEY_ENV} is no key: keys have no spaces and are ASCII`, EXIT.denied);
  }
  const base = /^https?:\/\//i.test(admin) ? admin : `http://${admin}`;
  // "8081" alone would be read as the address 0.0.31.145
  if (!URL.canParse(base) || /^\d+$/.test(admin)) {
    return refuse(`--admin ${admin} is no address: give it as HOST:PORT or http://HOST:PORT`, EXIT.usage);
  }
  const url = new URL(`${base.replace(/\/+$/, "")}${question.path}`);
  for (const [name, value] of Object.entries(question.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, requestOf(question, key));
    text = await response.text();
  } catch (error) {
    const why = `no gateway answers at ${base} (${causeOf(error)})`;
    const next = `is zml serve running there? Start it, or name its admin port with --admin or ${ADMIN_URL_ENV}`;
    return { ...refuse(`${why}: ${next}`, EXIT.unreachable), isGone: true };
  }
  const value = parsed(text);
  if (!response.ok) {
    const problem = problemOf(response.status, value, base);
    // an admin port has every path that is asked for here: this is the data port
    if (problem.problem === ERRORS.not_found.message({ path: question.path })) {
      const message = `${base} has no ${question.path}, as a data port: name the admin port (admin.listen) with --admin`;
      return refuse(message, EXIT.failed);
    }
    const hint = denialHint(problem, key === undefined ? null : (keyEnv ?? ADMIN_KEY_ENV));
    return { ...problem, problem: `${problem.problem}${hint}` };
  }
  if (question.accept !== undefined && response.headers.get("content-type")?.startsWith(question.accept) === true) {
    return { status: response.status, text, value: null, etag: null };
  }
  const isGateway = typeof value === "object" && value !== null && question.members.every((member) => member in value);
  if (!isGateway)
    return refuse(`${base} answers, but not like a gateway: name the admin port with --admin`, EXIT.failed);
  const etag = response.headers.get("etag");
  return { status: response.status, text: text.endsWith("\n") ? text : `${text}\n`, value, etag };
}

function requestOf(
  { method = "GET", body, ifMatch, accept = "application/json", signal, timeoutMs }: AdminQuestion,
  key: string | undefined,
): RequestInit {
  const deadline = AbortSignal.timeout(timeoutMs ?? TIMEOUT_MS);
  return {
    method,
    headers: {
      accept,
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(ifMatch !== undefined && { "if-match": ifMatch }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: "error",
    signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
  };
}

/** Prints why there is no answer. @returns the exit code. */
export function tellProblem(terminal: Terminal, { problem, lines, exit }: AdminProblem): number {
  terminal.error(`${[`zml: ${problem}`, ...lines].join("\n")}\n`);
  return exit;
}

/** The report of the fleet, asked for as `askAdmin` does. */
export async function askFleet(
  terminal: Terminal,
  options: AdminOptions,
  signal?: AbortSignal,
): Promise<{ readonly report: FleetReportJson } | AdminProblem> {
  const question = { path: "/admin/v1/fleet", members: ["nodes", "totals"] };
  const answer = await askAdmin(terminal, options, signal === undefined ? question : { ...question, signal });
  // the other end is this product
  return "problem" in answer ? answer : { report: answer.value as FleetReportJson };
}

function refuse(problem: string, exit: number): AdminProblem {
  return { problem, lines: [], errors: [], exit, isGone: false, code: null };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return "code" in cause ? String(cause.code) : cause.message;
  return error.message;
}
