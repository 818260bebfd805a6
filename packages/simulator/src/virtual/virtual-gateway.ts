/**
 * One gateway in virtual time: the production engine with its own fleet table, directory, retry budget and learned
 * numbers. Several of them share nothing. A baseline replaces the choice among usable nodes and nothing else: its place
 * is booked, settled and learned from like any other.
 */

import {
  ALL_RIGHTS,
  type Attempt,
  type AttemptEnd,
  type AttemptSample,
  admit,
  afterFailedPoll,
  afterGoodPoll,
  applySamples,
  applyUpdate,
  type Booking,
  BUILT_IN_POLICY,
  bookAgain,
  CapacityMeter,
  type CostPriority,
  createDecision,
  createDirectory,
  createFleetTable,
  createPrefixTable,
  createRetryBudget,
  type Decider,
  decide,
  depthOf,
  ENDPOINTS,
  type Estimator,
  expectedTokens,
  type FleetTable,
  FRESH_GATE,
  forgetCache,
  forgetLoad,
  type HealthGate,
  hasFailedOn,
  type Move,
  nextMark,
  noteCommit,
  noteFirstToken,
  noteRequest,
  type Outcome,
  PLACEMENTS_PER_NODE,
  type PolicyData,
  PROMPT_MARKS_MAX,
  type PromptMarks,
  publish,
  type RouteRequest,
  refreshSpeeds,
  type Settler,
  settle,
  TimingLearner,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
  tickOf,
  timingOf,
  writeCapabilities,
  writeCapacity,
  writeDrain,
  writeHealthScore,
  writeLoad,
} from "@zml/engine";
import { type RandomSource, seededRandom } from "../seeded-random.ts";
import type { FleetPlan } from "./fleet-plan.ts";
import { BLOCK_TOKENS } from "./prefix-cache.ts";
import { PrefixIndex } from "./prefix-index.ts";
import type { RequestClass } from "./request-classes.ts";
import type { RoutedRequest, Router, RouterView } from "./routers/router.ts";

const ACCOUNT = "default";
const MODEL = "m";
const CHAT = ENDPOINTS.indexOf("chat_completions");

/** Batch of vLLM's default, and what `max_in_flight` is by default where an engine states it. */
export const MAX_SEQUENCES = 256;
const MAX_IN_FLIGHT = Math.ceil(MAX_SEQUENCES * 1.25);

/** The defaults of the product's configuration. */
const COOLDOWN_MS = 30_000;
const COOLDOWN_MAX_MS = 300_000;
const UNHEALTHY_AFTER = 2;
const MISSED_SCRAPES_MAX = 3;
const POLL_TIMEOUT_MS = 4_000;
const FAILOVER = { maxAttempts: 3, windowMs: 30_000 };
const RETRY_BUDGET = 0.2;

/** The default of `limits.prefixes`. */
const PREFIX_ENTRIES = 65_536;

/** Memory of the rate at which prompts are sent to a node. */
const PROMPT_RATE_MS = 4_000;

export interface GatewayOptions {
  readonly plan: FleetPlan;
  readonly classes: readonly RequestClass[];
  readonly costPriority: CostPriority;
  readonly estimator: Estimator;
  /** Null: the engine's own choice. */
  readonly router: Router | null;
  readonly seed: number;
}

/** What a node says when it is asked. */
export interface Reading {
  readonly running: number;
  readonly waiting: number;
  readonly outputTokens: number;
  readonly kvUse: number;
}

/** A request at this gateway. */
export interface AdmittedRequest {
  readonly route: RouteRequest;
  readonly routed: RoutedRequest;
}

/** A place on a node. */
export interface Dispatched {
  readonly attempt: Attempt;
  readonly row: number;
  /** Prompt tokens that the router counts as uncached; 0 once the first token came. */
  uncached: number;
  /** What the engine expected when it chose; null: a router chose. */
  readonly predicted: Predicted | null;
}

/** Prediction of an attempt. NaN: none was made. */
export interface Predicted {
  readonly firstMs: number;
  readonly tokenMs: number;
  /** What it is promised to stay below, with the probability that the engine states (`PROMISE`). */
  readonly firstPromisedMs: number;
  readonly tokenPromisedMs: number;
}

