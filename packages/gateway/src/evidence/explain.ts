/** A decision as a short text for people. Pure. */

import { type Exclusion, unreachable } from "@zml/engine";
import type { DecisionJson, FamilyJson, OutcomeJson } from "@zml/protocol/admin";

/**
 * Tells the story of a decision, a few lines, without a line break at its end.
 *
 * @param options `isHypothetical`: it was asked for, and is nobody's request.
 */
export function explainText(decision: DecisionJson, { isHypothetical = false } = {}): string {
  return [
    ...introduction(decision, isHypothetical),
    ...decision.families.map((family) => familyLine(family, decision)),
    ...asides(decision),
    ...verdict(decision),
    ...decision.earlier.map((before, index) => {
      const where = before.node === null ? `no node (${before.reason})` : `${before.node} (${before.family})`;
      const end = before.node === null ? "" : `: ${outcomeText(before.outcome)}`;
      return `before    ${index + 1}. ${where}${end}`;
    }),
    ...(decision.choice.node === null || isHypothetical ? [] : [`outcome   ${outcomeText(decision.outcome)}`]),
  ].join("\n");
}

/** Where it went and why, in one line. */
export function verdictText(decision: DecisionJson): string {
  const { choice } = decision;
  if (choice.node === null) return `no node: ${whyText(decision)}`;
  const cost = choice.cost_usd === null ? "" : `, ${usd(choice.cost_usd)}`;
  return `${choice.node} (${choice.family}): ${whyText(decision)}; estimate ${duration(choice.estimate_ms)}${cost}`;
}

function introduction(record: DecisionJson, isHypothetical: boolean): string[] {
  const { decision, decided_at, version, worker, request, policy, hint, families } = record;
  const kind = request.stream ? "a stream" : "a plain answer";
  const target = policy.latency_target_ms === null ? "no target" : `target ${duration(policy.latency_target_ms)}`;
  const lines = [
    isHypothetical
      ? `what if   decided at ${decided_at} on configuration ${version}; nothing was booked or sent`
      : `decision  ${decision} at ${decided_at} (worker ${worker}, configuration ${version})`,
    `request   ${request.model ?? "?"} of account ${request.account ?? "?"}, ${request.endpoint}, ${kind}` +
      `, about ${count(request.prompt_tokens, "prompt token")}${request.images ? " and images" : ""}` +
      (request.max_tokens === null ? "" : `, at most ${count(request.max_tokens, "output token")}`),
    `policy    ${policy.name ?? "?"}, ${SOURCES[policy.source]}: ${policy.cost_priority}, ${target}`,
  ];
  if (hint !== null) {
    lines.push(
      `hint      ${hint.family ?? "?"}: ${hint.use === "used" ? "used" : `not used, ${whyUnused(hint.family, families)}`}`,
    );
  }
  return lines;
}

function whyUnused(wished: string | null, families: readonly FamilyJson[]): string {
  const family = families.find((one) => one.family === wished);
  if (family === undefined) return "it is not in the chain";
  return family.best_node === null ? "no node of it can take the request" : "it is not good enough for the policy";
}

const SOURCES = {
  call: "named by the call",
  model: "the model's",
  account: "the account's default",
  built_in: "built in, since neither call, model nor account names one",
} as const satisfies Record<DecisionJson["policy"]["source"], string>;

function familyLine(family: FamilyJson, { policy }: DecisionJson): string {
  const mark = family.is_chosen ? "→" : " ";
  const left = Object.entries(family.excluded).map(([reason, nodes]) => `${nodes} ${EXCLUDED[reason as Exclusion]}`);
  const leftOut = left.length === 0 ? "" : `; left out: ${left.join(", ")}`;
  const head = `${mark} ${family.tier}. ${family.family}`;
  if (family.best_node === null) {
    return `${head}: ${family.nodes === 0 ? "no node serves the model" : `none of ${count(family.nodes, "node")} can take it`}${leftOut}`;
  }
  const parts = [`depth ${decimal(family.depth)}`, `estimate ${duration(family.estimate_ms)}`];
  if (family.headroom_ms !== null) {
    parts.push(
      family.headroom_ms >= 0
        ? `${duration(family.headroom_ms)} within the target`
        : `${duration(-family.headroom_ms)} beyond the target`,
    );
  }
  if (policy.cost_priority !== "latency") parts.push(family.cost_usd === null ? "price unknown" : usd(family.cost_usd));
  return `${head}: best of ${count(family.nodes, "node")} is ${family.best_node}, ${parts.join(", ")}${leftOut}`;
}

