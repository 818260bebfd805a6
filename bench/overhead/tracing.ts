/**
 * What telling of single requests adds: CPU time of a whole gateway with traces of one request in a hundred, and of one with
 * a line for each request, less that of one with neither, round by round in turn.
 */

import { benchConfig, type Measured, startGatewayProcess } from "../processes.ts";
import type { Figure } from "../report.ts";
import { chatBody, requestBytes, runLoad } from "./load.ts";

/** Short turns, so that all meet the same machine; over all of them the kernel's steps of 10 ms are 0.1 µs an answer. */
const TURNS = 50;
const ANSWERS = 2_000;
const WARM_UP_TURNS = 4;
const CONNECTIONS = 64;

/** @param nodePort of the node behind all, which also takes the exports: it answers 200 to whatever it is sent. */
export async function measureTracing(nodePort: number, say: (line: string) => void): Promise<Figure[]> {
  const endpoint = `http://127.0.0.1:${nodePort}`;
  const config = (telemetry: string) => `${benchConfig(nodePort)}telemetry: { ${telemetry} }\n`;
  const gateways = {
    off: await startGatewayProcess(benchConfig(nodePort)),
    traced: await startGatewayProcess(config(`traces: { endpoint: "${endpoint}", ratio: 0.01 }`)),
    logged: await startGatewayProcess(config("access_log: { ratio: 1 }"), undefined, "ignore"),
  };
  const names = ["off", "traced", "logged"] as const;
  try {
    const sums = { off: 0, traced: 0, logged: 0 };
    for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
      for (const name of names) {
        const us = await cpuUsPerAnswer(gateways[name]);
        if (turn >= 0) sums[name] += us / TURNS;
      }
    }
    say(`tracing: ${names.map((name) => `${sums[name].toFixed(1)} µs ${name}`).join(", ")}\n`);
    return [
      { name: "tracing_added_us{ratio=0.01}", value: sums.traced - sums.off, unit: "us" },
      { name: "access_log_added_us{ratio=1}", value: sums.logged - sums.off, unit: "us" },
    ];
  } finally {
    await Promise.all(names.map((name) => gateways[name].stop()));
  }
}

async function cpuUsPerAnswer(gateway: Measured): Promise<number> {
  const before = gateway.cpuUs();
  const { answers, failures } = await runLoad({
    port: gateway.port,
    connections: CONNECTIONS,
    total: ANSWERS,
    request: requestBytes(gateway.port, chatBody("plain", 1024)),
  });
  if (failures > 0) throw new Error(`${failures} of ${ANSWERS} requests failed: the figure would mean nothing`);
  return (gateway.cpuUs() - before) / answers;
}
