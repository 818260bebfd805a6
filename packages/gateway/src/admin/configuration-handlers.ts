/** The configuration as a whole. */

import { CONFIGURATION_ROUTES } from "@zml/protocol/admin";
import { AdminProblem } from "./admin-problem.ts";
import { type BoundRoute, bind } from "./bound-route.ts";

export function configurationHandlers(): BoundRoute[] {
  return [
    bind(CONFIGURATION_ROUTES.reload, async (_input, { sources }) => {
      const result = await sources.reload();
      if (result.kind === "refused") {
        const errors = result.problems.map((message) => ({ path: "", message, hint: "" }));
        const detail = `the configuration is refused, the old one runs on: ${result.problems[0] ?? ""}`;
        throw new AdminProblem("configuration_refused", detail, { errors });
      }
      if (result.kind === "unchanged") {
        const same = { kind: "unchanged", version: sources.version(), is_acknowledged: true, warnings: [] } as const;
        return { status: 200, body: same };
      }
      const { kind, version, isAcknowledged, warnings } = result;
      return {
        status: isAcknowledged ? 200 : 202,
        body: { kind, version, is_acknowledged: isAcknowledged, warnings },
      };
    }),
  ];
}
