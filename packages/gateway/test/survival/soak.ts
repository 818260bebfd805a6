/**
 * Mixed traffic over a real gateway for a long time, while nodes fail in every way, threads die, the configuration changes
 * and nodes are found and lost. Two nodes and, at each moment, two of the three threads are left alone, so that each request
 * can be answered.
 */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { comesTrue, type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { Seeded } from "./seeded.ts";
import { type Asked, Callers, type End } from "./soak-callers.ts";
import type { LiveHeap } from "./soak-heap.ts";
import { FAULTS, SoakNode } from "./soak-node.ts";

export interface SoakOptions {
  readonly durationMs: number;
  readonly seed: number;
  /** Between two faults, ms. */
  readonly faultEveryMs: number;
  readonly callers: number;
}

export interface SoakReport {
  readonly seed: number;
  readonly seconds: number;
  readonly requests: number;
  readonly ends: Readonly<Record<End, number>>;
  readonly kinds: Readonly<Record<string, number>>;
  readonly faults: number;
  readonly threadsKilled: number;
  readonly reloads: number;
  readonly listsChanged: number;
  readonly doubleBooked: number;
  /** Requests in flight or parked once nobody asked any more. */
  readonly leakedBookings: number;
  /** In which slopes are taken: no thread is killed in them, and those before have warmed up. */
  readonly quietSeconds: number;
  /**
   * Slopes over that, MB per hour, each with half of its 95 % interval. Live: what the control thread's and the workers' heaps
   * hold after a collection, with the buffers of their objects. Memory: resident, with those collections each five seconds;
   * without them it goes up and down with V8's garbage, by more than any leak.
   */
  readonly liveMbPerHour: number;
  readonly liveMbPerHourWithin: number;
  readonly memoryMbPerHour: number;
  readonly memoryMbPerHourWithin: number;
  /** What each thread that is killed after that adds to that, MB, and within what. NaN: none was. */
  readonly memoryMbPerKill: number;
  readonly memoryMbPerKillWithin: number;
  readonly rssEndMib: number;
  /** NaN: no collection was waited for. */
  readonly liveEndMib: number;
  readonly controlDelayP99Ms: number;
  /** Of a request to a probe of the data port, which a worker's event loop answers. */
  readonly dataDelayP99Ms: number;
  readonly latencyP50Ms: number;
  readonly latencyP99Ms: number;
  readonly socketsAtEnd: number;
  /** What went wrong: lost requests, faults in the log. */
  readonly troubles: readonly string[];
  readonly exitCode: number | null;
}

const WORKERS = 3;
const NODES = 6;
/** Of them, never at fault. */
const SOUND = 2;
const MAX_IN_FLIGHT = 12;
/** A thread that died takes its connections with it: within this time its callers have seen so, ms. */
const DEATH_MS = 2_000;
const TROUBLES_MAX = 20;
/** Shares of the time: no thread is killed, and from `warm` on those that were started last have warmed up. */
const QUIET = { from: 1 / 3, warm: 1 / 2, to: 5 / 6 };
/** How often all threads collect their garbage, s: each costs a worker some 20 ms of CPU. */
const COLLECT_EVERY_S = 5;
/** So few that all memory of the rings is in use within seconds: until then each decision takes some for the first time. */
const RING_RECORDS = 1024;

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const run = new SoakRun(options);
  try {
    await run.start();
    return await run.run();
  } finally {
    await run.stop();
  }
}

class SoakRun {
  readonly #options: SoakOptions;
  readonly #random: Seeded;
  readonly #folder = mkdtempSync(join(tmpdir(), "zml-soak-"));
  readonly #nodes = Array.from({ length: NODES }, (_, index) => new SoakNode(`n${index}`, MAX_IN_FLIGHT));
  readonly #ends: Record<End, number> = { answered: 0, aborted: 0, interrupted: 0, killed: 0, lost: 0 };
  readonly #kinds: Record<string, number> = {};
  readonly #latencies: number[] = [];
  readonly #probes: number[] = [];
  readonly #memory: { atS: number; mib: number; kills: number }[] = [];
  readonly #live: { atS: number; mib: number }[] = [];
  /** Since the last order to collect: what the threads hold, and when that was. */
  readonly #heaps = new Map<string, LiveHeap>();
  #heapsAtS = Number.NEGATIVE_INFINITY;
  readonly #troubles: string[] = [];
  #gateway: GatewayProcess | null = null;
  #callers: Callers | null = null;
  /** An order to die is under way. */
  #isKilling = false;
  #startMs = Number.NaN;
  #diedAtMs = Number.NEGATIVE_INFINITY;
  #faults = 0;
  #kills = 0;
  #reloads = 0;
  #lists = 0;

