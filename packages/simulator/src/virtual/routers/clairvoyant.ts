/**
 * ORA-1 (§4.7 of the routing benchmark): a router that decides one request after the other like any other, and knows what
 * no router can: true output lengths, exact constants, and the nodes as they are. Its rule is the resident check: a node
 * is feasible when the request and everybody who runs there would meet their targets; of the feasible ones it takes the
 * one with the least marginal money; if there is none, the one
 * where it harms fewest.
 */

import type { NodeConstants } from "../../step-model.ts";
import type { RequestClass } from "../request-classes.ts";
import type { VirtualNode } from "../virtual-node.ts";
import type { Workload } from "../workload.ts";
import { REQUEST_OVERHEAD_MS } from "./predict.ts";
import { leastOf, type RoutedRequest, type Router, type RouterView } from "./router.ts";

/** What it knows. Rows of `constants` and `nodes` are those of the fleet. */
export interface Truth {
  readonly constants: readonly NodeConstants[];
  readonly nodes: readonly VirtualNode[];
  readonly workload: Workload;
  readonly classes: readonly RequestClass[];
}

/** Part of a target that a prediction may fill (§4.8). */
const FILL = 0.9;
const STEP_TOKEN_BUDGET = 2_048;

/** Requests in flight on one node, as sums of what is true of them. */
interface Residents {
  readonly byClass: Int32Array;
  /** Σ prompt + output ÷ 2, tokens: what they hold on average. */
  heldTokens: number;
  /** Σ prompt ÷ output: prompt tokens of others that each step brings, were every one replaced when it ends. */
  promptsPerStep: number;
}

interface Look {
  ttftMs: number;
  /** Step with the request in it. */
  tokenMs: number;
  /** Step without it. */
  beforeMs: number;
  usd: number;
}

export function clairvoyant(truth: Truth): Router {
  const { constants, classes, workload } = truth;
  const residents = constants.map((): Residents => {
    return { byClass: new Int32Array(classes.length), heldTokens: 0, promptsPerStep: 0 };
  });
  const look: Look = { ttftMs: 0, tokenMs: 0, beforeMs: 0, usd: 0 };
  const add = (row: number, request: number, sign: number) => {
    const there = residents[row] as Residents;
    const prompt = workload.promptTokens[request] as number;
    const output = workload.outputTokens[request] as number;
    const klass = workload.classes[request] as number;
    there.byClass[klass] = (there.byClass[klass] as number) + sign;
    there.heldTokens += sign * (prompt + output / 2);
    there.promptsPerStep += (sign * prompt) / output;
  };
  return {
    pick(view, request) {
      const fits = (row: number) => isFeasible(truth, request, residents[row] as Residents, look);
      let row = leastOf(view, (other) => {
        lookAt(truth, view, request, { row: other, there: residents[other] as Residents }, look);
        return fits(other) ? look.usd : Number.POSITIVE_INFINITY;
      });
      lookAt(truth, view, request, { row, there: residents[row] as Residents }, look);
      if (!fits(row)) {
        row = leastOf(view, (other) => {
          lookAt(truth, view, request, { row: other, there: residents[other] as Residents }, look);
          // among equal ones where most is lost already: spread, an overload takes every node over its target
          return harmed(truth, request, residents[other] as Residents, look) - look.tokenMs / 1e6;
        });
      }
      add(row, request.index, 1);
      return row;
    },
    noteEnd: (row, request) => add(row, request.index, -1),
  };
}

function lookAt(
  { constants, nodes, workload }: Truth,
  view: RouterView,
  request: RoutedRequest,
  { row, there }: { row: number; there: Residents },
  into: Look,
): void {
  const of = constants[row] as NodeConstants;
  const prompt = workload.promptTokens[request.index] as number;
  const output = workload.outputTokens[request.index] as number;
  const batch = (view.inFlight[row] as number) + 1;
  const uncached = prompt - view.cachedTokens(row, request.blocks);
  const ahead = view.uncachedTokens[row] as number;
  const held = Math.max(there.heldTokens, nodes[row]?.usedTokens ?? 0) + prompt + output / 2;
  const decodeMs = of.baseMs + (of.usPerSequence * batch) / 1e3 + (of.nsPerCachedToken * held) / 1e6;
  const computeMs = (of.usPerPrefillToken * (ahead + uncached)) / 1e3;
  const steps = Math.max(1, Math.ceil((ahead + uncached) / STEP_TOKEN_BUDGET));
  into.ttftMs =
    REQUEST_OVERHEAD_MS +
    (view.networkMs[row] as number) +
    (batch > 1 ? decodeMs / 2 : 0) +
    Math.max(steps * decodeMs, computeMs + (steps * (of.nsPerCachedToken * held)) / 1e6) +
    (of.nsPerSquaredPrefillToken * prompt * prompt) / 1e6;
  // what waits now is computed while the request decodes, and so is what keeps up the company
  const others = Math.max(there.promptsPerStep, ahead / output);
  into.tokenMs = decodeMs + (of.usPerPrefillToken * others) / 1e3;
  const ownMs = of.usPerSequence / 1e3 + (of.nsPerCachedToken * (prompt + output / 2)) / 1e6;
  into.beforeMs = into.tokenMs - ownMs;
  // its prompt, what it adds to each step, and its share of the empty step
  const nodeMs = (of.usPerPrefillToken * uncached) / 1e3 + output * (of.baseMs / batch + ownMs);
  into.usd = (nodeMs * (view.usdPerHour[row] as number)) / 3_600_000;
}

/** NaN, which is no target, is never exceeded. */
function isOwnMet({ workload }: Truth, request: RoutedRequest, { ttftMs, tokenMs }: Look): boolean {
  const output = workload.outputTokens[request.index] as number;
  if (ttftMs + output * tokenMs > FILL * request.responseTargetMs) return false;
  return !(ttftMs > FILL * request.ttftTargetMs) && !(tokenMs > FILL * request.tokenTargetMs);
}

function isFeasible(truth: Truth, request: RoutedRequest, there: Residents, look: Look): boolean {
  if (!isOwnMet(truth, request, look)) return false;
  return truth.classes.every(({ tokenMs }, klass) => there.byClass[klass] === 0 || !(look.tokenMs > FILL * tokenMs));
}

/** Requests that would miss their targets because of this one, itself included: who is lost anyway is not harmed. */
function harmed(truth: Truth, request: RoutedRequest, there: Residents, look: Look): number {
  let count = isOwnMet(truth, request, look) ? 0 : 1;
  for (const [klass, { tokenMs }] of truth.classes.entries()) {
    if (look.tokenMs > tokenMs && !(look.beforeMs > tokenMs)) count += there.byClass[klass] as number;
  }
  return count;
}
