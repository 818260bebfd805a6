/** Entity tags and the conditions that name them (RFC 9110, 8.8.3 and 13.1). */

import type { WriteCondition } from "../control/objects/managed-objects.ts";
import { AdminProblem } from "./admin-problem.ts";

/** The tag of a revision. */
export function etagOf(revision: string): string {
  return `"${revision}"`;
}

const TAG_LIST = /^\s*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")*\s*$/;

/** Conditions of a write. @throws AdminProblem 400 for headers that say no tag. */
export function writeCondition(headers: {
  "if-match"?: string | undefined;
  "if-none-match"?: string | undefined;
}): WriteCondition {
  const ifMatch = tagsOf("if-match", headers["if-match"]);
  const ifNoneMatch = tagsOf("if-none-match", headers["if-none-match"]);
  if (Array.isArray(ifNoneMatch)) {
    throw new AdminProblem(
      "invalid_header",
      "if-none-match takes only * here (make it, if it is not there): use if-match",
    );
  }
  return {
    ifMatch: ifMatch === "*" || ifMatch === null ? ifMatch : strong(ifMatch),
    ifNoneMatch: ifNoneMatch === null ? null : "*",
  };
}

/** Whether a reader has this revision already. @throws AdminProblem 400. */
export function isUnchanged(header: string | undefined, revision: string): boolean {
  const tags = tagsOf("if-none-match", header);
  if (tags === null) return false;
  return tags === "*" || tags.some((tag) => tag.replace(/^W\//, "") === etagOf(revision));
}

function tagsOf(name: string, header: string | undefined): string[] | "*" | null {
  if (header === undefined) return null;
  if (header.trim() === "*") return "*";
  if (!TAG_LIST.test(header)) {
    throw new AdminProblem(
      "invalid_header",
      `${name} is no list of entity tags: send it as "REVISION" with its quotes, or *`,
    );
  }
  return header.match(/(?:W\/)?"[^"]*"/g) ?? [];
}

/** Weak tags never match a write. */
function strong(tags: readonly string[]): string[] {
  return tags.filter((tag) => !tag.startsWith("W/")).map((tag) => tag.slice(1, -1));
}
