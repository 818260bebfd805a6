/** The parts of the page that `bench:fidelity` fills. */

import { errorsOf, type FidelityRow, orderOf } from "../fidelity/against-fakes.ts";
import type { RealOutcome } from "../fidelity/against-llama.ts";
import { median } from "../report.ts";
import type { Verdict } from "./goals.ts";
import type { Outcome } from "./outcome.ts";

export interface FidelityOutcome {
  readonly machine: Outcome["machine"];
  readonly rows: readonly FidelityRow[];
  readonly real: RealOutcome | null;
}

/** By name; parts of what was not run are left as they are. */
export function fidelityParts({ machine, rows, real }: FidelityOutcome): Readonly<Record<string, string>> {
  return {
    ...(rows.length === 0 ? {} : { fidelity: fakesText(rows) }),
    ...(real === null ? {} : { real: realText(real, machine) }),
  };
}

/** Goals that are not of the grid. */
export function fidelityVerdicts(fidelity: FidelityOutcome | null): Verdict[] {
  const decide: Verdict = {
    goal: 11,
    asked: "a decision takes ≤ 50 µs at the P99 at 100 nodes, ≤ 500 µs at 10,000",
    measured: "by `bench:decide`: [benchmarks.md](../benchmarks.md#npm-run-benchdecide)",
    isMet: null,
  };
  if (fidelity === null || fidelity.rows.length === 0) return [decide];
  const error = median(errorsOf(fidelity.rows));
  const { pairs, kept } = orderOf(fidelity.rows);
  return [
    decide,
    {
      goal: 13,
      asked: "simulator beside sockets: median error ≤ 9 %",
      measured: `${(100 * error).toFixed(1)} %`,
      isMet: error <= 0.09,
    },
    {
      goal: 13,
      asked: "the same order of policies",
      measured: `${kept} of ${pairs} pairs`,
      isMet: kept === pairs,
    },
  ];
}

function fakesText(rows: readonly FidelityRow[]): string {
  const pair = (a: number, b: number) => `${a.toFixed(0)} / ${b.toFixed(0)}`;
  const lines = rows.map(({ policy, sockets, simulated }) => [
    policy,
    `${(100 * sockets.attainment).toFixed(1)} / ${(100 * simulated.attainment).toFixed(1)}`,
    pair(sockets.ttft_p50_ms, simulated.ttft_p50_ms),
    pair(sockets.ttft_p95_ms, simulated.ttft_p95_ms),
    pair(sockets.response_p50_ms, simulated.response_p50_ms),
    pair(sockets.response_p95_ms, simulated.response_p95_ms),
    pair(sockets.response_mean_ms, simulated.response_mean_ms),
  ]);
  const errors = errorsOf(rows);
  const { pairs, kept } = orderOf(rows);
  return [
    "Sockets / simulator:",
    "",
    "| policy | met, % | TTFT P50, ms | TTFT P95 | response P50 | response P95 | response mean |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ...lines.map((cells) => `| ${cells.join(" | ")} |`),
    "",
    `Error of these times: median ${(100 * median(errors)).toFixed(1)} %, largest ${(100 * (errors.at(-1) ?? 0)).toFixed(1)} %. ` +
      `Pairs of policies that differ by 3 % or more in their mean response on sockets: ${pairs}, in the same order in the simulator: ${kept}.`,
  ].join("\n");
}

function realText(
  { requests, rps, alone_ms: alone, prediction }: RealOutcome,
  { cpu, cores }: Outcome["machine"],
): string {
  const servers = Object.entries(alone).map(([name, ms]) => `${name} ${ms.toFixed(0)} ms`);
  const rows = (["first_token", "token_time", "response"] as const).flatMap((kind) => {
    const error = prediction?.[kind];
    if (error === undefined || error === null) return [];
    const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
    return [
      `| ${kind.replaceAll("_", " ")} | ${error.predictions} | ${percent(error.median_error)} | ${percent(error.p90_error)} | ${percent(error.covered)} |`,
    ];
  });
  return [
    `${requests} requests at ${rps.toFixed(1)}/s on ${cores} cores (${cpu}); a request alone takes: ${servers.join(", ")}.`,
    "",
    "| predicted | predictions | median error | P90 of the error | covered by P95 |",
    "| --- | ---: | ---: | ---: | ---: |",
    ...rows,
  ].join("\n");
}
