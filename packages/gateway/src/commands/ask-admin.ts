/** Asks the admin port of a running gateway. */

import { ERRORS } from "@zml/protocol";
import type { FleetReportJson } from "../control/fleet-report.ts";
import type { Terminal } from "./terminal.ts";

/** The default of `--admin`. */
export const DEFAULT_ADMIN = "http://127.0.0.1:8081";

const TIMEOUT_MS = 10_000;

/** Whom to ask, and with which key. */
export interface AdminOptions {
  /** `HOST:PORT` or base URL of the admin port. */
  readonly admin: string;
  /** Name of the variable that holds a key with the scope `admin`. */
  readonly keyEnv?: string;
}

/** An answer, or why there is none, in words that say what to do. */
export type AdminAnswer =
  | { readonly text: string; readonly value: unknown }
  /** `isGone`: nobody answered there, which may pass. */
  | { readonly problem: string; readonly isGone: boolean };

/**
 * One GET, ended after 10 s or by `signal`. Never rejects.
 *
 * @param path such as `/admin/v1/fleet`. @param members what an answer of a gateway has at least; a page of something
 *   else has no such members.
 */
export async function askAdmin(
  terminal: Terminal,
  { admin, keyEnv }: AdminOptions,
  { path, members, signal }: { path: string; members: readonly string[]; signal?: AbortSignal },
): Promise<AdminAnswer> {
  const refuse = (problem: string, isGone = false): AdminAnswer => ({ problem, isGone });
  const key = keyEnv === undefined ? undefined : terminal.env[keyEnv];
  if (keyEnv !== undefined && !key)
    return refuse(`the environment variable ${keyEnv} is not set: give it the admin key`);
  const base = /^https?:\/\//i.test(admin) ? admin : `http://${admin}`;
  // "8081" alone would be read as the address 0.0.31.145
  if (!URL.canParse(base) || /^\d+$/.test(admin))
    return refuse(`--admin ${admin} is no address: give it as HOST:PORT or http://HOST:PORT`);
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${base.replace(/\/+$/, "")}${path}`, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      redirect: "error",
      signal: signal === undefined ? deadline : AbortSignal.any([deadline, signal]),
    });
    text = await response.text();
  } catch (error) {
    const cause = causeOf(error);
    return refuse(`no gateway answers at ${base} (${cause}): start it, or name its admin port with --admin`, true);
  }
  if (!response.ok) {
    const hint = response.status === 401 && key === undefined ? " (--key-env VARIABLE names the key)" : "";
    const isGone = response.status >= 500;
    // an admin port has every path that is asked for here: this is the data port
    if (messageOf(text) === ERRORS.not_found.message({ path })) {
      return refuse(`${base} has no ${path}, as a data port: name the admin port (admin.listen) with --admin`);
    }
    return refuse(`${messageOf(text) ?? `${base} answered with status ${response.status}`}${hint}`, isGone);
  }
  const value = parsed(text);
  const isGateway = typeof value === "object" && value !== null && members.every((member) => member in value);
  if (!isGateway) return refuse(`${base} answers, but not like a gateway: name the admin port with --admin`);
  return { text: text.endsWith("\n") ? text : `${text}\n`, value };
}

/** The report of the fleet, asked for as `askAdmin` does. */
export async function askFleet(
  terminal: Terminal,
  options: AdminOptions,
  signal?: AbortSignal,
): Promise<{ readonly report: FleetReportJson } | { readonly problem: string; readonly isGone: boolean }> {
  const question = { path: "/admin/v1/fleet", members: ["nodes", "totals"] };
  const answer = await askAdmin(terminal, options, signal === undefined ? question : { ...question, signal });
  // the other end is this product
  return "problem" in answer ? answer : { report: answer.value as FleetReportJson };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function messageOf(text: string): string | null {
  const value = parsed(text) as { error?: { message?: unknown } } | null;
  return typeof value?.error?.message === "string" ? value.error.message : null;
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return "code" in cause ? String(cause.code) : cause.message;
  return error.message;
}
