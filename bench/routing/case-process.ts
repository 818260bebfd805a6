/** Child of the routing bench: runs the cases that it is sent, and sends each result as soon as it is there. */

import type { PolicyName, ReportJson } from "@zml/simulator/virtual";
import type { RoutingCase } from "./grid.ts";
import { type BoundResult, type CaseResult, type HindsightResult, prepareCase } from "./run-case.ts";

export type CaseExtra = "bound" | "hindsight";

/** To the child: a case, and what is wanted of it. */
export interface CaseOrder {
  readonly of: RoutingCase;
  readonly policies: readonly PolicyName[];
  /** What of it is wanted that belongs to no policy. */
  readonly extra: CaseExtra | null;
}

/** From the child. */
export type CaseNews =
  | { readonly kind: "ready" }
  | { readonly kind: "result"; readonly result: CaseResult }
  | { readonly kind: "bound"; readonly bound: BoundResult }
  | { readonly kind: "hindsight"; readonly hindsight: readonly HindsightResult[] }
  | { readonly kind: "failed"; readonly message: string };

process.on("message", async ({ of, policies, extra }: CaseOrder) => {
  try {
    const prepared = prepareCase(of);
    const reports: [PolicyName, ReportJson][] = [];
    for (const policy of policies) {
      const result = prepared.run(policy);
      reports.push([policy, result.report]);
      await tell({ kind: "result", result });
    }
    if (extra === "bound") await tell({ kind: "bound", bound: prepared.bound() });
    if (extra === "hindsight") await tell({ kind: "hindsight", hindsight: prepared.hindsight(reports) });
    await tell({ kind: "ready" });
  } catch (error) {
    await tell({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});
process.on("disconnect", () => process.exit(0));
await tell({ kind: "ready" });

/** Waits until it has gone out: a run of seconds would hold it back. Where nobody listens any more there is nothing to do. */
function tell(news: CaseNews): Promise<void> {
  return new Promise((resolve) => {
    process.send?.(news, undefined, undefined, (error) => (error === null ? resolve() : process.exit(0)));
  });
}
