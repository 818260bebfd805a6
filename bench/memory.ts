/**
 * Memory and start of the package as its users install it: packed, installed into an empty project, one worker, the
 * node and the callers in other processes.
 *
 * - `idle_rss_mb`: a fresh process that has served nothing, from its second poll on: V8 then optimises the HTTP parser
 *   of undici, and what the compiler took stays resident.
 * - `open_streams_added_rss_mb`: with so many open streams, each an event every 100 ms, less the same process before,
 *   warmed by 10,000 requests.
 * - `cold_start_to_first_200_ms`: from the spawn to the whole answer of the first request, median of five.
 *
 * Resident memory moves with the garbage that V8 has not collected yet, so each state is sampled for some seconds after
 * it was reached, and its figure is the median.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { installGateway } from "../scripts/install-package.ts";
import { openStreams } from "./open-streams.ts";
import { chatBody, requestBytes, runLoad } from "./overhead/load.ts";
import { benchConfig, type Measured, startGatewayProcess, startScript } from "./processes.ts";
import { type Figure, isJsonAsked, median, report } from "./report.ts";

const WARMING_REQUESTS = 10_000;
const STREAMS = 1_000;
const COLD_STARTS = 5;
/** The second poll, which comes 5 s after the first, is over by then. */
const IDLE_SETTLE_MS = 7_000;
/** A state is sampled this long, so often. */
const SAMPLE_FOR_MS = 5_000;
const SAMPLE_EVERY_MS = 100;

const json = isJsonAsked(process.argv.slice(2));
const say = (text: string) => json || process.stderr.write(`${text}\n`);

const project = mkdtempSync(join(tmpdir(), "zml-bench-memory-"));
try {
  say("packing the gateway and installing it into an empty project");
  const { launcher } = installGateway(project);
  const node = await startScript("overhead/fast-node.ts", []);
  try {
    const config = benchConfig(node.port);
    const startMs = await coldStarts(launcher, config);
    report({ bench: "memory", figures: [...(await memory(launcher, config)), startMs], json });
  } finally {
    await node.stop();
  }
} finally {
  rmSync(project, { recursive: true, force: true });
}

async function coldStarts(launcher: string, config: string): Promise<Figure> {
  const times: number[] = [];
  for (let start = 0; start < COLD_STARTS; start++) {
    const spawnedAt = performance.now();
    const gateway = await startGatewayProcess(config, launcher);
    try {
      await load(gateway, { connections: 1, total: 1 });
      times.push(performance.now() - spawnedAt);
    } finally {
      await gateway.stop();
    }
    say(`cold start ${start + 1}: ${times.at(-1)?.toFixed(0)} ms`);
  }
  return { name: "cold_start_to_first_200_ms", value: median(times), unit: "ms" };
}

async function memory(launcher: string, config: string): Promise<Figure[]> {
  const gateway = await startGatewayProcess(config, launcher);
  try {
    await wait(IDLE_SETTLE_MS);
    const idle = await settledRssMb(gateway, "idle");
    await load(gateway, { connections: 64, total: WARMING_REQUESTS });
    const warmed = await settledRssMb(gateway, `after ${WARMING_REQUESTS} requests`);
    const request = requestBytes(gateway.port, chatBody("held", 1024));
    const streams = await openStreams({ port: gateway.port, count: STREAMS, request });
    const open = await settledRssMb(gateway, `with ${STREAMS} open streams`);
    const ended = streams.ended();
    streams.close();
    if (ended > 0) throw new Error(`${ended} of ${STREAMS} streams ended: the figure would mean nothing`);
    return [
      { name: "idle_rss_mb{workers=1}", value: idle, unit: "MB" },
      { name: `warmed_rss_mb{requests=${WARMING_REQUESTS}}`, value: warmed, unit: "MB" },
      { name: `open_streams_added_rss_mb{streams=${STREAMS}}`, value: open - warmed, unit: "MB" },
    ];
  } finally {
    await gateway.stop();
  }
}

async function load(gateway: Measured, shape: { connections: number; total: number }): Promise<void> {
  const request = requestBytes(gateway.port, chatBody("plain", 1024));
  const { answers, failures } = await runLoad({ port: gateway.port, request, ...shape });
  if (failures > 0 || answers !== shape.total) throw new Error(`${failures} of ${shape.total} requests failed`);
}

/** Resident memory of a state, MB (10^6 bytes): the median of its samples. */
async function settledRssMb(gateway: Measured, state: string): Promise<number> {
  const samples: number[] = [];
  for (let passedMs = 0; passedMs < SAMPLE_FOR_MS; passedMs += SAMPLE_EVERY_MS) {
    await wait(SAMPLE_EVERY_MS);
    samples.push(gateway.rssBytes() / 1e6);
  }
  const shown = [Math.min(...samples), median(samples), Math.max(...samples)].map((value) => value.toFixed(1));
  say(`${state}: ${shown[1]} MB (${shown[0]} to ${shown[2]})`);
  return median(samples);
}
