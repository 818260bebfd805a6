/**
 * A gateway in virtual time over recorded accounts, models and policies: the production engine with its table, directory,
 * retry budget and learned timing. Capacities are those that decisions were made on when they were recorded.
 */

import {
  type Attempt,
  type AttemptEnd,
  afterFailedPoll,
  afterGoodPoll,
  applySamples,
  applyUpdate,
  createDecision,
  createDirectory,
  createFleetTable,
  createRetryBudget,
  createRouteRequest,
  type Decider,
  decide,
  type FleetTable,
  FRESH_GATE,
  type HealthGate,
  isPromptOnly,
  type Model,
  type Move,
  mayPark,
  noteCommit,
  noteFirstToken,
  noteRequest,
  type Outcome,
  PLACEMENTS_PER_NODE,
  type Policy,
  publish,
  type RouteRequest,
  refreshSpeeds,
  type Settler,
  settle,
  simpleEstimator,
  TimingLearner,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
  timingOf,
  usdOf,
  writeCapabilities,
  writeDrain,
  writeLoad,
} from "@zml/engine";
import { type RandomSource, seededRandom } from "../seeded-random.ts";
import type { Lesson, ReplayPlan } from "./replay-plan.ts";

const COOLDOWN_MS = 30_000;
const COOLDOWN_MAX_MS = 300_000;
const UNHEALTHY_AFTER = 2;

/** Lessons between two solutions of what they tell. */
const LESSONS_PER_REFRESH = 16;

/** A place on a node. */
export interface Placed {
  readonly attempt: Attempt;
  readonly row: number;
  readonly placement: number;
}

export class ReplayGateway {
  readonly table: FleetTable;
  readonly models: readonly Model[];
  readonly policies: readonly Policy[];
  readonly #decider: Decider;
  readonly #settler: Settler;
  readonly #decision = createDecision();
  readonly #learner: TimingLearner;
  readonly #placed: { row: number; model: number; placement: number }[] = [];
  /** By row and model. */
  readonly #placementOf = new Map<string, number>();
  readonly #gates: HealthGate[];
  readonly #releases: Int32Array;
  readonly #polledAtMs: Float64Array;
  /** By placement: capacity that answers are charged by; NaN: the one that decisions are made on. */
  readonly #charged: Float64Array;
  readonly #draw: RandomSource;