const EXCLUDED: Readonly<Record<Exclusion, string>> = {
  not_in_chain: "not in the chain",
  failed_this_request: "failed this request",
  draining: "draining",
  not_polled: "not polled yet",
  unhealthy: "unhealthy",
  cooling_down: "cooling down",
  trial_running: "with its trial running",
  backing_off: "backing off",
  misconfigured: "misconfigured",
  endpoint_unsupported: "without this endpoint",
  context_too_small: "with too small a context",
  at_capacity: "full",
  reserved_for_queue: "reserved for the queue",
  images_unsupported: "that reads no images",
  adapter_missing: "without the adapter",
};

function asides({ outside_chain, are_prices_unknown }: DecisionJson): string[] {
  const lines: string[] = [];
  if (outside_chain > 0) lines.push(`  ${count(outside_chain, "node")} of families outside the chain`);
  if (are_prices_unknown) lines.push("  no price is known, so cost weighed nothing");
  return lines;
}

function verdict(decision: DecisionJson): string[] {
  const { choice, attempt, request, families, runner_up } = decision;
  const waited = request.waited_ms !== null && request.waited_ms >= 1 ? ` after ${duration(request.waited_ms)}` : "";
  if (choice.node === null) {
    const retry =
      choice.retry_after_ms === null ? "" : `; the caller was told to wait ${duration(choice.retry_after_ms)}`;
    return [`result    no node${waited}: ${whyText(decision)}${retry}`];
  }
  const lines = [
    `result    ${choice.node} (${choice.family})${waited}, attempt ${attempt}: ${whyText(decision)}` +
      (choice.is_trial ? "; it is the trial after the node's cooldown" : ""),
    `          depth ${decimal(choice.depth)}, estimate ${duration(choice.estimate_ms)}` +
      (choice.cost_usd === null ? "" : `, ${usd(choice.cost_usd)}`) +
      `, polled ${choice.data_age_ms === null ? "never" : `${duration(choice.data_age_ms)} before`}`,
  ];
  if (choice.estimate_first_token_ms !== null && choice.target_chance !== null) {
    lines.push(
      `          predicted: first token ${duration(choice.estimate_first_token_ms)}, ` +
        `${duration(choice.estimate_token_ms)} a token, targets met with ${Math.round(100 * choice.target_chance)} %`,
    );
  }
  if (choice.warm_tokens !== null && choice.warm_tokens > 0 && choice.estimate_prompt_tokens !== null) {
    lines.push(
      `          warm: ~${thousands(choice.warm_tokens)} of ${thousands(choice.estimate_prompt_tokens)} prompt tokens in its cache` +
        `, counted as ${thousands(choice.cached_tokens ?? 0)}`,
    );
  }
  const next = families.find(({ family }) => family === runner_up);
  if (next !== undefined) lines.push(`          next was ${next.family}: ${margin(decision, next)}`);
  return lines;
}