interface PolledRow {
  gate: HealthGate;
  missedScrapes: number;
  /** Since when polls bring no answer, ms; NaN: they do. */
  silentSinceMs: number;
  readonly meter: CapacityMeter;
  releasesSeen: number;
  releasesSeenAtMs: number;
}

export class VirtualGateway implements RouterView {
  readonly table: FleetTable;
  nowMs = 0;
  readonly rows: number;
  readonly isUsable: Uint8Array;
  usableCount = 0;
  readonly inFlight: Float64Array;
  readonly prefilling: Int32Array;
  readonly uncachedTokens: Float64Array;
  readonly kvTokens: Int32Array;
  readonly family: Int32Array;
  readonly usdPerHour: Float64Array;
  readonly believed: RouterView["believed"];
  readonly networkMs: Float64Array;
  readonly random: RandomSource;

  readonly #options: GatewayOptions;
  readonly #decider: Decider;
  readonly #settler: Settler;
  readonly #decision = createDecision();
  readonly #polled: PolledRow[];
  readonly #placed: { row: number; model: number; placement: number }[];
  readonly #promptRate: Float64Array;
  readonly #promptRateAtMs: Float64Array;
  readonly #prefixes: PrefixIndex[];
  readonly #draw: RandomSource;
  readonly #learner: TimingLearner;

