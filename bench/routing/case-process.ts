/** Child of the routing bench: runs the cases that it is sent, and sends each result as soon as it is there. */

import type { PolicyName } from "@zml/simulator/virtual";
import type { RoutingCase } from "./grid.ts";
import { type BoundResult, type CaseResult, prepareCase } from "./run-case.ts";

/** To the child: a case, and what is wanted of it. */
export interface CaseOrder {
  readonly of: RoutingCase;
  readonly policies: readonly PolicyName[];
  readonly isBoundWanted: boolean;
}

/** From the child. */
export type CaseNews =
  | { readonly kind: "ready" }
  | { readonly kind: "result"; readonly result: CaseResult }
  | { readonly kind: "bound"; readonly bound: BoundResult }
  | { readonly kind: "failed"; readonly message: string };

process.on("message", async ({ of, policies, isBoundWanted }: CaseOrder) => {
  try {
    const prepared = prepareCase(of);
    for (const policy of policies) await tell({ kind: "result", result: prepared.run(policy) });
    if (isBoundWanted) await tell({ kind: "bound", bound: prepared.bound() });
    await tell({ kind: "ready" });
  } catch (error) {
    await tell({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
process.on("disconnect", () => process.exit(0));
await tell({ kind: "ready" });

/** Waits until it has gone out: a run of seconds would hold it back. */
function tell(news: CaseNews): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(news, undefined, undefined, (error) => (error === null ? resolve() : reject(error)));
  });
}
