/** A gateway that polls a fleet of fake nodes, a share of which is silent: what that costs, and how old its rows are. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import type { FleetReportJson } from "../../packages/gateway/src/control/fleet-report.ts";
import { type Measured, startGatewayProcess, startLines } from "../processes.ts";
import { quantile } from "../report.ts";

/** What to measure. */
export interface FleetPlan {
  /** Nodes that answer. */
  readonly answering: number;
  /** Nodes that don't: half of them accept connections, half do not even do that. */
  readonly silent: number;
  readonly pollIntervalMs: number;
  readonly timeoutMs: number;
  /** Whole poll intervals that each of the two measurements takes. */
  readonly rounds: number;
  /** Time without a measurement, so that code is compiled and the silent are known, ms. */
  readonly warmUpMs: number;
  readonly say: (text: string) => void;
}

/** What was measured. */
export interface FleetMeasures {
  /** CPU of the whole gateway over that of the same one when it hardly polls, as a share of one core. */
  readonly pollCpuShare: number;
  /** The same, per round of one answering node, µs. */
  readonly cpuUsPerRound: number;
  readonly idleCpuShare: number;
  /** Ages of the rows of healthy nodes, looked at some times in each round, ms. */
  readonly ageP50Ms: number;
  readonly ageP99Ms: number;
  readonly ageMaxMs: number;
  /** Metrics text that nodes sent, bytes/s. */
  readonly parsedBytesPerSecond: number;
  readonly connectionsPerSecond: number;
  /** Least share of the answering nodes that were healthy at any look. */
  readonly healthyShare: number;
  /** Most silent nodes that counted as healthy at any look. */
  readonly silentHealthy: number;
  /** How late the control thread was for its timers, ms. */
  readonly controlDelayP99Ms: number;
}

/** Long enough that nothing is polled while the idle gateway is measured. */
const NEVER_MS = 3_600_000;

/** Looks at the table in one poll interval. */
const LOOKS_PER_ROUND = 10;

/** Connections that fill the backlog of a listener that accepts nothing. */
const FILLERS = 3;

