/** One run of the demo: fleet, gateway and traffic up; a node goes and returns; everything down again. */
import { rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { buildDashboard } from "../../../../scripts/dashboard-pages.ts";
import type { CallEnd } from "./call.ts";
import { configText } from "./demo-config.ts";
import type { DemoFleet } from "./demo-fleet.ts";
import { startFakeDemoFleet } from "./demo-fleet.ts";
import { EventLog } from "./event-log.ts";
import type { NodeView } from "./fleet-view.ts";
import { fetchFleet } from "./fleet-view.ts";
import type { GatewayProcess } from "./gateway-process.ts";
import { startGatewayProcess } from "./gateway-process.ts";
import { answerUsd } from "./money.ts";
import type { DemoOptions } from "./options.ts";
import type { Outage } from "./outage.ts";
import { OutageDrill } from "./outage.ts";
import { startRealDemoFleet } from "./real-demo-fleet.ts";
import type { DemoView } from "./render.ts";
import { Statistics } from "./statistics.ts";
import { readTraceExcerpt } from "./trace.ts";
import { Traffic } from "./traffic.ts";
import { tryItText } from "./try-it.ts";
import { warmUp } from "./warm-up.ts";
import type { PlannedCall } from "./workload.ts";
import { planCalls } from "./workload.ts";

export type DemoOutput = {
  /** Text that stays: where things are, how to call them. Before the first `show`. */
  say(text: string): void;
  /** Called at the pace of `frameMs` with what there is to see. */
  show(view: DemoView): void;
  readonly frameMs: number;
};

export type DemoResult = {
  readonly statistics: Statistics;
  readonly outages: readonly Outage[];
  readonly view: DemoView;
  readonly seconds: number;
  /** Calls that were broken off at the end; they count nowhere else. */
  readonly openAtEnd: number;
  /** From the start of the process to the first call. */
  readonly readyMs: number;
};

const FLEET_EVERY_MS = 250;
/** Answers that are open at the end get this long; the longest of the trace take a quarter of a minute on an L40S. */
const FINISH_MS = 3000;
/** Traffic goes on this much longer at most, for a killed node that hasn't served yet. */
const EXTRA_SECONDS = 15;
/** There is some traffic to see before a node goes. */
const SHOW_BEFORE_KILL_MS = 1000;
/** Of an endless run: between an outage's end and the next. */
const OUTAGE_EVERY_MS = 30_000;

/** When the node goes at the earliest, for how long, and for how long it gets nothing: parts of a run of `seconds`. */
function outageTimes(seconds: number): { killAtMs: number; downMs: number; cooldownMs: number } {
  const runMs = Math.min(seconds, 20) * 1000;
  return { killAtMs: runMs * 0.3, downMs: runMs * 0.15, cooldownMs: Math.round(runMs * 0.15) };
}

/** Runs until its time is over or the signal aborts; rejects when something that it needs can't start or ends early. */
export async function runDemo(options: DemoOptions, output: DemoOutput, signal: AbortSignal): Promise<DemoResult> {
  const times = outageTimes(options.seconds);
  const cleanups: (() => Promise<void>)[] = [];
  try {
    const fleet = options.isReal
      ? await startRealDemoFleet({ seed: options.seed, say: output.say })
      : await startFakeDemoFleet(options);
    cleanups.push(() => fleet.stop());
    signal.throwIfAborted();
    await buildDashboard();
    const directory = await mkdtemp(join(tmpdir(), "zml-demo-"));
    // a second signal ends the process before the cleanups ran; supervisors send two, to us and to our parent
    const removeAtExit = () => rmSync(directory, { recursive: true, force: true });
    process.once("exit", removeAtExit);
    cleanups.push(async () => {
      await rm(directory, { recursive: true, force: true });
      process.off("exit", removeAtExit);
    });
    const configPath = join(directory, "zml.yaml");
    const { model, nodes, policies } = fleet;
    await writeFile(configPath, configText({ model, nodes, policies, cooldownMs: times.cooldownMs }));
    const gateway = await startGatewayProcess(configPath, signal);
    cleanups.push(async () => (signal.aborted ? gateway.kill() : await gateway.stop()));
    output.say(`${fleet.title} behind \`zml serve -c ${configPath}\``);
    output.say(`data ${gateway.dataUrl}   admin ${gateway.adminUrl}\n`);
    output.say(`dashboard ${gateway.adminUrl}/   (open it in a browser: no key is asked on this machine)\n`);
    output.say(tryItText({ dataUrl: gateway.dataUrl, adminUrl: gateway.adminUrl, model }));
    const run = new DemoRun({ options, fleet, gateway, output, times, signal });
    return await run.run();
  } finally {
    // Last started, first stopped.
    for (const cleanup of cleanups.reverse()) await cleanup();
  }
}

type RunInput = {
  readonly options: DemoOptions;
  readonly fleet: DemoFleet;
  readonly gateway: GatewayProcess;
  readonly output: DemoOutput;
  readonly times: ReturnType<typeof outageTimes>;
  readonly signal: AbortSignal;
};

class DemoRun {
  readonly #input: RunInput;
  readonly #statistics: Statistics;
  readonly #traffic: Traffic;
  readonly #drill: OutageDrill;
  readonly #ending = new AbortController();
  readonly #events = new EventLog();
  #nodes: readonly NodeView[] = [];
  #startMs = Number.NaN;

  constructor(input: RunInput) {
    this.#input = input;
    const { options, fleet, gateway, times } = input;
    this.#statistics = new Statistics(new Map(fleet.policies.map(({ name, targetMs }) => [name, targetMs])));
    this.#traffic = new Traffic({
      calls: planCalls({
        rows: readTraceExcerpt(),
        shares: fleet.policies.map(({ name, share }) => ({ policy: name, share })),
        rate: options.rate,
        seed: options.seed,
        maxPromptTokens: fleet.maxPromptTokens,
        maxOutputTokens: fleet.maxOutputTokens,
      }),
      model: fleet.model,
      dataUrl: gateway.dataUrl,
      seed: options.seed,
      onSent: () => this.#statistics.noteSent(),
      onHead: (call) => this.#drill.noteHead(call),
      onEnd: (planned, end, durationMs) => this.#noteEnd(planned, end, durationMs),
    });
    this.#drill = new OutageDrill({
      traffic: this.#traffic,
      downMs: times.downMs,
      signal: this.#ending.signal,
      fetchFleet: () => fetchFleet(gateway.adminUrl, this.#ending.signal),
      shareOf: (node) => this.#statistics.shareOf(node),
      kill: (node) => fleet.kill(node),
      start: (node) => fleet.start(node),
      say: (event) => this.#note(event),
    });
  }

  async run(): Promise<DemoResult> {
    const { signal, gateway } = this.#input;
    this.#nodes = await fetchFleet(gateway.adminUrl, signal);
    const readyMs = performance.now();
    this.#startMs = readyMs;
    const gone = gateway.exited.then((text) => Promise.reject(new Error(text)));
    const stopped = new Promise<never>((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    // Whoever fails first ends all.
    const background = Promise.all([this.#watchFleet(), this.#showFrames(), this.#makeTraffic()]);
    try {
      await Promise.race([this.#waitForEnd(), background, gone, stopped]);
      const seconds = this.#elapsedMs / 1000;
      const openAtEnd = await Promise.race([this.#traffic.finish(FINISH_MS), gone, stopped]);
      const { outages } = this.#drill;
      return { statistics: this.#statistics, outages, view: this.#view(), seconds, openAtEnd, readyMs };
    } finally {
      this.#traffic.stop();
      this.#ending.abort();
      await background.catch(() => {});
      gone.catch(() => {});
    }
  }

  get #elapsedMs(): number {
    return performance.now() - this.#startMs;
  }

  #note(event: string): void {
    this.#events.add(this.#elapsedMs, event);
  }

  /** The time that was asked for, and then until the killed node has served. */
  async #waitForEnd(): Promise<void> {
    const { seconds } = this.#input.options;
    const { signal } = this.#ending;
    // A timer can't be set for ever.
    if (seconds === Number.POSITIVE_INFINITY) return new Promise(() => {});
    await delay(seconds * 1000, undefined, { signal });
    while (this.#elapsedMs < (seconds + EXTRA_SECONDS) * 1000) {
      if (!Number.isNaN(this.#drill.outages.at(-1)?.servedAtMs ?? Number.NaN)) return;
      await delay(20, undefined, { signal });
    }
  }

  async #watchFleet(): Promise<void> {
    const { gateway } = this.#input;
    await this.#every(FLEET_EVERY_MS, async () => {
      this.#nodes = await fetchFleet(gateway.adminUrl, this.#ending.signal);
    });
  }

  async #showFrames(): Promise<void> {
    const { output } = this.#input;
    await this.#every(output.frameMs, async () => output.show(this.#view()));
  }

  async #makeTraffic(): Promise<void> {
    const { options, times, fleet, gateway } = this.#input;
    await this.#unlessEnding(async (signal) => {
      this.#note(`warm-up: ${fleet.warmUpCallsPerNode} calls for each node show the gateway what each can do`);
      const ends = await warmUp({ fleet, dataUrl: gateway.dataUrl, signal });
      signal.throwIfAborted();
      const bad = ends.find((end) => !end.isGood);
      if (bad !== undefined) this.#note(`warm-up: ${bad.error}`);
      this.#note("the trace begins");
      this.#traffic.start();
      await delay(Math.max(SHOW_BEFORE_KILL_MS, times.killAtMs - this.#elapsedMs), undefined, { signal });
      await this.#drill.run();
      while (options.seconds === Number.POSITIVE_INFINITY) {
        await delay(OUTAGE_EVERY_MS, undefined, { signal });
        await this.#drill.run();
      }
    });
  }

  #every(intervalMs: number, work: () => Promise<void>): Promise<void> {
    return this.#unlessEnding(async (signal) => {
      while (!signal.aborted) {
        await work();
        await delay(intervalMs, undefined, { signal });
      }
    });
  }

  /** What the end of the run interrupts has not failed. */
  async #unlessEnding(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { signal } = this.#ending;
    try {
      await work(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #noteEnd(planned: PlannedCall, end: CallEnd, durationMs: number): void {
    if (this.#ending.signal.aborted) return;
    const node = this.#nodes.find(({ id }) => id === end.routing?.node);
    const outputTokens = Number.isNaN(end.outputTokens) ? planned.outputTokens : end.outputTokens;
    const { speedUp } = this.#input.fleet;
    const usd = node === undefined ? Number.NaN : answerUsd(outputTokens, { ...node, speedUp });
    const { policy } = planned;
    this.#statistics.add({ ...end, policy, durationMs, outputTokens, usd });
    if (!end.isGood) this.#note(end.error);
  }

  #view(): DemoView {
    const { fleet } = this.#input;
    const statistics = this.#statistics;
    return {
      elapsedMs: this.#elapsedMs,
      sent: statistics.sent,
      open: this.#traffic.openCalls.size,
      failed: statistics.failed,
      redispatched: statistics.redispatched,
      nodes: this.#nodes.map((node) => ({ ...node, share: statistics.shareOf(node.id) })),
      policies: fleet.policies.flatMap(({ name, costPriority }) => {
        const one = statistics.policies.get(name);
        if (one === undefined) return [];
        const { targetMs, attainment, usdPerMillionTokens, redispatched, families } = one;
        const [p50Ms, p95Ms] = [one.durationMs(0.5), one.durationMs(0.95)];
        return [
          { name, costPriority, p50Ms, p95Ms, targetMs, attainment, usdPerMillionTokens, redispatched, families },
        ];
      }),
      events: this.#events.lines,
      eventCount: this.#events.count,
    };
  }
}
