/**
 * What a client costs an application per call and per streamed event, in Python (blocking and asyncio) and Node: raw
 * httpx or fetch, ours, and the `openai` client take turns in one process, against a server of its own process that
 * answers with bytes that are ready. Raw is what an application without a client would write: it posts JSON, parses the
 * answer, and for a stream cuts the bytes at blank lines and parses each event.
 *
 * An `event` comes with many others in one read, a `paced_event` alone, a millisecond after the last.
 *
 * - `cpu_us`: user and system time of the whole application per call or event; `wall_us` beside it.
 * - `overhead_us`: that CPU time less raw's of the same round, in the median.
 * - `overhead_ratio_to_openai`: our overhead over that of `openai`; `cpu_ratio_to_openai`: the same of the whole time.
 *
 * `--quick` takes a few rounds, so that a change can be tried in some seconds.
 */

import { measureClients, type Runtime, type Unit } from "./clients/measure-clients.ts";
import { type Figure, isJsonAsked, report } from "./report.ts";

const args = process.argv.slice(2);
const json = isJsonAsked(args);
const plan = args.includes("--quick")
  ? { pythonRounds: 8, nodeRounds: 24, pacedRounds: 0, calls: 20, events: 500, imports: 3, deadlineMs: 60_000 }
  : { pythonRounds: 24, nodeRounds: 60, pacedRounds: 12, calls: 40, events: 500, imports: 21, deadlineMs: 240_000 };
const { costs, importMs } = await measureClients(plan, (text) => json || process.stderr.write(`${text}\n`));

const figures: Figure[] = [];
for (const runtime of Object.keys(costs) as Runtime[]) {
  for (const what of Object.keys(costs[runtime]) as Unit[]) {
    const { raw, zml, openai } = costs[runtime][what];
    if (Number.isNaN(raw.cpuUs)) continue;
    for (const [client, cost] of Object.entries({ raw, zml, openai })) {
      const labels = `{runtime=${runtime},client=${client}}`;
      figures.push({ name: `${what}_cpu_us${labels}`, value: cost.cpuUs, unit: "µs" });
      figures.push({ name: `${what}_wall_us${labels}`, value: cost.wallUs, unit: "µs" });
      if (client !== "raw") figures.push({ name: `${what}_overhead_us${labels}`, value: cost.overheadUs, unit: "µs" });
    }
    const labels = `{runtime=${runtime}}`;
    const overhead = zml.overheadUs / openai.overheadUs;
    figures.push({ name: `${what}_overhead_ratio_to_openai${labels}`, value: overhead, unit: "ratio" });
    figures.push({ name: `${what}_cpu_ratio_to_openai${labels}`, value: zml.cpuUs / openai.cpuUs, unit: "ratio" });
  }
}
figures.push(
  { name: "import_cpu_ms{module=httpx}", value: importMs.httpx, unit: "ms" },
  { name: "import_cpu_ms{module=zml}", value: importMs.zml, unit: "ms" },
  { name: "import_ratio_to_httpx", value: importMs.zml / importMs.httpx, unit: "ratio" },
);
report({ bench: "clients", figures, json });
