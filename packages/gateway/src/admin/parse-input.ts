/** What a caller sent, through the schemas of the route: checked and typed, or everything that is wrong with it. */

import type { AdminProblemCode, ProblemError, RouteContract, RouteInput } from "@zml/protocol/admin";
import type { z } from "zod";
import { AdminProblem } from "./admin-problem.ts";

/** The parts of a request, as the framework read them. */
export interface RawInput {
  readonly params: unknown;
  readonly query: unknown;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

/** @throws AdminProblem 400 with every field of the first part that is wrong. */
export function parseInput<C extends RouteContract>(contract: C, raw: RawInput): RouteInput<C> {
  return {
    params: part(contract.params, raw.params, "invalid_path", "a part of the path"),
    query: part(contract.query, raw.query, "invalid_query", "the query"),
    headers: part(contract.headers, pick(contract.headers, raw.headers), "invalid_header", "a header"),
    body: contract.body === null ? undefined : part(contract.body.schema, raw.body, "invalid_body", "the body"),
  } as RouteInput<C>;
}

function part(schema: z.ZodType, value: unknown, code: AdminProblemCode, what: string): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const errors = result.error.issues.flatMap(fieldErrors);
  const [first] = errors;
  const shown = first === undefined ? "" : `: ${first.path === "" ? "" : `${first.path}: `}${first.message}`;
  throw new AdminProblem(code, `${what} is not valid${shown}`, { errors });
}

function fieldErrors(issue: z.core.$ZodIssue): ProblemError[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      path: fieldPath([...issue.path, key.slice(0, 128)]),
      message: "it is not known here",
      hint: "check its spelling, or leave it out",
    }));
  }
  return [{ path: fieldPath(issue.path), message: lowerFirst(issue.message), hint: "" }];
}

/** `spec.nodes[2].url`. */
export function fieldPath(path: readonly PropertyKey[]): string {
  let out = "";
  for (const one of path) {
    if (typeof one === "number") out += `[${one}]`;
    else out += out === "" ? String(one) : `.${String(one)}`;
  }
  return out;
}

/** Only the headers that the route names: all others are the business of others. */
function pick(schema: z.ZodObject, headers: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const names = Object.keys(schema.shape).filter((name) => headers[name] !== undefined);
  return Object.fromEntries(names.map((name) => [name, headers[name]]));
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
