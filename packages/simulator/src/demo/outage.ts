import { setTimeout as delay } from "node:timers/promises";
import type { NodeView } from "./fleet-view.ts";
import type { OpenCall, Traffic } from "./traffic.ts";

/** One node's end and return, as far as it has come. Times on the clock of `performance.now()`; NaN: not yet. */
export type Outage = { node: string; killedAtMs: number; startedAtMs: number; servedAtMs: number };

export type OutageOptions = {
  readonly traffic: Traffic;
  /** Between the kill and the start. */
  readonly downMs: number;
  readonly signal: AbortSignal;
  fetchFleet(): Promise<readonly NodeView[]>;
  /** Share of the latest answers that a node gave. */
  shareOf(node: string): number;
  kill(node: string): Promise<void>;
  start(node: string): Promise<void>;
  say(event: string): void;
};

const LOOK_EVERY_MS = 25;
/** A node below this share of traffic would show little when it dies, and be slow to get its first call back. */
const SHARE_MIN = 0.08;

/** Two answers under way make it likely that one is still open when the kill arrives; one has to do on a quiet fleet. */
const IN_FLIGHT_WANTED = 2;
const WANTED_FOR_MS = 2000;

/**
 * The node to kill: of those with `least` or more answers under way and none of them a stream, the one with most. Until
 * its first byte an answer can move to another node; a stream that has begun belongs to its caller and can only break,
 * with a visible error. So that no caller sees one here, streams whose node is not known yet rule all nodes out.
 */
export function chooseVictim(
  nodes: readonly NodeView[],
  open: Iterable<Pick<OpenCall, "isStream" | "node">>,
  { shareOf, least = IN_FLIGHT_WANTED }: { shareOf(node: string): number; least?: number },
): NodeView | null {
  const streaming = new Set<string | null>();
  for (const call of open) if (call.isStream) streaming.add(call.node);
  if (streaming.has(null)) return null;
  let victim: NodeView | null = null;
  for (const node of nodes) {
    if (!(node.inFlight >= least) || streaming.has(node.id) || !(shareOf(node.id) >= SHARE_MIN)) continue;
    if (victim === null || node.inFlight > victim.inFlight) victim = node;
  }
  return victim;
}

/** Runs one outage from the search for a victim to its start; `noteHead` ends it. */
export class OutageDrill {
  readonly #options: OutageOptions;
  readonly #outages: Outage[] = [];

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** In order; the last one may be under way. */
  get outages(): readonly Outage[] {
    return this.#outages;
  }

  /** Kills a node and starts it again. Calls are plain while it looks for a node: streams that run come to their end. */
  async run(): Promise<void> {
    const { traffic, downMs, signal, kill, start, say } = this.#options;
    traffic.isPlainOnly = true;
    const victim = await this.#findVictim();
    const outage: Outage = { node: victim.id, killedAtMs: performance.now(), startedAtMs: NaN, servedAtMs: NaN };
    this.#outages.push(outage);
    await kill(victim.id);
    traffic.isPlainOnly = false;
    say(`killed ${victim.id} with ${victim.inFlight} answers under way: they move to other nodes`);
    await delay(downMs, undefined, { signal });
    outage.startedAtMs = performance.now();
    await start(victim.id);
    say(`${victim.id} is back; it gets one trial call when its cooldown is over`);
  }

  /** Takes the head of an answer. */
  noteHead(call: OpenCall): void {
    const outage = this.#outages.at(-1);
    if (outage === undefined || call.node !== outage.node || !Number.isNaN(outage.servedAtMs)) return;
    if (!(call.sentAtMs > outage.startedAtMs)) return;
    outage.servedAtMs = performance.now();
    const sinceStart = seconds(outage.servedAtMs - outage.startedAtMs);
    const sinceKill = seconds(outage.servedAtMs - outage.killedAtMs);
    this.#options.say(`${outage.node} serves again, ${sinceStart} s after its start, ${sinceKill} s after its end`);
  }

  async #findVictim(): Promise<NodeView> {
    const { traffic, signal, fetchFleet, shareOf } = this.#options;
    const sinceMs = performance.now();
    for (;;) {
      const nodes = await fetchFleet();
      const least = performance.now() - sinceMs < WANTED_FOR_MS ? IN_FLIGHT_WANTED : 1;
      const victim = chooseVictim(nodes, traffic.openCalls, { shareOf, least });
      if (victim !== null) return victim;
      await delay(LOOK_EVERY_MS, undefined, { signal });
    }
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