  constructor(options: GatewayOptions) {
    const { plan, classes, seed } = options;
    const { nodes } = plan;
    this.#options = options;
    this.rows = nodes.length;
    const table = createFleetTable({ nodes: nodes.length, workers: 1 });
    this.table = table;
    takeModelRow(table, 0);
    nodes.forEach((node, row) => {
      takeNodeRow(table, row, {
        family: node.family,
        identity: row,
        maxInFlight: MAX_IN_FLIGHT,
        cooldownMs: COOLDOWN_MS,
        cooldownMaxMs: COOLDOWN_MAX_MS,
        priceUsdPerHour: node.usdPerHour,
      });
      takePlacementRow(table, row * PLACEMENTS_PER_NODE);
      table.concurrencyLimit[row] = MAX_SEQUENCES;
      // traces are of other models, so the memory is the only bound that is taken
      const contextTokens = node.constants.kvCapacityTokens;
      // vLLM and SGLang tell the size of their cache
      table.kvCapacityTokens[row * PLACEMENTS_PER_NODE] = contextTokens;
      table.cacheTokens[row] = contextTokens;
      writeCapabilities(table, row * PLACEMENTS_PER_NODE, { contextTokens, readsImages: null, endpoints: null });
    });
    const directory = createDirectory();
    const rows = nodes.map((_, row) => row);
    applyUpdate(directory, {
      version: 1,
      families: plan.families,
      accounts: [
        {
          name: ACCOUNT,
          index: 0,
          defaultPolicy: null,
          isCatalogComplete: true,
          builtIn: policyOf(BUILT_IN_POLICY, classes.length, plan, "balanced", null),
        },
      ],
      policies: classes.map((target, index) => policyOf(target.name, index, plan, options.costPriority, target)),
      models: [
        {
          account: ACCOUNT,
          name: MODEL,
          index: 0,
          policy: null,
          isRegistered: true,
          rows: Int32Array.from(rows),
          placements: Int32Array.from(rows, (row) => row * PLACEMENTS_PER_NODE),
          families: Int32Array.from(nodes, ({ family }) => family),
        },
      ],
    });
    const prefixes = createPrefixTable({ entries: PREFIX_ENTRIES, key: seed });
    this.#decider = { table, worker: 0, directory, estimator: options.estimator, prefixes };
    this.#settler = { table, worker: 0, limits: FAILOVER, budget: createRetryBudget(RETRY_BUDGET, 1) };
    this.#placed = rows.map((row) => ({ row, model: 0, placement: row * PLACEMENTS_PER_NODE }));
    this.#learner = new TimingLearner(table);
    this.#polled = rows.map(() => ({
      gate: FRESH_GATE,
      missedScrapes: 0,
      silentSinceMs: Number.NaN,
      meter: new CapacityMeter(),
      releasesSeen: 0,
      releasesSeenAtMs: 0,
    }));
    this.isUsable = new Uint8Array(this.rows);
    this.inFlight = new Float64Array(this.rows);
    this.prefilling = table.total.prefilling;
    this.kvTokens = table.total.kvTokens;
    this.uncachedTokens = new Float64Array(this.rows);
    this.family = table.family;
    this.usdPerHour = table.priceUsdPerHour;
    this.believed = nodes.map(({ believed }) => believed);
    this.networkMs = Float64Array.from(nodes, ({ networkMs }) => networkMs);
    this.#promptRate = new Float64Array(this.rows);
    this.#promptRateAtMs = new Float64Array(this.rows);
    this.#prefixes = nodes.map(
      ({ constants }) => new PrefixIndex(Math.floor(constants.kvCapacityTokens / BLOCK_TOKENS)),
    );
    this.random = seededRandom(seed);
    this.#draw = seededRandom(seed + 1);
  }

  /** Step 1. */
  admit(
    request: Omit<RoutedRequest, "expectedTokens" | "ttftTargetMs" | "tokenTargetMs" | "responseTargetMs">,
    nowMs: number,
  ): AdmittedRequest {
    const target = this.#options.classes[request.klass];
    if (target === undefined) throw new Error(`no class ${request.klass}`);
    const admission = admit(
      this.#decider.directory,
      {
        account: ACCOUNT,
        rights: ALL_RIGHTS,
        model: MODEL,
        policy: target.name,
        accelerator: null,
        endpoint: CHAT,
        isStream: Number.isNaN(target.responseMs),
        promptTokens: request.promptTokens,
        maxTokens: Number.NaN,
        answers: 1,
        // so that nobody sends a prompt to a node that cannot hold it
        promptTokensAtLeast: request.promptTokens,
        hasImages: false,
        // a baseline has an index of its own
        marks: this.#options.router === null ? marksOf(request.blocks, request.promptTokens) : null,
      },
      nowMs,
    );
    if (admission.kind === "refused")
      throw new Error(`the engine refused a request: ${admission.code} ${admission.name}`);
    noteRequest(this.#settler.budget, nowMs);
    const routed: RoutedRequest = {
      ...request,
      expectedTokens: Number.NaN,
      ttftTargetMs: target.ttftMs,
      tokenTargetMs: target.tokenMs,
      responseTargetMs: target.responseMs,
    };
    return { route: admission.request, routed };
  }

  /** Steps 2 to 4. Null: no node can take it now. */
  choose(request: AdmittedRequest, nowMs: number): Dispatched | null {
    const { route, routed } = request;
    this.nowMs = nowMs;
    const { router } = this.#options;
    const chosen = router === null ? this.#decide(route, nowMs) : this.#pick(router, request, nowMs);
    if (chosen === null) return null;
    route.dispatches += 1;
    const { row } = chosen.booking;
    const uncached = routed.promptTokens - this.cachedTokens(row, routed.blocks);
    this.uncachedTokens[row] = (this.uncachedTokens[row] as number) + uncached;
    if (routed.blocks !== null) this.#prefixes[row]?.note(routed.blocks);
    this.#promptRate[row] = this.promptRate(row) + (uncached / PROMPT_RATE_MS) * 1000;
    this.#promptRateAtMs[row] = nowMs;
    return {
      row,
      uncached,
      predicted: router === null ? this.#predictedOf(chosen.booking) : null,
      attempt: {
        booking: chosen.booking,
        placement: row * PLACEMENTS_PER_NODE,
        endpoint: CHAT,
        trial: chosen.trial,
        sentAtMs: nowMs,
        isFreshConnection: false,
        isJudged: false,
      },
    };
  }

  #predictedOf({ row, start: { firstMs, tokenMs } }: Booking): Predicted {
    const placement = row * PLACEMENTS_PER_NODE;
    return {
      firstMs,
      tokenMs,
      firstPromisedMs: firstMs * (this.table.firstSpread[placement] as number),
      tokenPromisedMs: tokenMs * (this.table.tokenSpread[placement] as number),
    };
  }

  firstToken(dispatched: Dispatched, nowMs: number): void {
    noteFirstToken(this.table, 0, dispatched.attempt.booking, nowMs);
    noteCommit(this.#settler, dispatched.attempt, dispatched.attempt.sentAtMs);
    this.#noteComputed(dispatched);
  }

  /** Step 5, and what the attempt taught. */
  end(
    request: AdmittedRequest,
    dispatched: Dispatched,
    end: AttemptEnd,
    sample: Omit<AttemptSample, "row" | "placement" | "model" | "outcome">,
  ): { outcome: Outcome; move: Move } {
    this.#noteComputed(dispatched);
    this.#options.router?.noteEnd?.(dispatched.row, request.routed);
    const result = settle(this.#settler, request.route, dispatched.attempt, end, sample.atMs);
    const { row } = dispatched;
    const timing = timingOf(dispatched.attempt.booking, false);
    applySamples(
      this.table,
      [{ ...sample, row, placement: row * PLACEMENTS_PER_NODE, model: 0, outcome: result.outcome, timing }],
      this.#learner,
    );
    return result;
  }

  /** A good poll, read at `readAtMs` and known now. */
  takeReading(
    row: number,
    reading: Reading,
    { readAtMs, nowMs, ownAtScrape }: { readAtMs: number; nowMs: number; ownAtScrape: number },
  ): void {
    const polled = this.#polledRow(row);
    const { table } = this;
    polled.gate = afterGoodPoll(polled.gate, 1);
    polled.missedScrapes = 0;
    polled.silentSinceMs = Number.NaN;
    const sample = polled.meter.take(
      {
        atMs: readAtMs,
        uncertainMs: 0,
        tokensTotal: reading.outputTokens,
        running: reading.running,
        waiting: reading.waiting,
        concurrencyLimit: MAX_SEQUENCES,
      },
      "step",
    );
    publish(table, () => {
      table.isUnhealthy[row] = polled.gate.isOut ? 1 : 0;
      table.goodPolls[row] = (table.goodPolls[row] as number) + 1;
      table.polledAtMs[row] = readAtMs;
      table.kvUse[row] = reading.kvUse;
      writeLoad(table, row, reading, { ownAtScrape, elsewhereAtScrape: 0 });
      if (sample !== null) writeCapacity(table, row * PLACEMENTS_PER_NODE, sample);
      this.#writeDrain(row, nowMs);
      writeHealthScore(table, row);
    });
  }

  /** Load alone, as it is now. */
  noteLoad(row: number, load: { readonly running: number; readonly waiting: number }, ownAtScrape: number): void {
    writeLoad(this.table, row, load, { ownAtScrape, elsewhereAtScrape: 0 });
  }

  /**
   * A poll that brought nothing. A refused one has failed at once, one without an answer fails by its time-out, and the
   * next one is sent only then.
   */
  missReading(
    row: number,
    { startMs, isRefused, nowMs }: { startMs: number; isRefused: boolean; nowMs: number },
  ): void {
    const polled = this.#polledRow(row);
    let fromMs = startMs;
    if (!isRefused) {
      if (Number.isNaN(polled.silentSinceMs)) polled.silentSinceMs = startMs;
      if (startMs - polled.silentSinceMs < POLL_TIMEOUT_MS) return;
      fromMs = polled.silentSinceMs;
      polled.silentSinceMs = startMs;
    }
    const { table } = this;
    const lastTrafficAtMs = table.lastSuccessAtMs[row] as number;
    polled.gate = afterFailedPoll(polled.gate, { startMs: fromMs, isRefused, lastTrafficAtMs }, UNHEALTHY_AFTER);
    polled.missedScrapes += 1;
    publish(table, () => {
      table.isUnhealthy[row] = polled.gate.isOut ? 1 : 0;
      if (polled.missedScrapes >= MISSED_SCRAPES_MAX) forgetLoad(table, row);
      this.#writeDrain(row, nowMs);
    });
  }

  /** Medians of families, for nodes that have shown nothing. */
  refreshSpeeds(nowMs: number): void {
    refreshSpeeds(this.table, this.#placed);
    this.#learner.refresh(this.#placed, nowMs);
  }

  setPrice(row: number, usdPerHour: number): void {
    publish(this.table, () => {
      this.table.priceUsdPerHour[row] = usdPerHour;
    });
  }

  setDraining(row: number, isDraining: boolean): void {
    publish(this.table, () => {
      this.table.isDraining[row] = isDraining ? 1 : 0;
    });
  }

  forgetPrefixes(row: number): void {
    this.#prefixes[row]?.clear();
    forgetCache(this.table, row);
  }

  promptRate(row: number): number {
    const ageMs = this.nowMs - (this.#promptRateAtMs[row] as number);
    return (this.#promptRate[row] as number) * Math.exp(-ageMs / PROMPT_RATE_MS);
  }

  cachedTokens(row: number, blocks: Int32Array | null): number {
    if (blocks === null) return 0;
    return (this.#prefixes[row]?.match(blocks) ?? 0) * BLOCK_TOKENS;
  }

  #decide(route: RouteRequest, nowMs: number) {
    const booking = decide(this.#decider, route, nowMs, this.#draw(), this.#decision);
    return booking === null ? null : { booking, trial: { ...this.#decision.trial } };
  }

  /** Books what the router picks; a row that the engine refuses after all is taken out, and the router asked again. */
  #pick(router: Router, { route, routed }: AdmittedRequest, nowMs: number) {
    const { table } = this;
    route.expectedTokens = expectedTokens(table, route);
    routed.expectedTokens = route.expectedTokens;
    const nowTick = tickOf(nowMs);
    this.usableCount = 0;
    for (let row = 0; row < this.rows; row++) {
      const depth = depthOf(table, row);
      this.inFlight[row] = depth;
      const isUsable =
        table.isUnhealthy[row] === 0 &&
        table.isDraining[row] === 0 &&
        table.goodPolls[row] !== 0 &&
        (table.cooldownUntil[row] as number) <= nowTick &&
        depth < (table.maxInFlight[row] as number) &&
        !hasFailedOn(route, row);
      this.isUsable[row] = isUsable ? 1 : 0;
      if (isUsable) this.usableCount += 1;
    }
    while (this.usableCount > 0) {
      const row = router.pick(this, routed);
      if (this.isUsable[row] !== 1) throw new Error(`the router picked row ${row}, which is not usable`);
      const trial = { node: 0, placement: 0, endpoint: 0 };
      const booking: Booking | null = bookAgain(
        this.#decider,
        route,
        { row, placement: row * PLACEMENTS_PER_NODE },
        trial,
        nowMs,
      );
      if (booking !== null) return { booking, trial };
      this.isUsable[row] = 0;
      this.usableCount -= 1;
    }
    return null;
  }

  #noteComputed(dispatched: Dispatched): void {
    this.uncachedTokens[dispatched.row] = (this.uncachedTokens[dispatched.row] as number) - dispatched.uncached;
    dispatched.uncached = 0;
  }

  #writeDrain(row: number, nowMs: number): void {
    const polled = this.#polledRow(row);
    const releases = Atomics.load(this.table.releases, row);
    writeDrain(this.table, row, { count: releases - polled.releasesSeen, intervalMs: nowMs - polled.releasesSeenAtMs });
    polled.releasesSeen = releases;
    polled.releasesSeenAtMs = nowMs;
  }

  #polledRow(row: number): PolledRow {
    const polled = this.#polled[row];
    if (polled === undefined) throw new Error(`no row ${row}`);
    return polled;
  }
}

/** Marks as the gateway makes them, of a prompt whose blocks have ids in place of bytes. */
function marksOf(blocks: Int32Array | null, promptTokens: number): PromptMarks | null {
  if (blocks === null || blocks.length === 0) return null;
  const hashes: number[] = [];
  const shares: number[] = [];
  let hash = 0;
  let mark = 1;
  for (let block = 1; block <= blocks.length && hashes.length < PROMPT_MARKS_MAX; block++) {
    hash = (Math.imul(hash, 0x01000193) + Math.imul((blocks[block - 1] as number) + 1, 0x9e3779b1)) | 0;
    if (block < mark) continue;
    hashes.push(hash);
    shares.push((block * BLOCK_TOKENS) / promptTokens);
    mark = nextMark(block);
  }
  return { hashes: Int32Array.from(hashes), shares: Float64Array.from(shares) };
}

/** All families in one tier, as the benchmark wants it: chains are another measurement. */
function policyOf(
  name: string,
  index: number,
  plan: FleetPlan,
  costPriority: CostPriority,
  target: RequestClass | null,
): PolicyData {
  return {
    account: ACCOUNT,
    name,
    index,
    chain: plan.families.map((_, family) => ({ family, priority: 1 })),
    latencyTargetMs: target?.responseMs ?? Number.NaN,
    ttftTargetMs: target?.ttftMs ?? Number.NaN,
    tokenTargetMs: target?.tokenMs ?? Number.NaN,
    costPriority,
    estimator: "predictive",
    queueOnSaturation: false,
    maxQueueMs: 30_000,
    acceptableWaiting: 4,
  };
}
