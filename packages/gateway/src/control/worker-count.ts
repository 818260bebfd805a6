/** How many workers this system can run. */

import type { GatewayLog } from "./gateway-log.ts";

/** Systems whose kernel spreads the connections of one port over several listeners. */
const REUSE_PORT_PLATFORMS: readonly NodeJS.Platform[] = ["linux", "freebsd", "sunos", "aix"];

/** As many as are wanted, or one where threads can't share a port. */
export function workerCount(wanted: number, log: GatewayLog): number {
  if (wanted === 1 || REUSE_PORT_PLATFORMS.includes(process.platform)) return wanted;
  log.warn({ wanted, platform: process.platform }, "this system can't share a port between threads: one worker runs");
  return 1;
}
