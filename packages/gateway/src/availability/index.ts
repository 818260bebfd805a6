/** Step 2, the half that does: what nodes say about themselves, into the fleet table. */

export type { NodeSpec } from "./node-spec.ts";
export { Poller } from "./poller.ts";
export type { AttemptSample } from "./samples.ts";