/** Starts fleet and gateway, measures, and ends them. */
export async function measureFleet(plan: FleetPlan): Promise<FleetMeasures> {
  const endings: (() => Promise<void> | void)[] = [];
  try {
    const fleet = await startFleet(plan, endings);
    const busy = await startGateway(plan, fleet, plan.pollIntervalMs);
    endings.push(() => busy.stop());
    plan.say(`the gateway runs: ${plan.answering + plan.silent} nodes, ${plan.silent} of them silent`);
    await wait(plan.warmUpMs);
    const cpu = await cpuOver(busy, plan, fleet);
    plan.say(`polling and all else: ${(cpu.share * 100).toFixed(1)} % of a core`);
    const looks = await ages(busy, plan);
    await busy.stop();
    const idle = await startGateway(plan, fleet, NEVER_MS);
    endings.push(() => idle.stop());
    await wait(plan.pollIntervalMs);
    const baseline = await cpuOver(idle, plan, fleet);
    const pollCpuShare = cpu.share - baseline.share;
    const roundsPerSecond = plan.answering / ((plan.pollIntervalMs / 1000) * MEAN_PERIOD);
    return {
      pollCpuShare,
      cpuUsPerRound: (pollCpuShare * 1e6) / roundsPerSecond,
      idleCpuShare: baseline.share,
      ...looks,
      parsedBytesPerSecond: cpu.metricsBytesPerSecond,
      connectionsPerSecond: cpu.connectionsPerSecond,
    };
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

/** Mean start-to-start time of a node's polls as a share of its interval; for a figure that is information only. */
const MEAN_PERIOD = 0.84;

interface RunningFleet {
  readonly answering: readonly { readonly engine: string; readonly port: number }[];
  readonly silentPorts: readonly number[];
  /** What the answering nodes have sent and taken so far. */
  sent(): Promise<{ metricsBytes: number; connections: number }>;
}

async function startFleet(plan: FleetPlan, endings: (() => Promise<void> | void)[]): Promise<RunningFleet> {
  const full = Math.floor(plan.silent / 2);
  const start = async (script: string, args: readonly string[]) => {
    const started = await startLines(new URL(script, import.meta.url), args);
    endings.push(() => started.stop());
    return started;
  };
  const answering = await start("answering-nodes.ts", [`${plan.answering}`]);
  const accepting = await start("silent-nodes.ts", [`${plan.silent - full}`, "accepting"]);
  const blocked = await start("silent-nodes.ts", [`${full}`, "full"]);
  const blockedPorts = JSON.parse(blocked.firstLine) as number[];
  const fillers: Socket[] = [];
  endings.push(() => {
    for (const socket of fillers) socket.destroy();
  });
  for (const port of blockedPorts) {
    for (let filler = 0; filler < FILLERS; filler++) {
      fillers.push(connect({ host: "127.0.0.1", port }).on("error", () => {}));
    }
  }
  return {
    answering: JSON.parse(answering.firstLine) as { engine: string; port: number }[],
    silentPorts: [...(JSON.parse(accepting.firstLine) as number[]), ...blockedPorts],
    async sent() {
      answering.child.stdin?.write("\n");
      const [line] = (await once(answering.child.stdout ?? answering.child, "data")) as [string];
      return JSON.parse(line) as { metricsBytes: number; connections: number };
    },
  };
}

type StartedGateway = Measured & { readonly adminPort: number };

function startGateway(plan: FleetPlan, fleet: RunningFleet, pollIntervalMs: number): Promise<StartedGateway> {
  const shared = { family: "H100", cost: { usd_per_gpu_hour: 2.99 } };
  const nodes = [
    ...fleet.answering.map(({ engine, port }, index) => ({
      id: `answering-${index}`,
      url: `http://127.0.0.1:${port}`,
      engine,
      ...shared,
    })),
    ...fleet.silentPorts.map((port, index) => ({
      id: `silent-${index}`,
      url: `http://127.0.0.1:${port}`,
      engine: "vllm",
      ...shared,
    })),
  ];
  return startGatewayProcess(
    JSON.stringify({
      data: { listen: "127.0.0.1:0" },
      admin: { listen: "127.0.0.1:0" },
      workers: 1,
      store: { path: ":memory:" },
      health: { poll_interval_ms: pollIntervalMs, timeout_ms: plan.timeoutMs },
      nodes,
    }),
  );
}

async function cpuOver(gateway: Measured, plan: FleetPlan, fleet: RunningFleet) {
  const startedMs = performance.now();
  const [cpuUs, sent] = [gateway.cpuUs(), await fleet.sent()];
  await wait(plan.rounds * plan.pollIntervalMs);
  const [cpuAfterUs, sentAfter] = [gateway.cpuUs(), await fleet.sent()];
  const seconds = (performance.now() - startedMs) / 1000;
  return {
    share: (cpuAfterUs - cpuUs) / 1e6 / seconds,
    metricsBytesPerSecond: (sentAfter.metricsBytes - sent.metricsBytes) / seconds,
    connectionsPerSecond: (sentAfter.connections - sent.connections) / seconds,
  };
}

async function ages(gateway: StartedGateway, plan: FleetPlan) {
  const seen: number[] = [];
  let healthyShare = 1;
  let silentHealthy = 0;
  let controlDelayP99Ms = Number.NaN;
  for (let look = 0; look < plan.rounds * LOOKS_PER_ROUND; look++) {
    await wait(plan.pollIntervalMs / LOOKS_PER_ROUND);
    const report = (await (
      await fetch(`http://127.0.0.1:${gateway.adminPort}/admin/v1/fleet`)
    ).json()) as FleetReportJson;
    const healthy = report.nodes.filter(({ state }) => state === "healthy");
    const answering = healthy.filter(({ id }) => id.startsWith("answering-"));
    for (const { data_age_ms: ageMs } of answering) seen.push(ageMs ?? Number.POSITIVE_INFINITY);
    healthyShare = Math.min(healthyShare, answering.length / plan.answering);
    silentHealthy = Math.max(silentHealthy, healthy.length - answering.length);
    controlDelayP99Ms = report.totals.control_delay_p99_ms ?? Number.NaN;
  }
  const sorted = Float64Array.from(seen).sort();
  return {
    ageP50Ms: quantile(sorted, 0.5),
    ageP99Ms: quantile(sorted, 0.99),
    ageMaxMs: sorted.at(-1) ?? Number.NaN,
    healthyShare,
    silentHealthy,
    controlDelayP99Ms,
  };
}
