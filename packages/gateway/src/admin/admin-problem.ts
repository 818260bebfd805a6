/** A refusal on its way to the caller. Thrown by handlers, written by the port or by the app. */

import { ADMIN_PROBLEMS, type AdminProblemCode, type ProblemError } from "@zml/protocol/admin/problem-codes";

/** What a refusal says beside its code. */
interface RefusalDetails {
  readonly errors?: readonly ProblemError[] | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export class AdminProblem extends Error {
  readonly code: AdminProblemCode;
  readonly errors: readonly ProblemError[] | undefined;
  readonly headers: Readonly<Record<string, string>>;

  /** @param detail what failed, the value, the limit, what to do; holds no secret */
  constructor(code: AdminProblemCode, detail: string, { errors, headers = {} }: RefusalDetails = {}) {
    super(detail);
    this.code = code;
    this.errors = errors;
    this.headers = headers;
  }

  get status(): number {
    return ADMIN_PROBLEMS[this.code].status;
  }
}

/** What a caller sent, cut and escaped: it may be anything. */
export function shown(value: string): string {
  return JSON.stringify(value.length > 128 ? `${value.slice(0, 128)}…` : value);
}
