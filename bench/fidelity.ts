/**
 * How far the simulator and the predictor can be believed (docs/benchmarks/routing.md): the simulator beside fake serving
 * engines on real sockets, and the predictor beside real llama.cpp servers on this machine's cores.
 *
 * `--quick` is two policies for some seconds and no real servers, `--only fakes` and `--only real` are one half. `--write`
 * puts the outcome into the page.
 */

import { parseArgs } from "node:util";
import { errorsOf, type FidelityRow, measureFidelity, orderOf } from "./fidelity/against-fakes.ts";
import { measureReal, type RealOutcome } from "./fidelity/against-llama.ts";
import { type Figure, machineOf, median, report } from "./report.ts";
import { writeFidelity } from "./routing/write-page.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    only: { type: "string" },
  },
});
const say = (text: string) => process.stderr.write(`${text}\n`);
const rows =
  values.only === "real"
    ? []
    : await measureFidelity({
        policies: values.quick ? ["RR", "zml-cost"] : ["RR", "LR", "SPL", "zml-cost", "zml-latency"],
        rps: 24,
        durationS: values.quick ? 10 : 20,
        dilation: 2,
        onProgress: say,
      });
const real = values.quick || values.only === "fakes" ? null : await measureReal(400, say);
if (values.write) writeFidelity({ machine: machineOf(), rows, real });
report({ bench: "fidelity", json: values.json, figures: [...fakeFigures(rows), ...realFigures(real)] });

function fakeFigures(some: readonly FidelityRow[]): Figure[] {
  if (some.length === 0) return [];
  const errors = errorsOf(some);
  const { pairs, kept } = orderOf(some);
  return [
    ...some.flatMap(({ policy, sockets, simulated }) =>
      (Object.keys(sockets) as (keyof typeof sockets)[]).flatMap((name): Figure[] => [
        { name: `${name}{policy=${policy},side=sockets}`, value: sockets[name], unit: "" },
        { name: `${name}{policy=${policy},side=simulated}`, value: simulated[name], unit: "" },
      ]),
    ),
    { name: "simulator_error_median_percent", value: 100 * median(errors), unit: "%" },
    { name: "simulator_error_max_percent", value: 100 * (errors.at(-1) ?? Number.NaN), unit: "%" },
    { name: "policy_pairs_in_order_percent", value: pairs === 0 ? 100 : (100 * kept) / pairs, unit: "%" },
  ];
}

function realFigures(outcome: RealOutcome | null): Figure[] {
  const prediction = outcome?.prediction;
  if (prediction === undefined || prediction === null) return [];
  return (["first_token", "token_time", "response"] as const).flatMap((kind): Figure[] => {
    const error = prediction[kind];
    if (error === null) return [];
    return [
      { name: `real_prediction_median_error_percent{of=${kind}}`, value: 100 * error.median_error, unit: "%" },
      { name: `real_prediction_p90_error_percent{of=${kind}}`, value: 100 * error.p90_error, unit: "%" },
      { name: `real_prediction_covered_percent{of=${kind}}`, value: 100 * error.covered, unit: "%" },
    ];
  });
}
