/**
 * What polling a large fleet costs, and how old the rows are that decisions read: 1,000 nodes on real sockets in other
 * processes, with metrics texts captured from real engines, 250 of them silent (half accept connections and never
 * answer, half don't even accept), one gateway of its own process that polls each every 5 s.
 *
 * - `poll_cpu_percent_of_core`: CPU time of the whole gateway process, less that of the same gateway with the same fleet
 *   when it doesn't poll.
 * - `healthy_row_age_ms`: ages of the rows of healthy nodes as the admin port tells them, ten looks in each round, in
 *   other rounds than those whose CPU time counts.
 *
 * `--quick` takes a tenth of the fleet and polls it five times as often, so that a change can be tried in some seconds;
 * its figures carry other names and have no goals.
 */

import { measureFleet } from "./fleet/measure-fleet.ts";
import { isJsonAsked, report } from "./report.ts";

const args = process.argv.slice(2);
const json = isJsonAsked(args);
const isQuick = args.includes("--quick");

const plan = isQuick
  ? { answering: 75, silent: 25, pollIntervalMs: 1_000, timeoutMs: 800, rounds: 3, warmUpMs: 4_000 }
  : { answering: 750, silent: 250, pollIntervalMs: 5_000, timeoutMs: 4_000, rounds: 3, warmUpMs: 11_000 };
const measured = await measureFleet({ ...plan, say: (text) => json || process.stderr.write(`${text}\n`) });
const labels = `{nodes=${plan.answering + plan.silent},silent=${plan.silent}}`;
report({
  bench: "fleet",
  json,
  figures: [
    { name: `poll_cpu_percent_of_core${labels}`, value: measured.pollCpuShare * 100, unit: "%" },
    { name: `healthy_row_age_p99_ms${labels}`, value: measured.ageP99Ms, unit: "ms" },
    { name: `healthy_row_age_p50_ms${labels}`, value: measured.ageP50Ms, unit: "ms" },
    { name: `healthy_row_age_max_ms${labels}`, value: measured.ageMaxMs, unit: "ms" },
    { name: `metrics_bytes_per_s${labels}`, value: measured.parsedBytesPerSecond, unit: "bytes/s" },
    { name: `poll_connections_per_s${labels}`, value: measured.connectionsPerSecond, unit: "1/s" },
    { name: `poll_cpu_us_per_round${labels}`, value: measured.cpuUsPerRound, unit: "µs" },
    { name: `control_delay_p99_ms${labels}`, value: measured.controlDelayP99Ms, unit: "ms" },
    { name: `idle_cpu_percent_of_core${labels}`, value: measured.idleCpuShare * 100, unit: "%" },
    { name: `answering_nodes_healthy_percent${labels}`, value: measured.healthyShare * 100, unit: "%" },
    { name: `silent_nodes_healthy${labels}`, value: measured.silentHealthy, unit: "nodes" },
  ],
});
