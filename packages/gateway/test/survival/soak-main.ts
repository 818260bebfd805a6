/** `npm run soak -- [--minutes N] [--seed S] [--json]`: see soak.ts. */

import { parseArgs } from "node:util";
import { type SoakReport, soak } from "./soak.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const report = await soak({
  durationMs: Number(values.minutes) * 60_000,
  seed: Number(values.seed ?? Math.floor(Math.random() * 2 ** 31)),
  faultEveryMs: 1_000,
  callers: 40,
});
process.stdout.write(values.json ? `${JSON.stringify(report)}\n` : tableOf(report));
for (const trouble of report.troubles) process.stderr.write(`${trouble}\n`);
const isGood = report.ends.lost + report.doubleBooked + report.leakedBookings + report.troubles.length === 0;
process.exitCode = isGood && report.exitCode === 0 ? 0 : 1;

function tableOf(one: SoakReport): string {
  const rows: [string, string | number][] = [
    ["seed", one.seed],
    ["seconds", one.seconds.toFixed(0)],
    ["requests", one.requests],
    ...Object.entries(one.kinds)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, count]): [string, number] => [`  ${kind}`, count]),
    ["answered", one.ends.answered],
    ["aborted by the caller", one.ends.aborted],
    ["stream ended visibly, its node was at fault", one.ends.interrupted],
    ["went with a thread that was killed", one.ends.killed],
    ["lost", one.ends.lost],
    ["faults of nodes", one.faults],
    ["threads killed", one.threadsKilled],
    ["reloads", one.reloads],
    ["changes of the list of nodes", one.listsChanged],
    ["double-booked", one.doubleBooked],
    ["leaked bookings", one.leakedBookings],
    ["seconds without deaths of threads, warmed up", one.quietSeconds.toFixed(0)],
    ["  live heaps, MB per hour", slope(one.liveMbPerHour, one.liveMbPerHourWithin)],
    ["  memory, MB per hour", slope(one.memoryMbPerHour, one.memoryMbPerHourWithin)],
    ["memory per killed thread, MB", `${one.memoryMbPerKill.toFixed(1)} ± ${one.memoryMbPerKillWithin.toFixed(1)}`],
    ["live heaps and memory at the end, MiB", `${one.liveEndMib.toFixed(0)}, ${one.rssEndMib.toFixed(0)}`],
    ["delay of the control thread's loop, P99, ms", one.controlDelayP99Ms.toFixed(1)],
    ["answer of a probe by a worker, P99, ms", one.dataDelayP99Ms.toFixed(1)],
    ["answers, P50 and P99, ms", `${one.latencyP50Ms.toFixed(0)}, ${one.latencyP99Ms.toFixed(0)}`],
    ["open sockets at the end", one.socketsAtEnd],
    ["exit code", String(one.exitCode)],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return `${rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join("\n")}\n`;
}

function slope(mbPerHour: number, within: number): string {
  return `${mbPerHour.toFixed(0)} ± ${within.toFixed(0)}`;
}
