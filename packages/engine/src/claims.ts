/** Claims on room by requests that parked earlier; admission finds them, availability respects them. */

import type { Model, Policy } from "./directory.ts";

/** A head that may still use room: the model and policy it waits for. */
export interface WaitingHead {
  model: Model;
  policy: Policy;
}

/** True when a head could use a node of this family. */
export function canUse(head: WaitingHead, row: number, family: number): boolean {
  return (head.policy.positionOfFamily[family] ?? -1) >= 0 && head.model.rowSet.has(row);
}
