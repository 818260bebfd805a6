/** Every route with what it does, but for those that the port answers itself. */

import { ADMIN_ROUTES, DOOR_ROUTES } from "@zml/protocol/admin";
import { backtestHandlers } from "./backtest-handlers.ts";
import type { BoundRoute } from "./bound-route.ts";
import { configurationHandlers } from "./configuration-handlers.ts";
import { nodeHandlers } from "./node-handlers.ts";
import { objectHandlers } from "./object-handlers.ts";
import { reportHandlers } from "./report-handlers.ts";
import { whatIfHandler } from "./what-if-handler.ts";

/** @throws Error when a route of the list has no handler, or two. */
export function bindRoutes(): readonly BoundRoute[] {
  const bound = [
    ...objectHandlers(),
    ...configurationHandlers(),
    ...nodeHandlers(),
    ...reportHandlers(),
    whatIfHandler(),
    ...backtestHandlers(),
  ];
  const atTheDoor = new Set(Object.values(DOOR_ROUTES).map(({ id }) => id));
  for (const { id } of ADMIN_ROUTES) {
    const count = bound.filter(({ contract }) => contract.id === id).length;
    if (count !== (atTheDoor.has(id) ? 0 : 1)) throw new Error(`the route ${id} has ${count} handlers`);
  }
  return bound;
}
