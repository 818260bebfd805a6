/** Step 2, the half that does: what nodes say about themselves, into the fleet table. */

export type { HealthSettings, NodeSpec, PlacementSpec } from "./node-spec.ts";
export type { DownCause } from "./polled-node.ts";
export { Poller, type PollerClock, type PollerOptions } from "./poller.ts";
export { type AttemptSample, applySamples } from "./samples.ts";
export { joinUrl, pathOf } from "./url.ts";
