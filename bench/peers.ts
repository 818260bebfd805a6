/**
 * ZML beside the gateways that people would otherwise pick, and beside a bare Node proxy: in one run, in turn, each on
 * the same one core. Method and results: docs/benchmarks/overhead.md.
 *
 * `--rounds=N` (3), `--only=zml,bare,…`, `--sections=costs,latencies,paced_streams,slow_streams` (all). What a section
 * measured is kept as it ends: `--resume` goes on behind a run that was broken off, with the same options. `--write` puts
 * the results into the docs.
 */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { installGateway } from "../scripts/install-package.ts";
import { chatBody, requestBytes, runLoad } from "./overhead/load.ts";
import { installPeers } from "./peers/install.ts";
import { KeptFigures } from "./peers/kept-figures.ts";
import { MeasuredProcess } from "./peers/measured-process.ts";
import { type Peer, proxiesOf } from "./peers/proxies.ts";
import { answerTimes, readStreams } from "./peers/timed-load.ts";
import { writePages } from "./peers/write-pages.ts";
import { startScript } from "./processes.ts";
import { type Figure, isJsonAsked, median, quantile, report } from "./report.ts";

const CASES = [
  { name: "chat_1kb", kind: "plain", connections: 64, total: 6_000, isStream: false },
  { name: "stream_64_fast", kind: "fast", connections: 32, total: 500, isStream: true },
  { name: "stream_64_paced_20ms", kind: "paced", connections: 100, total: 100, isStream: true },
] as const;

/** Everything but the proxy runs on the others; on a machine of one core, beside it. */
const LOAD_CORE = 1;

const ONE_ANSWER = { perSecond: 1_000, total: 1, connections: 1, deadlineMs: 2_000 };

/** What each has answered before it is measured: what compiles as it runs is compiled by then. */
const WARMING = 20_000;
const WARMING_STREAMS = 1_000;

/** Ports for gateways are looked for above this one. */
let nextPort = 21_000;

const args = process.argv.slice(2);
const json = isJsonAsked(args);
const option = (name: string): string | undefined => args.find((arg) => arg.startsWith(`--${name}=`))?.split("=")[1];
const rounds = Number(option("rounds") ?? 3);
const only = option("only")?.split(",");
const SECTIONS = {
  costs,
  latencies,
  paced_streams: () => openStreams({ kind: "paced", count: 1_000, events: 65, names: ["zml", "bare", "envoy"] }),
  slow_streams: () => openStreams({ kind: "slow", count: 10_000, events: 11, names: ["zml"] }),
} as const;
const sections = option("sections")?.split(",") ?? Object.keys(SECTIONS);
const unknown = sections.find((name) => !Object.hasOwn(SECTIONS, name));
if (unknown !== undefined) throw new Error(`--sections=${unknown}: known are ${Object.keys(SECTIONS).join(", ")}`);
const startedAtMs = performance.now();
const say = (text: string): boolean =>
  process.stderr.write(`${((performance.now() - startedAtMs) / 1000).toFixed(0).padStart(5)} s  ${text}\n`);
const kept = new KeptFigures({ rounds, only: only ?? null }, args.includes("--resume"));
const todo = sections.filter((name) => !kept.has(name));

const installed = installPeers();
execFileSync("taskset", ["-a", "-pc", String(LOAD_CORE), String(process.pid)], { stdio: "ignore" });
const folder = mkdtempSync(join(tmpdir(), "zml-bench-peers-"));
// as its users have it: what is built starts faster and is smaller than the sources
const { launcher } = installGateway(folder);
const node = await startScript("overhead/fast-node.ts", []);
const second = await startScript("overhead/fast-node.ts", []);
const running: MeasuredProcess[] = [];
let figures: Figure[] = [];
const put = (name: string, value: number, unit: string): number => figures.push({ name, value, unit });

try {
  const { proxies, missing } = await proxiesOf(folder, launcher, [node.port, second.port], installed, takePort);
  for (const name of missing) say(`${name} is not installed: left out (apt-get install ${name})`);
  for (const proxy of proxies) if (only === undefined || only.includes(proxy.name)) await startProxy(proxy);
  await wait(8_000);
  for (const one of running) put(`idle_rss_mb{proxy=${one.proxy.name}}`, one.rssMb(), "MB");
  // a second start measures nothing new, and says nothing of a machine that was busier the first time
  if (!kept.has("start")) kept.keep("start", figures);
  for (const [index, name] of todo.entries()) {
    say(`section ${index + 1} of ${todo.length}: ${name}`);
    figures = [];
    await SECTIONS[name as keyof typeof SECTIONS]();
    kept.keep(name, figures);
  }
  report({ bench: "peers", figures: kept.all(), json });
  if (args.includes("--write")) writePages(kept.all(), { rounds, load: kept.loadAverages() });
} finally {
  await Promise.all([...running.map((one) => one.stop()), node.stop(), second.stop()]);
  rmSync(folder, { recursive: true, force: true });
}

