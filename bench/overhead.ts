/**
 * What ZML adds to a request: CPU time of the gateway's process (all its threads) per answer, beside a bare Node proxy
 * in the same run, round by round in turn. The ratio is the result; absolute times are the machine's.
 */

import { measureAuth } from "./overhead/auth.ts";
import { chatBody, requestBytes, runLoad } from "./overhead/load.ts";
import { measureTelemetry } from "./overhead/telemetry.ts";
import { measureTracing } from "./overhead/tracing.ts";
import { benchConfig, type Measured, startGatewayProcess, startScript } from "./processes.ts";
import { type Figure, isJsonAsked, median, report } from "./report.ts";

const CASES = [
  { name: "chat_1kb", kind: "plain", bytes: 1024, connections: 64, total: 12_000 },
  { name: "stream_64_fast", kind: "fast", bytes: 1024, connections: 32, total: 1_500 },
  { name: "stream_64_paced_20ms", kind: "paced", bytes: 1024, connections: 100, total: 300 },
] as const;
const ROUNDS = 5;

const args = process.argv.slice(2);
const json = isJsonAsked(args);
const node = await startScript("overhead/fast-node.ts", []);
const bare = await startScript("overhead/bare-proxy.ts", [`http://127.0.0.1:${node.port}`]);
const gateway = await startGatewayProcess(benchConfig(node.port));

try {
  const figures: Figure[] = [];
  for (const shape of CASES) {
    const runs: { gateway: number[]; bare: number[]; ratio: number[] } = { gateway: [], bare: [], ratio: [] };
    // the first round warms both up and is not counted
    for (let round = 0; round <= ROUNDS; round++) {
      const bareUs = await cpuPerAnswer(bare, shape);
      const gatewayUs = await cpuPerAnswer(gateway, shape);
      if (!json)
        process.stderr.write(
          `${shape.name} round ${round}: bare ${bareUs.toFixed(1)}, zml ${gatewayUs.toFixed(1)} µs\n`,
        );
      if (round === 0) continue;
      runs.bare.push(bareUs);
      runs.gateway.push(gatewayUs);
      runs.ratio.push(gatewayUs / bareUs);
    }
    figures.push(
      { name: `cpu_us_per_request{case=${shape.name},proxy=bare}`, value: median(runs.bare), unit: "us" },
      { name: `cpu_us_per_request{case=${shape.name},proxy=zml}`, value: median(runs.gateway), unit: "us" },
      { name: `cpu_ratio_to_bare_proxy{case=${shape.name}}`, value: median(runs.ratio), unit: "ratio" },
    );
  }
  await Promise.all([gateway.stop(), bare.stop()]);
  const say = (line: string): void => {
    if (!json) process.stderr.write(line);
  };
  figures.push(...(await measureAuth(node.port, say)));
  figures.push(...(await measureTracing(node.port, say)));
  figures.push(...(await measureTelemetry(node.port, say)));
  report({ bench: "overhead", figures, json });
} finally {
  await Promise.all([gateway.stop(), bare.stop(), node.stop()]);
}

async function cpuPerAnswer(proxy: Measured, shape: (typeof CASES)[number]): Promise<number> {
  const request = requestBytes(proxy.port, chatBody(shape.kind, shape.bytes));
  const before = proxy.cpuUs();
  const { answers, failures } = await runLoad({
    port: proxy.port,
    connections: shape.connections,
    total: shape.total,
    request,
  });
  if (failures > 0) throw new Error(`${failures} of ${shape.total} requests failed: the figure would mean nothing`);
  return (proxy.cpuUs() - before) / answers;
}
