/** CPU time that open tabs cost a gateway: turns with and without them, one after the other. */

import { setTimeout as wait } from "node:timers/promises";
import type { LiveJson } from "@zml/protocol/admin";
import { type Measured, startGatewayProcess, startLines } from "../processes.ts";

type MeasuredGateway = Measured & { readonly adminPort: number };

/** of one turn, ms. */
const TURN_MS = 8_000;
/** Of each kind of turn. */
const ROUNDS = 2;
const WARM_UP_MS = 8_000;
const HISTORY_EVERY_MS = 5_000;

/** Runs work on a gateway with so many nodes that answer their polls. */
export async function withFleet(nodes: number, work: (gateway: MeasuredGateway) => Promise<void>): Promise<void> {
  const fleet = await startLines(new URL("../fleet/answering-nodes.ts", import.meta.url), [`${nodes}`]);
  try {
    const ports = JSON.parse(fleet.firstLine) as { engine: string; port: number }[];
    const gateway = await startGatewayProcess(
      JSON.stringify({
        data: { listen: "127.0.0.1:0" },
        admin: { listen: "127.0.0.1:0" },
        workers: 1,
        store: { path: ":memory:" },
        nodes: ports.map(({ engine, port }, index) => ({
          id: `node-${String(index).padStart(4, "0")}`,
          url: `http://127.0.0.1:${port}`,
          engine,
          family: ["H100", "MI300X", "L40S"][index % 3],
          cost: { usd_per_gpu_hour: 2.99 },
        })),
      }),
    );
    try {
      await wait(WARM_UP_MS);
      await work(gateway);
    } finally {
      await gateway.stop();
    }
  } finally {
    await fleet.stop();
  }
}

/** What so many open tabs take. */
export interface TabsMeasure {
  readonly tabs: number;
  /** Of all together, as a share of a core. */
  readonly cpuShare: number;
  readonly bytesPerTabAndSecond: number;
}

/** Measures each number of tabs against none. */
export async function measureTabs(gateway: MeasuredGateway, counts: readonly number[]): Promise<TabsMeasure[]> {
  const base = `http://127.0.0.1:${gateway.adminPort}/admin/v1`;
  const sums = counts.map((tabs) => ({ tabs, share: 0, bytes: 0 }));
  let without = 0;
  // what is loaded and compiled by the first request is no cost of a tab
  await openTabs(base, 1, 2_000);
  for (let round = 0; round < ROUNDS; round++) {
    without += await shareOver(gateway, () => wait(TURN_MS));
    for (const sum of sums) {
      sum.share += await shareOver(gateway, async () => {
        sum.bytes += await openTabs(base, sum.tabs, TURN_MS);
      });
    }
  }
  return sums.map(({ tabs, share, bytes }) => ({
    tabs,
    cpuShare: (share - without) / ROUNDS,
    bytesPerTabAndSecond: bytes / ROUNDS / tabs / (TURN_MS / 1000),
  }));
}

async function shareOver(gateway: MeasuredGateway, work: () => Promise<unknown>): Promise<number> {
  const [cpuUs, startMs] = [gateway.cpuUs(), performance.now()];
  await work();
  return (gateway.cpuUs() - cpuUs) / 1000 / (performance.now() - startMs);
}

/** Does what open tabs do, for so long. @returns bytes of the answers. */
async function openTabs(base: string, tabs: number, lengthMs: number): Promise<number> {
  const untilMs = performance.now() + lengthMs;
  const sums = await Promise.all(
    Array.from({ length: tabs }, async (_, tab) => {
      let bytes = 0;
      let since = "";
      let historyAtMs = 0;
      // tabs are opened one after the other
      await wait((tab * 1_000) / tabs);
      while (performance.now() < untilMs) {
        const text = await textOf(`${base}/live${since}`);
        const { mark, every_ms } = JSON.parse(text) as LiveJson;
        since = `?since=${mark}`;
        bytes += text.length;
        if (performance.now() >= historyAtMs) {
          historyAtMs = performance.now() + HISTORY_EVERY_MS;
          bytes += (await textOf(`${base}/history`)).length;
        }
        await wait(Math.min(every_ms, Math.max(0, untilMs - performance.now())));
      }
      return bytes;
    }),
  );
  return sums.reduce((sum, bytes) => sum + bytes, 0);
}

async function textOf(url: string): Promise<string> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.text();
}
