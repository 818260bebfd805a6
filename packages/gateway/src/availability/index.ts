/** Step 2, the half that does: what nodes say about themselves, into the fleet table. */

export type { NodeFacts } from "./node-facts.ts";
export type { NodeSpec } from "./node-spec.ts";
export { Poller } from "./poller.ts";