  constructor(options: SoakOptions) {
    this.#options = options;
    this.#random = new Seeded(options.seed, 8);
  }

  async start(): Promise<void> {
    for (const node of this.#nodes) await node.start();
    this.#writeList(true);
    this.#gateway = await startGatewayProcess(this.#config(0), {
      folder: this.#folder,
      entry: join(import.meta.dirname, "soak-gateway.ts"),
    });
    const gateway = this.#gateway;
    await comesTrue(async () => (await gateway.fleet()).totals.healthy_nodes === NODES, 10_000);
    this.#callers = new Callers({
      port: gateway.dataPort,
      count: this.#options.callers,
      seed: this.#options.seed,
      mayBreak: () => this.#isKilling || performance.now() - this.#diedAtMs < DEATH_MS,
      onAsked: (asked) => this.#note(asked),
    });
  }

  async run(): Promise<SoakReport> {
    const { durationMs, seed } = this.#options;
    const gateway = this.#gate;
    this.#startMs = performance.now();
    const end = AbortSignal.timeout(durationMs);
    this.#callers?.start();
    gateway.onLine((line) => {
      const [, text] = /^heap (.*)$/.exec(line) ?? [];
      if (text !== undefined) this.#noteHeap(JSON.parse(text) as LiveHeap);
    });
    await Promise.all([this.#makeTrouble(end), this.#watch(end)]);
    const seconds = (performance.now() - this.#startMs) / 1000;
    for (const node of this.#nodes) await node.heal();
    await this.#callers?.stop();
    let leakedBookings = Number.NaN;
    await comesTrue(async () => {
      const { totals } = await gateway.fleet();
      leakedBookings = totals.in_flight + totals.parked;
      return leakedBookings === 0;
    }, 5_000);
    // connections to nodes end after their idle time of 4 s
    await comesTrue(() => gateway.sockets() <= 2 * WORKERS, 6_000);
    const socketsAtEnd = gateway.sockets();
    const rssEndMib = gateway.rssMib();
    const { control_delay_p99_ms: delayP99 } = (await gateway.fleet()).totals;
    // the threads that were told to die are no fault
    const faults = gateway.faults.filter((line) => !line.includes("told to die"));
    const requests = Object.values(this.#ends).reduce((sum, count) => sum + count, 0);
    const isWarm = ({ atS }: { atS: number }) => atS >= QUIET.warm * seconds && atS < QUIET.to * seconds;
    const live = slopeOf(this.#live.filter(isWarm));
    const { slope, within } = slopeOf(this.#memory.filter(isWarm));
    const last = this.#memory.filter(({ atS }) => atS >= QUIET.to * seconds);
    const killing = slopeOf(last);
    const perKill = ((1 - QUIET.to) * seconds) / ((last.at(-1)?.kills ?? 0) - (last[0]?.kills ?? 0));
    const killMib = Number.isFinite(perKill) ? perKill * (killing.slope - slope) : Number.NaN;
    const exitCode = await gateway.stop();
    return {
      seed,
      seconds,
      requests,
      ends: this.#ends,
      kinds: this.#kinds,
      faults: this.#faults,
      threadsKilled: this.#kills,
      reloads: this.#reloads,
      listsChanged: this.#lists,
      doubleBooked: this.#nodes.reduce((sum, node) => sum + node.doubleBooked, 0),
      leakedBookings,
      quietSeconds: (QUIET.to - QUIET.warm) * seconds,
      liveMbPerHour: live.slope * 3600 * 1.048576,
      liveMbPerHourWithin: live.within * 3600 * 1.048576,
      memoryMbPerHour: slope * 3600 * 1.048576,
      memoryMbPerHourWithin: within * 3600 * 1.048576,
      memoryMbPerKill: killMib * 1.048576,
      memoryMbPerKillWithin: perKill * Math.hypot(killing.within, within) * 1.048576,
      rssEndMib,
      liveEndMib: this.#live.at(-1)?.mib ?? Number.NaN,
      controlDelayP99Ms: delayP99 ?? Number.NaN,
      dataDelayP99Ms: quantile(this.#probes, 0.99),
      latencyP50Ms: quantile(this.#latencies, 0.5),
      latencyP99Ms: quantile(this.#latencies, 0.99),
      socketsAtEnd,
      troubles: [...this.#troubles, ...faults].slice(0, TROUBLES_MAX),
      exitCode,
    };
  }

  async stop(): Promise<void> {
    await this.#callers?.stop();
    await this.#gateway?.stop();
    for (const node of this.#nodes) await node.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #gate(): GatewayProcess {
    if (this.#gateway === null) throw new Error("the run has not started");
    return this.#gateway;
  }

  /** What all threads hold at one order; nothing while one of them is away. */
  #noteHeap(heap: LiveHeap): void {
    this.#heaps.set(heap.thread, heap);
    if (this.#heaps.size !== WORKERS + 1) return;
    let bytes = 0;
    for (const { heapBytes, externalBytes } of this.#heaps.values()) bytes += heapBytes + externalBytes;
    this.#live.push({ atS: this.#heapsAtS, mib: bytes / 1024 ** 2 });
  }

  get #atS(): number {
    return (performance.now() - this.#startMs) / 1000;
  }

  #note({ kind, end, ms, what }: Asked): void {
    this.#ends[end] += 1;
    this.#kinds[kind] = (this.#kinds[kind] ?? 0) + 1;
    if (end === "answered") this.#latencies.push(ms);
    if (end === "lost" && this.#troubles.length < TROUBLES_MAX) this.#troubles.push(what);
  }

  /** One trouble after another, each with its end, until the time is over. */
  async #makeTrouble(end: AbortSignal): Promise<void> {
    const random = this.#random;
    while (!end.aborted) {
      await delay(this.#options.faultEveryMs, undefined, { signal: end }).catch(() => undefined);
      if (end.aborted) return;
      const dice = random.next();
      if (dice < 0.6) void this.#breakNode(random.pick(this.#nodes.slice(SOUND)), random.pick(FAULTS), end);
      else if (dice < 0.75 && this.#mayKill) await this.#killThread(random.below(WORKERS));
      else if (dice < 0.9) this.#reload();
      else this.#writeList(random.chance(0.5));
    }
  }

  /** For a half of the time no thread is killed, so that what a death costs can be told from what time costs. */
  get #mayKill(): boolean {
    const share = (performance.now() - this.#startMs) / this.#options.durationMs;
    return share < QUIET.from || share >= QUIET.to;
  }

  async #breakNode(node: SoakNode, fault: (typeof FAULTS)[number], end: AbortSignal): Promise<void> {
    if (node.fault !== null || this.#nodes.filter((each) => each.fault !== null).length >= 2) return;
    this.#faults += 1;
    await node.setFault(fault);
    await delay(500 + this.#random.below(2_500), undefined, { signal: end }).catch(() => undefined);
    await node.heal();
  }

  /**
   * Only while every other worker serves: what is promised is that one worker's death is no other's, and with all of them
   * dead at once nobody answers. How long one is away is the gateway's choice: it waits longer with each early death.
   */
  async #killThread(worker: number): Promise<void> {
    const { totals } = await this.#gate.fleet();
    if (totals.listening_workers < WORKERS || performance.now() - this.#diedAtMs < DEATH_MS) return;
    this.#isKilling = true;
    this.#gate.child.stdin?.write(`${worker}\n`);
    const isDead = await comesTrue(
      async () => (await this.#gate.fleet()).totals.worker_crashes > totals.worker_crashes,
      10_000,
    );
    this.#diedAtMs = performance.now();
    this.#isKilling = false;
    if (isDead) this.#kills += 1;
    else this.#troubles.push(`worker ${worker} was told to die and lives`);
  }

  #reload(): void {
    this.#reloads += 1;
    writeFileSync(join(this.#folder, "zml.yaml"), this.#config(this.#reloads));
    this.#gate.child.kill("SIGHUP");
  }

  /** The last two nodes are found in a list; sometimes only one of them is. */
  #writeList(areBoth: boolean): void {
    this.#lists += 1;
    const found = this.#nodes.slice(areBoth ? -2 : -1);
    const text = JSON.stringify(found.map(({ id, port }) => ({ targets: [`127.0.0.1:${port}`], labels: { id } })));
    writeFileSync(join(this.#folder, "list.tmp"), text);
    renameSync(join(this.#folder, "list.tmp"), join(this.#folder, "list.json"));
  }

  async #watch(end: AbortSignal): Promise<void> {
    while (!end.aborted) {
      if (this.#atS - this.#heapsAtS >= COLLECT_EVERY_S) {
        this.#heaps.clear();
        this.#heapsAtS = this.#atS;
        this.#gate.child.stdin?.write("heap\n");
      }
      await delay(250, undefined, { signal: end }).catch(() => undefined);
      const { exitCode, signalCode } = this.#gate.child;
      if (exitCode !== null || signalCode !== null) {
        throw new Error(`the process ended with ${exitCode ?? signalCode}: ${this.#gate.log.slice(-8).join("\n")}`);
      }
      this.#memory.push({ atS: this.#atS, mib: this.#gate.rssMib(), kills: this.#kills });
      const askedAtMs = performance.now();
      const url = `http://127.0.0.1:${this.#gate.dataPort}/healthz`;
      const isAnswered = await fetch(url, { signal: AbortSignal.timeout(10_000) }).then(
        async (answer) => (await answer.text()) === "ok\n",
        () => false,
      );
      if (isAnswered) this.#probes.push(performance.now() - askedAtMs);
    }
  }

  /** A configuration that differs from the one before in what a reload may change. */
  #config(version: number): string {
    const node = ({ id, port }: SoakNode) =>
      `  - { id: ${id}, url: "http://127.0.0.1:${port}", family: F, engine: custom, models: [m], max_in_flight: ${MAX_IN_FLIGHT} }\n`;
    const inFile = this.#nodes.slice(0, version % 2 === 0 ? -2 : -3);
    return `data: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
workers: ${WORKERS}
store: { path: data }
evidence: { ring_records: ${RING_RECORDS} }
timeouts: { connect_ms: 1000, first_byte_ms: 1500, first_token_ms: 1500, idle_ms: 4000, drain_ms: 5000 }
failover: { cooldown_ms: ${500 + (version % 5)}, cooldown_max_ms: 2000, retry_budget: 2, max_attempts: 6 }
health: { poll_interval_ms: 300, timeout_ms: 250, slow_start_ms: 1000 }
discovery:
  sources:
    - name: list
      kind: file_sd
      paths: [list.json]
      node: { family: F, engine: custom, models: [m], max_in_flight: ${MAX_IN_FLIGHT} }
policies:
  - { name: wait, queue_on_saturation: true, max_queue_ms: 20000 }
models:
  - { name: m, policy: wait }
nodes:
${inFile.map(node).join("")}`;
  }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Least squares, MiB per second, with half of the 95 % interval of independent errors. */
function slopeOf(points: readonly { atS: number; mib: number }[]): { slope: number; within: number } {
  const count = points.length;
  const meanX = points.reduce((sum, { atS }) => sum + atS, 0) / count;
  const meanY = points.reduce((sum, { mib }) => sum + mib, 0) / count;
  const spread = points.reduce((sum, { atS }) => sum + (atS - meanX) ** 2, 0);
  const slope = points.reduce((sum, { atS, mib }) => sum + (atS - meanX) * (mib - meanY), 0) / spread;
  const errors = points.reduce((sum, { atS, mib }) => sum + (mib - meanY - slope * (atS - meanX)) ** 2, 0);
  return { slope, within: 1.96 * Math.sqrt(errors / Math.max(1, count - 2) / spread) };
}
