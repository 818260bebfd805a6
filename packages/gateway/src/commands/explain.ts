/** `zml explain`: asks a running gateway for the story of one decision. */

import type { DecisionJson } from "../evidence/decision-json.ts";
import { explainText } from "../evidence/explain.ts";
import { EXIT } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

const TIMEOUT_MS = 10_000;

export interface ExplainOptions {
  readonly id: string;
  /** Base URL of the admin port. */
  readonly admin: string;
  readonly json: boolean;
  /** Name of the variable that holds a key with the scope `admin`. */
  readonly keyEnv?: string;
}

/** @returns the exit code. */
export async function explain(terminal: Terminal, { id, admin, json, keyEnv }: ExplainOptions): Promise<number> {
  const fail = (message: string): number => {
    terminal.error(`zml: ${message}\n`);
    return EXIT.failed;
  };
  const key = keyEnv === undefined ? undefined : terminal.env[keyEnv];
  if (keyEnv !== undefined && !key) return fail(`the environment variable ${keyEnv} is not set: give it the admin key`);
  const base = URL.canParse(admin) ? admin : `http://${admin}`;
  if (!URL.canParse(base)) return fail(`--admin ${admin} is no address: give it as HOST:PORT or http://HOST:PORT`);
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${base.replace(/\/+$/, "")}/admin/v1/decisions/${encodeURIComponent(id)}`, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch (error) {
    return fail(`no gateway answers at ${base} (${causeOf(error)}): start it, or name its admin port with --admin`);
  }
  if (!response.ok) {
    const hint = response.status === 401 && key === undefined ? " (--key-env VARIABLE names the key)" : "";
    return fail(`${messageOf(text) ?? `${base} answered with status ${response.status}`}${hint}`);
  }
  if (json) {
    terminal.out(text.endsWith("\n") ? text : `${text}\n`);
    return EXIT.ok;
  }
  const decision = parse(text);
  if (decision === null) return fail(`${base} answers, but not like a gateway: name the admin port with --admin`);
  terminal.out(`${explainText(decision)}\n`);
  return EXIT.ok;
}

function parse(text: string): DecisionJson | null {
  try {
    const value: unknown = JSON.parse(text);
    const isDecision = typeof value === "object" && value !== null && "decision" in value && "families" in value;
    // the other end is this product; a page of something else has no such members
    return isDecision ? (value as DecisionJson) : null;
  } catch {
    return null;
  }
}

function messageOf(text: string): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    return typeof error?.message === "string" ? error.message : null;
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
