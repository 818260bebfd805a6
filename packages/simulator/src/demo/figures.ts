import type { Outage } from "./outage.ts";
import type { Statistics } from "./statistics.ts";

/** One number of the summary, in the shape of every bench. */
export type Figure = { readonly name: string; readonly value: number; readonly unit: string };

export type FiguresInput = {
  readonly statistics: Statistics;
  readonly outage: Outage | undefined;
  readonly seconds: number;
  readonly openAtEnd: number;
  readonly firstOutputMs: number;
  readonly readyMs: number;
};

/** The figures of one run; unknown is NaN (`null` in JSON). */
export function figuresOf({ statistics, outage, seconds, openAtEnd, firstOutputMs, readyMs }: FiguresInput): Figure[] {
  const figures: Figure[] = [
    { name: "requests", value: statistics.ended, unit: "requests" },
    { name: "failed", value: statistics.failed, unit: "requests" },
    { name: "redispatched", value: statistics.redispatched, unit: "dispatches" },
  ];
  for (const [policy, one] of statistics.policies) {
    const label = `{policy=${policy}}`;
    figures.push(
      { name: `attainment${label}`, value: one.attainment, unit: "share" },
      { name: `p50_ms${label}`, value: one.durationMs(0.5), unit: "ms" },
      { name: `p95_ms${label}`, value: one.durationMs(0.95), unit: "ms" },
      { name: `usd_per_million_tokens${label}`, value: one.usdPerMillionTokens, unit: "USD" },
    );
    const answers = [...one.families.values()].reduce((sum, count) => sum + count, 0);
    for (const [family, count] of one.families) {
      figures.push({ name: `answers{policy=${policy},family=${family}}`, value: count / answers, unit: "share" });
    }
  }
  const { killedAtMs = NaN, startedAtMs = NaN, servedAtMs = NaN } = outage ?? {};
  figures.push(
    { name: "seconds_until_killed_node_served_again", value: (servedAtMs - startedAtMs) / 1000, unit: "s" },
    { name: "seconds_from_kill_until_served_again", value: (servedAtMs - killedAtMs) / 1000, unit: "s" },
    { name: "first_output_s", value: firstOutputMs / 1000, unit: "s" },
    { name: "first_request_s", value: readyMs / 1000, unit: "s" },
    { name: "run_s", value: seconds, unit: "s" },
    { name: "open_at_end", value: openAtEnd, unit: "requests" },
  );
  return figures;
}
