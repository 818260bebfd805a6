/**
 * What evidence and metrics add to a request: CPU time of a gateway as it is, less that of one whose workers write no
 * record of a decision and take no sample of a request, and whose control thread counts no attempt. Both take short turns,
 * and the middle of the differences is the result: a turn in which a poll or a collection fell on one of them tells nothing.
 */

import { readdirSync, readFileSync } from "node:fs";
import { benchConfig, type Measured, startScript } from "../processes.ts";
import { type Figure, median } from "../report.ts";
import { chatBody, requestBytes, runLoad } from "./load.ts";

const TURNS = 120;
const ANSWERS = 1_000;
const WARM_UP_TURNS = 12;
const CONNECTIONS = 64;

/** @param nodePort of the node behind both. Takes a minute. */
export async function measureTelemetry(nodePort: number, say: (line: string) => void): Promise<Figure[]> {
  const config = benchConfig(nodePort);
  const on = await startScript("overhead/telemetry-gateway.ts", ["on", config]);
  const off = await startScript("overhead/telemetry-gateway.ts", ["off", config]);
  try {
    const turns: { on: number; off: number }[] = [];
    for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
      // who comes first changes: a machine that slows down must not be one's cost
      const isOnFirst = turn % 2 === 0;
      const first = await cpuUsPerAnswer(isOnFirst ? on : off);
      const second = await cpuUsPerAnswer(isOnFirst ? off : on);
      if (turn >= 0) turns.push(isOnFirst ? { on: first, off: second } : { on: second, off: first });
    }
    const withoutUs = median(turns.map((turn) => turn.off));
    const addedUs = median(turns.map((turn) => turn.on - turn.off));
    say(`telemetry: ${withoutUs.toFixed(1)} µs without, ${addedUs.toFixed(2)} µs more with\n`);
    return [{ name: "telemetry_added_us{case=chat_1kb}", value: addedUs, unit: "us" }];
  } finally {
    await Promise.all([on.stop(), off.stop()]);
  }
}

async function cpuUsPerAnswer(gateway: Measured): Promise<number> {
  const request = requestBytes(gateway.port, chatBody("plain", 1024));
  const before = cpuUs(gateway);
  const { answers, failures } = await runLoad({
    ...{ port: gateway.port, connections: CONNECTIONS, total: ANSWERS, request },
  });
  if (failures > 0) throw new Error(`${failures} of ${ANSWERS} requests failed: the figure would mean nothing`);
  return (cpuUs(gateway) - before) / answers;
}

/** CPU time of all threads so far, µs. Of the scheduler's own clock: the ticks of `stat` are 10 µs an answer here. */
function cpuUs({ child }: Measured): number {
  const tasks = `/proc/${child.pid}/task`;
  const nanoseconds = readdirSync(tasks).map((task) =>
    Number(readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ")[0]),
  );
  return nanoseconds.reduce((sum, value) => sum + value, 0) / 1000;
}
