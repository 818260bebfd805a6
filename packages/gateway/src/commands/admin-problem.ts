/** What an admin port refuses with, in words that say the next step. */

import { EXIT } from "./exit-codes.ts";
import { oneLine } from "./table-text.ts";

/** One thing that is wrong with what was sent. */
export interface AdminError {
  /** Such as `nodes[1].url`; empty: the whole. */
  readonly path: string;
  /** What is wrong and what to do. */
  readonly message: string;
}

/** Why a question has no answer. */
export interface AdminProblem {
  /** One line, with what to do. */
  readonly problem: string;
  /** Each thing that is wrong, where several are. */
  readonly lines: readonly string[];
  /** Each thing that is wrong, as the admin port tells it. */
  readonly errors: readonly AdminError[];
  /** The exit code that it means. */
  readonly exit: number;
  /** Nobody answered there, which may pass. */
  readonly isGone: boolean;
  /** The admin port's own code; null: it is not the admin port that says so. */
  readonly code: string | null;
}

/** The problem that an answer with an error status is. */
export function problemOf(status: number, value: unknown, base: string): AdminProblem {
  const body = isRecord(value) ? value : {};
  const error = isRecord(body["error"]) ? body["error"] : {};
  const said = [body["detail"], error["message"], body["title"]].find((text) => typeof text === "string");
  const detail = typeof said === "string" ? oneLine(said) : `${base} answered with status ${status}`;
  const code = [body["code"], error["code"]].find((text) => typeof text === "string");
  const errors = (Array.isArray(body["errors"]) ? body["errors"] : []).filter(isRecord).map(errorOf);
  return {
    problem: `${detail}${nextStep(status)}`,
    lines: errors.map(errorLine).filter((line) => line !== detail),
    errors,
    exit: exitOf(status),
    isGone: status >= 500,
    code: typeof code === "string" ? code : null,
  };
}

/** What to do about a refusal of the key. @param variable that holds the key that was sent; null: none was. */
export function denialHint({ exit, code }: AdminProblem, variable: string | null): string {
  if (exit !== EXIT.denied) return "";
  if (variable === null) return " (put an admin key into ZML_ADMIN_KEY, or name its variable with --key-env)";
  return code === "invalid_api_key" || code === "missing_api_key" ? ` (the key is the value of ${variable})` : "";
}

function nextStep(status: number): string {
  switch (status) {
    case 412:
      return " (somebody else changed it meanwhile: run the command again to see it as it is now)";
    case 415:
    case 405:
      return " (this zml and the gateway are of different versions)";
    default:
      return "";
  }
}

function exitOf(status: number): number {
  switch (status) {
    case 401:
    case 403:
      return EXIT.denied;
    case 404:
      return EXIT.notFound;
    case 409:
    case 412:
      return EXIT.conflict;
    default:
      return EXIT.failed;
  }
}

/** `nodes[1].url: what is wrong: what to do`. */
export function errorLine({ path, message }: AdminError): string {
  return path === "" ? message : `${path}: ${message}`;
}

function errorOf({ path, message, hint }: Readonly<Record<string, unknown>>): AdminError {
  const parts = [message, hint].filter((part) => typeof part === "string" && part !== "");
  return { path: typeof path === "string" ? oneLine(path) : "", message: oneLine(parts.join(": ")) };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
