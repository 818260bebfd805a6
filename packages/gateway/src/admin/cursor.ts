/** Cursors of lists: what a page ended with, as text that callers hand back and don't read. */

import type { z } from "zod";
import { AdminProblem } from "./admin-problem.ts";

export function encodeCursor(place: unknown): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** @throws AdminProblem 400 for what is no cursor of this list. */
export function decodeCursor<T extends z.ZodType>(cursor: string | undefined, schema: T): z.output<T> | null {
  if (cursor === undefined) return null;
  let place: unknown;
  try {
    place = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
  } catch {
    place = undefined;
  }
  const result = schema.safeParse(place);
  if (result.success) return result.data;
  const errors = [{ path: "cursor", message: "it is no next_cursor of this list", hint: "begin again without it" }];
  throw new AdminProblem("invalid_query", "cursor is no next_cursor of this list: begin again without it", { errors });
}
