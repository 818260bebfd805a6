/** Dollars as counters, by account, policy, family and model. */

import type { NameRegistry } from "../control/name-registry.ts";
import type { MetricFamily, MetricSample } from "./metric-family.ts";
import { MONEY_AT, MONEY_OTHER, MONEY_WIDTH, type MoneyColumn, type MoneySubject } from "./money-ledger.ts";

const OTHER_NAME = "other";

export interface MoneyMetricsSources {
  readonly subjects: readonly MoneySubject[];
  readonly values: Float64Array;
  readonly names: NameRegistry;
  /** Lines that get series of their own: those that came first, so that no counter ever sinks. */
  readonly seriesMax: number;
}

/** @returns families for the exposition. O(lines). */
export function moneyMetrics({ subjects, values, names, seriesMax }: MoneyMetricsSources): MetricFamily[] {
  const own = subjects.slice(0, seriesMax).filter((subject) => subject !== MONEY_OTHER).length;
  const labels = subjects.slice(0, own).map((subject) => labelsOf(subject, names));
  const samples = (column: MoneyColumn, more?: Readonly<Record<string, string>>): MetricSample[] => {
    const at = MONEY_AT[column];
    const sample = (of: Labels, value: number) => ({ labels: more === undefined ? of : { ...of, ...more }, value });
    const found = labels.map((of, line) => sample(of, values[line * MONEY_WIDTH + at] as number));
    let rest = 0;
    for (let line = own; line < subjects.length; line++) rest += values[line * MONEY_WIDTH + at] as number;
    return subjects.length > own ? [...found, sample(REST, rest)] : found;
  };
  const some = (found: readonly MetricSample[]) => found.filter(({ value }) => value > 0);
  const counter = (name: string, help: string, found: readonly MetricSample[]): MetricFamily => ({
    name,
    help,
    type: "counter",
    values: found,
  });
  return [
    counter("zml_cost_usd_total", "Dollars of node time that attempts took, by what became of them.", [
      ...samples("deliveredUsd", { outcome: "delivered" }),
      ...some(samples("failedUsd", { outcome: "failed" })),
      ...some(samples("cancelledUsd", { outcome: "cancelled" })),
    ]),
    counter(
      "zml_cost_compared_usd_total",
      "Of these dollars, those of requests whose baseline is known.",
      samples("comparedUsd"),
    ),
    counter(
      "zml_cost_baseline_usd_total",
      "What the same requests would have cost on the first family of their policy, at its price then.",
      samples("baselineUsd"),
    ),
    counter("zml_cost_tokens_total", "Tokens of the answers that these dollars bought.", [
      ...samples("inputTokens", { gen_ai_token_type: "input" }),
      ...samples("outputTokens", { gen_ai_token_type: "output" }),
    ]),
    counter(
      "zml_cost_unpriced_answers_total",
      "Answers of nodes whose price is unknown: they are in no dollars.",
      samples("unpricedAnswers"),
    ),
  ];
}

type Labels = MetricSample["labels"];

const REST: Labels = { account: OTHER_NAME, policy: OTHER_NAME, family: OTHER_NAME, gen_ai_request_model: OTHER_NAME };

function labelsOf({ policy, model, family }: MoneySubject, names: NameRegistry): Labels {
  const asked = names.models.nameOf(model);
  return {
    account: asked?.scope ?? "",
    policy: names.policies.nameOf(policy)?.name ?? "",
    family: names.families.nameOf(family)?.name ?? "",
    gen_ai_request_model: asked?.name ?? "",
  };
}