  constructor(plan: ReplayPlan) {
    const { nodes } = plan;
    const placements = nodes.reduce((sum, { models }) => sum + models.length, 0);
    const table = createFleetTable({
      nodes: Math.max(nodes.length, Math.ceil(placements / PLACEMENTS_PER_NODE), 1),
      workers: 1,
    });
    this.table = table;
    plan.models.forEach((_, model) => {
      takeModelRow(table, model);
    });
    this.#charged = new Float64Array(placements).fill(Number.NaN);
    let next = 0;
    const columns = plan.models.map(() => ({ rows: [] as number[], placements: [] as number[] }));
    nodes.forEach((node, row) => {
      takeNodeRow(table, row, {
        family: node.family,
        identity: row,
        maxInFlight: node.maxInFlight,
        cooldownMs: COOLDOWN_MS,
        cooldownMaxMs: COOLDOWN_MAX_MS,
        priceUsdPerHour: node.usdPerHour,
      });
      table.concurrencyLimit[row] = node.concurrencyLimit;
      for (const { model, kvCapacityTokens, contextTokens, tokensPerSecond, chargedTokensPerSecond } of node.models) {
        const placement = next++;
        this.#charged[placement] = chargedTokensPerSecond;
        takePlacementRow(table, placement);
        table.kvCapacityTokens[placement] = kvCapacityTokens;
        table.measuredTokensPerSecond[placement] = tokensPerSecond;
        writeCapabilities(table, placement, { contextTokens, readsImages: null, endpoints: null });
        this.#placed.push({ row, model, placement });
        this.#placementOf.set(`${row} ${model}`, placement);
        columns[model]?.rows.push(row);
        columns[model]?.placements.push(placement);
      }
    });
    const directory = createDirectory();
    applyUpdate(directory, {
      version: 1,
      families: plan.families,
      accounts: plan.accounts.map((name, index) => ({
        name,
        index,
        defaultPolicy: null,
        isCatalogComplete: true,
        // every request names its policy
        builtIn: { ...(plan.policies[0] as Policy), account: name, index: plan.policies.length + index },
      })),
      policies: plan.policies.map((policy, index) => ({ ...policy, index })),
      models: plan.models.map(({ account, name }, index) => {
        const { rows, placements: cells } = columns[index] as (typeof columns)[number];
        return {
          ...{ account, name, index, policy: null, isRegistered: true },
          rows: Int32Array.from(rows),
          placements: Int32Array.from(cells),
          families: Int32Array.from(rows, (row) => nodes[row]?.family ?? -1),
        };
      }),
    });
    this.models = plan.models.map((_, index) => directory.modelsByIndex.get(index) as Model);
    this.policies = plan.policies.map((_, index) => directory.policiesByIndex.get(index) as Policy);
    this.#decider = { table, worker: 0, directory, estimator: simpleEstimator, prefixes: null };
    const { maxAttempts, windowMs, retryBudget } = plan.failover;
    this.#settler = {
      table,
      worker: 0,
      limits: { maxAttempts, windowMs },
      budget: createRetryBudget(retryBudget, 1),
    };
    this.#learner = new TimingLearner(table);
    this.#gates = nodes.map(() => FRESH_GATE);
    this.#releases = new Int32Array(nodes.length);
    this.#polledAtMs = new Float64Array(nodes.length);
    this.#draw = seededRandom(plan.seed + 1);
  }

  /** What was learned before the window began. */
  learn(lessons: readonly Lesson[], outputTokens: readonly number[]): void {
    const { table } = this;
    for (const [index, lesson] of lessons.entries()) {
      const { row, model, meanDepth, meanCachedTokens, depth, atMs } = lesson;
      const placement = this.#placementOf.get(`${row} ${model}`);
      if (placement === undefined) continue;
      const expected = outputTokens[model] ?? lesson.outputTokens;
      // bookings count whole outputs, of which half stand in memory on the way
      const kvTokens = meanCachedTokens + (meanDepth * expected) / 2;
      const timing = {
        ...{ depth, own: depth, aheadTokens: lesson.aheadTokens, plainTokens: 0 },
        kvTokens: depth > 0 ? (kvTokens * depth) / meanDepth : 0,
        ...{ firstMs: lesson.predictedFirstMs, tokenMs: lesson.predictedTokenMs, outputTokens: expected },
        ...{ meanDepth, meanKvTokens: kvTokens, prefilledTokens: lesson.prefilledTokens },
        ...{ isPromptOnly: false, bookedPromptTokens: lesson.promptTokens },
        ...{ freshTokens: lesson.promptTokens, warmTokens: 0, promisedMs: Number.NaN },
      };
      const { promptTokens, firstTokenMs, durationMs } = lesson;
      const seen = { promptTokens, outputTokens: lesson.outputTokens, firstTokenMs, durationMs };
      applySamples(table, [{ row, placement, model, ...seen, atMs, outcome: "success", timing }], this.#learner);
      // as polls did: what is off is told against what was known then, and not against what nobody knew
      if ((index + 1) % LESSONS_PER_REFRESH === 0) this.#learner.refresh(this.#placed, atMs);
    }
  }

  admit(call: {
    readonly model: number;
    readonly policy: number;
    readonly endpoint: number;
    readonly isStream: boolean;
    readonly hasImages: boolean;
    readonly answers: number;
    readonly hint: number;
    readonly promptTokens: number;
    readonly promptTokensAtLeast: number;
    readonly maxTokens: number;
    readonly nowMs: number;
  }): RouteRequest {
    const model = this.models[call.model] as Model;
    noteRequest(this.#settler.budget, call.nowMs);
    return createRouteRequest({
      account: model.account,
      model,
      policy: this.policies[call.policy] as Policy,
      policySource: "call",
      hintFamily: call.hint,
      endpoint: call.endpoint,
      isStream: call.isStream,
      promptTokens: call.promptTokens,
      maxTokens: call.maxTokens,
      answers: call.answers,
      promptTokensAtLeast: call.promptTokensAtLeast,
      hasImages: call.hasImages,
      admittedAtMs: call.nowMs,
    });
  }

  /** Steps 2 to 4. Null: no node can take it now; "wait": its policy lets it wait for room. */
  choose(request: RouteRequest, nowMs: number, waitedMs: number): Placed | "wait" | null {
    const decision = this.#decision;
    const booking = decide(this.#decider, request, nowMs, this.#draw(), decision);
    if (booking === null) return mayPark(request, decision, waitedMs) ? "wait" : null;
    request.dispatches += 1;
    const { row, placement } = decision;
    return {
      row,
      placement,
      attempt: {
        booking,
        placement,
        endpoint: request.endpoint,
        trial: { ...decision.trial },
        sentAtMs: nowMs,
        isFreshConnection: false,
        isJudged: false,
      },
    };
  }

  /** Puts a request onto a node, whatever the engine would choose among all. Null: the node does not take it. O(nodes). */
  place(request: RouteRequest, row: number, nowMs: number): Placed | null {
    const { isDraining } = this.table;
    if (!(row >= 0) || isDraining[row] === 1) return null;
    // decided as if no other node were in service, so that it is promised what it was promised then
    const draining = isDraining.slice();
    isDraining.fill(1);
    isDraining[row] = 0;
    const placed = this.choose(request, nowMs, 0);
    isDraining.set(draining);
    return placed === "wait" ? null : placed;
  }

  firstToken({ attempt }: Placed, nowMs: number): void {
    noteFirstToken(this.table, 0, attempt.booking, nowMs);
    noteCommit(this.#settler, attempt, attempt.sentAtMs);
  }

  /** Step 5, and what the attempt taught unless it was taught already. `usd` is what it cost. */
  end(
    request: RouteRequest,
    placed: Placed,
    end: AttemptEnd,
    seen: { readonly outputTokens: number; readonly promptTokens: number; readonly firstTokenMs: number },
    nowMs: number,
    isLesson: boolean,
  ): { outcome: Outcome; move: Move; usd: number } {
    const { attempt, row, placement } = placed;
    const { outcome, move } = settle(this.#settler, request, attempt, end, nowMs);
    const isPrompt = isPromptOnly(request.endpoint);
    const model = request.model.index;
    const timing = timingOf(attempt.booking, isPrompt);
    const durationMs = nowMs - attempt.sentAtMs;
    if (isLesson) {
      const sample = { row, placement, model, ...seen, durationMs, atMs: nowMs, outcome, timing };
      applySamples(this.table, [sample], this.#learner);
    }
    const tokens = isPrompt ? request.promptTokens : seen.outputTokens;
    const usd = tokens > 0 ? this.#usdOf(row, placement, tokens) : 0;
    return { outcome, move, usd: Number.isNaN(usd) ? 0 : usd };
  }

  /** By the capacity that answers are charged by. */
  #usdOf(row: number, placement: number, tokens: number): number {
    const charged = this.#charged[placement] as number;
    const tokensPerSecond = charged > 0 ? charged : (this.table.tokensPerSecond[placement] as number);
    return usdOf(this.table.priceUsdPerHour[row] as number, tokens, tokensPerSecond);
  }

  /** A poll of a node. `reading` null: it refused. */
  poll(
    row: number,
    reading: { readonly running: number; readonly waiting: number; readonly kvUse: number } | null,
    nowMs: number,
  ): void {
    const { table } = this;
    const gate = this.#gates[row] as HealthGate;
    const intervalMs = nowMs - (this.#polledAtMs[row] as number);
    const releases = Atomics.load(table.releases, row);
    const count = releases - (this.#releases[row] as number);
    this.#releases[row] = releases;
    this.#polledAtMs[row] = nowMs;
    if (reading === null) {
      const failed = { startMs: nowMs, isRefused: true, lastTrafficAtMs: table.lastSuccessAtMs[row] as number };
      this.#gates[row] = afterFailedPoll(gate, failed, UNHEALTHY_AFTER);
    } else this.#gates[row] = afterGoodPoll(gate, 1);
    const isOut = (this.#gates[row] as HealthGate).isOut ? 1 : 0;
    publish(table, () => {
      table.isUnhealthy[row] = isOut;
      if (reading !== null) {
        table.goodPolls[row] = (table.goodPolls[row] as number) + 1;
        table.polledAtMs[row] = nowMs;
        table.kvUse[row] = reading.kvUse;
        writeLoad(table, row, reading, { ownAtScrape: table.total.inFlight[row] as number, elsewhereAtScrape: 0 });
      }
      writeDrain(table, row, { count, intervalMs });
    });
  }

  refresh(nowMs: number): void {
    refreshSpeeds(this.table, this.#placed);
    this.#learner.refresh(this.#placed, nowMs);
  }

  setPrice(row: number, usdPerHour: number): void {
    this.table.priceUsdPerHour[row] = usdPerHour;
  }

  /** Capacity of a model on a node, tokens/s; holds until it is set again. */
  setSpeed(row: number, model: number, tokensPerSecond: number): void {
    const placement = this.#placementOf.get(`${row} ${model}`);
    if (placement === undefined) return;
    this.table.measuredTokensPerSecond[placement] = tokensPerSecond;
    this.table.tokensPerSecond[placement] = tokensPerSecond;
  }

  /** Capacity that answers of a model on a node are charged by, tokens/s; holds until it is set again. */
  setCharge(row: number, model: number, tokensPerSecond: number): void {
    const placement = this.#placementOf.get(`${row} ${model}`);
    if (placement !== undefined) this.#charged[placement] = tokensPerSecond;
  }

  setDraining(row: number, isDraining: boolean): void {
    this.table.isDraining[row] = isDraining ? 1 : 0;
  }

  /** Mean outputs and prompts of a model, as they were learned before the window began. */
  setMeans(model: number, means: { outputTokens: number; promptTokens: number; promptRatio: number }): void {
    if (means.outputTokens > 0) this.table.meanOutputTokens[model] = means.outputTokens;
    if (means.promptTokens > 0) this.table.meanPromptTokens[model] = means.promptTokens;
    if (means.promptRatio > 0) this.table.promptRatio[model] = means.promptRatio;
  }
}