async function startProxy(proxy: Peer & { port: number }): Promise<void> {
  const started = new MeasuredProcess(proxy);
  try {
    const ms = await started.firstAnswer(async () => {
      const times = await answerTimes({ ...ONE_ANSWER, port: proxy.port, request: requestOf(proxy, "plain") });
      return times.length === 1;
    });
    put(`cold_start_to_first_200_ms{proxy=${proxy.name}}`, ms, "ms");
    running.push(started);
    say(`${proxy.name}: first answer after ${ms.toFixed(0)} ms`);
  } catch (error) {
    await started.stop();
    // one that does not come up here is left out, and said to be
    process.stderr.write(`${error instanceof Error ? error.message : error}: left out\n`);
  }
}

/** CPU per answer, in turn; the first round warms up and does not count. */
async function costs(): Promise<void> {
  for (const { proxy } of running) {
    const { port } = proxy;
    const plain = await runLoad({ port, connections: 64, total: WARMING, request: requestOf(proxy, "plain") });
    say(`${proxy.name} warmed by ${WARMING} requests in ${plain.seconds.toFixed(1)} s`);
    if (proxy.hasNoStreams === true) continue;
    const fast = await runLoad({ port, connections: 32, total: WARMING_STREAMS, request: requestOf(proxy, "fast") });
    say(`${proxy.name} warmed by ${WARMING_STREAMS} streams in ${fast.seconds.toFixed(1)} s`);
  }
  for (const shape of CASES) {
    const us = new Map<string, number[]>();
    const perSecond = new Map<string, number[]>();
    for (let round = 0; round <= rounds; round++) {
      for (const one of running) {
        const { proxy } = one;
        if (shape.isStream && proxy.hasNoStreams === true) continue;
        const before = one.cpuUs();
        const { answers, failures, seconds } = await runLoad({
          port: proxy.port,
          connections: shape.connections,
          total: shape.total,
          request: requestOf(proxy, shape.kind),
        });
        const cost = (one.cpuUs() - before) / answers;
        say(`${shape.name} round ${round}: ${proxy.name} ${cost.toFixed(1)} µs`);
        if (failures > 0) {
          // a figure with failures in it would mean nothing; the others are measured all the same
          tell(`${proxy.name}: ${failures} of ${shape.total} requests failed: the round is left out`);
          continue;
        }
        if (round === 0) continue;
        addTo(us, proxy.name, cost);
        addTo(perSecond, proxy.name, answers / seconds);
      }
    }
    for (const [name, values] of us) {
      put(`cpu_us_per_answer{case=${shape.name},proxy=${name}}`, median(values), "us");
      if (shape.isStream) put(`cpu_us_per_event{case=${shape.name},proxy=${name}}`, median(values) / 65, "us");
      else put(`answers_per_second{case=${shape.name},proxy=${name}}`, Math.max(...(perSecond.get(name) ?? [])), "1/s");
    }
    putRatios(shape.name, us);
  }
}

/** What ZML costs of what each of the others does, round by round. */
function putRatios(shape: string, us: ReadonlyMap<string, number[]>): void {
  const own = us.get("zml");
  if (own === undefined) return;
  for (const [name, values] of us) {
    const ratios = own.map((value, round) => value / (values[round] ?? Number.NaN));
    if (name === "zml_2_workers") put(`cpu_ratio_of_two_workers{case=${shape}}`, 1 / median(ratios), "ratio");
    else if (name !== "zml") put(`cpu_ratio{case=${shape},to=${name}}`, median(ratios), "ratio");
  }
}

