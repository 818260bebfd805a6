/** Descriptors of listening sockets, which Node has no word for. */

import type { Server } from "node:net";

/** The descriptor of a server that listens; null: it does not, or this system has none. */
export function descriptorOf(server: Server): number | null {
  const handle: unknown = Reflect.get(server, "_handle");
  const fd = typeof handle === "object" && handle !== null ? Reflect.get(handle, "fd") : null;
  return typeof fd === "number" && fd >= 0 ? fd : null;
}