/** By how much the winner was ahead of the family that would have come next. */
function margin({ choice, policy }: DecisionJson, next: FamilyJson): string {
  const parts: string[] = [];
  if (choice.estimate_ms !== null && next.estimate_ms !== null) {
    const slowerMs = next.estimate_ms - choice.estimate_ms;
    if (slowerMs === 0) parts.push("as fast");
    else parts.push(`${duration(Math.abs(slowerMs))} ${slowerMs > 0 ? "slower" : "faster"}`);
  }
  if (policy.cost_priority !== "latency" && choice.cost_usd !== null && next.cost_usd !== null) {
    const dearer = next.cost_usd - choice.cost_usd;
    if (dearer === 0) parts.push("at the same cost");
    else {
      const times = choice.cost_usd > 0 ? ` (×${(next.cost_usd / choice.cost_usd).toFixed(2)})` : "";
      parts.push(`${usd(Math.abs(dearer))} ${dearer > 0 ? "dearer" : "cheaper"}${times}`);
    }
  }
  return parts.length === 0 ? "nothing to compare" : parts.join(", ");
}

function whyText({ choice, policy }: DecisionJson): string {
  const { reason } = choice;
  switch (reason) {
    case "cheapest":
      return policy.latency_target_ms === null
        ? "the cheapest family, and there is no target"
        : "the cheapest family, and it meets the target";
    case "next_in_chain":
      return "the cheapest family misses the target, this is the next in the chain that meets it";
    case "best_balance":
      return "the best balance of cost and response time";
    case "first_acceptable":
      return "the first in the chain with an acceptable depth";
    case "least_estimate":
      return "no node has an acceptable depth, this one has the least estimate";
    case "target_missed":
      return "no family meets the target, this node has the least estimate";
    case "least_loaded":
      return "predictions have been wrong, so the least loaded node for its speed";
    case "exploring":
      return "now and then a request goes to a family that nobody has measured";
    case "hinted":
      return "the caller's hint";
    case "queue_saturated":
      return "every healthy node is full";
    case "no_node_available":
      return "no node is healthy";
    case "nodes_exhausted":
      return "every node that is left has failed this request";
    case "attempts_exhausted":
      return "failover.max_attempts was reached";
    case "window_exhausted":
      return "failover.window_ms after the first failure has passed";
    case "retry_budget_exhausted":
      return "the retry budget is used up";
    case "no_capable_node":
      return "every node lacks something that the request needs";
    case "refused":
      return "the request was refused before routing";
    default:
      return unreachable(reason);
  }
}

function outcomeText(outcome: OutcomeJson): string {
  if (outcome.kind === "running") return "running, or its end was not recorded";
  const parts: string[] = [outcome.kind];
  if (outcome.status !== null) parts.push(`status ${outcome.status}`);
  if (outcome.fault !== null) parts.push(outcome.fault);
  if (outcome.first_token_ms !== null) parts.push(`first token after ${duration(outcome.first_token_ms)}`);
  if (outcome.duration_ms !== null) parts.push(`ended after ${duration(outcome.duration_ms)}`);
  if (outcome.output_tokens !== null) parts.push(count(outcome.output_tokens, "output token"));
  if (outcome.cost_usd !== null && outcome.cost_usd > 0) parts.push(usd(outcome.cost_usd));
  if (outcome.cached_tokens !== null && outcome.cached_tokens > 0) {
    parts.push(`${thousands(outcome.cached_tokens)} of its prompt's from the cache`);
  }
  return parts.join(", ");
}

function duration(valueMs: number | null): string {
  if (valueMs === null) return "unknown";
  if (valueMs >= 10_000) return `${(valueMs / 1000).toFixed(1)} s`;
  return valueMs >= 10 || valueMs === 0 ? `${Math.round(valueMs)} ms` : `${Number(valueMs.toPrecision(2))} ms`;
}

function usd(value: number): string {
  return value === 0
    ? "$0"
    : `$${Number(value.toPrecision(3)).toFixed(Math.max(2, 2 - Math.floor(Math.log10(value))))}`;
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function decimal(value: number | null): string {
  return value === null ? "unknown" : String(Math.round(value * 10) / 10);
}

function count(value: number | null, what: string): string {
  if (value === null) return `an unknown number of ${what}s`;
  return `${decimal(value)} ${what}${value === 1 ? "" : "s"}`;
}
