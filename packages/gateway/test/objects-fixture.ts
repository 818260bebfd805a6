/** For the tests of managed objects: who changes them, and what came of it. */

import assert from "node:assert/strict";
import type { Actor, WriteDone, WriteRefusal } from "../src/control/objects/managed-objects.ts";

export const OPS: Actor = { kind: "key", name: "ops", account: "default" };

/** What was done; fails with the refusal. */
export function done<T extends { readonly kind: string }>(result: T): Extract<T, WriteDone> {
  assert.equal(result.kind, "written", JSON.stringify(result));
  return result as Extract<T, WriteDone>;
}

/** The problems of a refusal, a line each. */
export function refused(result: { readonly kind: string }, code: WriteRefusal["code"]): string {
  assert.equal(result.kind, "refused", JSON.stringify(result));
  const refusal = result as WriteRefusal;
  assert.equal(refusal.code, code, JSON.stringify(result));
  return refusal.problems.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n");
}