/** Added latency at 500 requests a second, and of the first event of a stream, against the node itself. */
async function latencies(): Promise<void> {
  const direct = { proxy: { name: "direct", port: node.port, command: "", args: [] } };
  const added = new Map<string, { p50: number[]; p99: number[]; first: number[] }>();
  for (let round = 0; round < rounds; round++) {
    let base = { p50: 0, p99: 0, first: 0 };
    for (const { proxy } of [direct, ...running]) {
      const request = requestOf(proxy, "plain");
      const times = await answerTimes({
        port: proxy.port,
        request,
        perSecond: 500,
        total: 1_500,
        connections: 64,
      }).catch(() => null);
      if (times === null) {
        tell(`${proxy.name}: not all of 500 requests a second were answered: left out`);
        continue;
      }
      let first = Number.NaN;
      if (!("hasNoStreams" in proxy && proxy.hasNoStreams)) {
        const stream = requestOf(proxy, "fast");
        const seen = await readStreams({ port: proxy.port, request: stream, count: 60, perTick: 1, onTick: NOTHING });
        first = quantile(seen.firstEventMs, 0.5);
      }
      const own = { p50: quantile(times, 0.5), p99: quantile(times, 0.99), first };
      if (proxy.name === "direct") base = own;
      const sum = added.get(proxy.name) ?? { p50: [], p99: [], first: [] };
      added.set(proxy.name, sum);
      for (const key of ["p50", "p99", "first"] as const) sum[key].push(own[key] - base[key]);
    }
  }
  for (const [name, { p50, p99, first }] of added) {
    if (name === "direct") continue;
    put(`added_latency_p50_ms{rate=500,proxy=${name}}`, median(p50), "ms");
    put(`added_latency_p99_ms{rate=500,proxy=${name}}`, median(p99), "ms");
    if (!first.includes(Number.NaN)) put(`added_first_event_p50_ms{proxy=${name}}`, median(first), "ms");
  }
  const [own, bare, envoy] = ["zml", "bare", "envoy"].map((name) => added.get(name));
  if (own !== undefined && bare !== undefined) {
    put("added_latency_p50_ratio{rate=500,to=bare}", median(own.p50) / median(bare.p50), "ratio");
  }
  if (own !== undefined && envoy !== undefined) {
    put("added_latency_p99_ratio{rate=500,to=envoy}", median(own.p99) / median(envoy.p99), "ratio");
  }
}

/** Memory over that before, CPU and events of many streams at once. Each runs alone. */
async function openStreams(options: {
  kind: "paced" | "slow";
  count: number;
  events: number;
  names: readonly string[];
}): Promise<void> {
  const { kind, count, events, names } = options;
  for (const one of running) {
    const { proxy } = one;
    if (!names.includes(proxy.name)) continue;
    const before = one.rssMb();
    const cpuBefore = one.cpuUs();
    const beganAtMs = performance.now();
    const samples: number[] = [];
    let ticks = 0;
    const seen = await readStreams({
      port: proxy.port,
      request: requestOf(proxy, kind),
      count,
      perTick: 50,
      onTick: () => {
        ticks += 1;
        if (ticks % 10 === 0) samples.push(one.rssMb());
      },
    });
    const labels = `{streams=${count},pace=${kind},proxy=${proxy.name}}`;
    put(`open_streams_added_rss_mb${labels}`, Math.max(...samples) - before, "MB");
    const cpuUs = one.cpuUs() - cpuBefore;
    put(`cpu_us_per_event${labels}`, cpuUs / seen.events, "us");
    // at 1 the gateway falls behind: what has come meanwhile is then read and passed on together, which is cheaper
    put(`core_share${labels}`, cpuUs / 1000 / (performance.now() - beganAtMs), "cores");
    put(`lost_events${labels}`, count * events - seen.events, "events");
    put(`first_event_p50_ms${labels}`, quantile(seen.firstEventMs, 0.5), "ms");
    say(`${labels}: ${seen.whole} whole, ${seen.events} events`);
  }
}

function requestOf(proxy: Peer & { port: number }, kind: "plain" | "fast" | "paced" | "slow"): Buffer {
  return requestBytes(proxy.port, chatBody(kind, 1024), proxy.headers);
}

function addTo(map: Map<string, number[]>, name: string, value: number): void {
  const values = map.get(name) ?? [];
  map.set(name, values);
  values.push(value);
}

/**
 * A port that is free: routers want theirs told. It is below those that the system gives to connections, one of which
 * could have it by the time that its router starts.
 */
async function takePort(): Promise<number> {
  for (;;) {
    nextPort += 1;
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(nextPort, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return nextPort;
  }
}

function tell(text: string): void {
  say(`NOTE: ${text}`);
}

function NOTHING(): void {}
