/** What one request takes of its caller's limits: from its admission, over its attempts, to its end. */

import {
  type Allowance,
  chargeCost,
  closeAllowance,
  holdCost,
  type Outcome,
  type RouteRequest,
  spendUsd,
  workedTokens,
} from "@zml/engine";
import type { Routing } from "@zml/protocol/wire";
import type { AttemptResult } from "../attempt-result.ts";
import type { DataPlane } from "../data-plane.ts";

/** Where an attempt ran. */
interface AttemptPlace {
  readonly row: number;
  readonly placement: number;
  readonly routing: Routing;
}

export class RequestMeter {
  readonly #plane: DataPlane;
  readonly #request: RouteRequest;
  readonly #allowance: Allowance;
  /** Tokens of the answer that the caller got, prompt included; 0: none. */
  #usedTokens = 0;
  /** Of the attempt that ended last: what it took of its node, USD (NaN: its price is unknown), and for how many tokens. */
  usd = Number.NaN;
  workedTokens = 0;

  constructor(plane: DataPlane, request: RouteRequest, allowance: Allowance) {
    this.#plane = plane;
    this.#request = request;
    this.#allowance = allowance;
  }

  /** An attempt begins: what it is expected to cost is held against budgets. */
  attempt(row: number, placement: number): void {
    const { table, limits, worker } = this.#plane;
    holdCost(limits, worker, this.#allowance, spendUsd(table, row, placement, this.#request.expectedTokens));
  }

  /** An attempt ended: what it used of its node is spent, whatever became of it. */
  attemptEnded(place: AttemptPlace, result: AttemptResult, outcome: Outcome): void {
    const { table, limits, worker } = this.#plane;
    const request = this.#request;
    const isAnswered = outcome === "success" || result.isCommitted;
    // whoever leaves before the end has had the node work for it: else leaving in time would be free without end
    const isLeft = outcome === "cancelled";
    const { outputTokens, firstTokenMs, durationMs } = result;
    const tokens = workedTokens(
      table,
      {
        placement: place.placement,
        endpoint: request.endpoint,
        estimatedPromptTokens: request.promptTokens,
        expectedTokens: request.expectedTokens,
        ...{ outputTokens, firstTokenMs, durationMs },
      },
      // a stream shows its first token, a whole answer none before its end
      isAnswered || (isLeft && !request.isStream),
    );
    const usd = spendUsd(table, place.row, place.placement, tokens);
    this.usd = usd;
    this.workedTokens = tokens;
    holdCost(limits, worker, this.#allowance, 0);
    chargeCost(limits, worker, this.#allowance, usd);
    if (Number.isNaN(usd) && tokens > 0) this.#plane.noteUnpriced(this.#allowance, place.routing.node ?? "");
    if (!isAnswered && !isLeft) return;
    const prompt = Number.isNaN(result.promptTokens) ? request.promptTokens : result.promptTokens;
    this.#usedTokens = prompt + (Number.isNaN(outputTokens) ? tokens : outputTokens);
  }

  /** The request is over. Called once, on every way out. */
  close(): void {
    const { limits, worker, clock } = this.#plane;
    closeAllowance(limits, worker, this.#allowance, { usedTokens: this.#usedTokens, nowMs: clock.nowMs() });
  }
}
