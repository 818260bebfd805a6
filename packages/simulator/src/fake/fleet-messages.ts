import type { FakeFleetSpec, NodeCommand, NodeReport } from "./fleet.ts";

/** Parent to child. `call` comes back in the reply. */
export type FleetRequest =
  | { readonly kind: "run"; readonly call: number; readonly spec: FakeFleetSpec }
  | { readonly kind: "command"; readonly call: number; readonly id: string; readonly command: NodeCommand };

/** Child to parent. */
export type FleetReply =
  | {
      readonly kind: "ready";
      readonly call: number;
      readonly nodes: readonly NodeReport[];
      readonly controlUrl: string;
    }
  | { readonly kind: "done"; readonly call: number; readonly report: NodeReport }
  | { readonly kind: "failed"; readonly call: number; readonly message: string };
