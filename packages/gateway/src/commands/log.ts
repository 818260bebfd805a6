/** The log of the process: JSON lines on standard error. */

import { destination, pino } from "pino";
import type { GatewayLog } from "../control/gateway-log.ts";

/** @param level least level that is written, or `silent`. Lines are written at once, so that a crash loses none. */
export function createLog(level: string): GatewayLog {
  return pino(
    { level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` },
    destination({ fd: 2, sync: true }),
  );
}
