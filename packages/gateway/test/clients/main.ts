// `npm run test:clients [-- FILTER]`: plays every client through a gateway and renews the report in docs/clients.md.
// A filter is a part of a program's file name; a filtered run leaves the report as it is.
import { readFileSync, writeFileSync } from "node:fs";
import { install } from "./environments.ts";
import { PROGRAMS, type ProgramResult, play } from "./programs.ts";
import { PAGE, resultOf, withReport } from "./report.ts";
import { startStage } from "./stage.ts";

const filters = process.argv.slice(2);
const chosen = PROGRAMS.filter(({ file }) => filters.length === 0 || filters.some((filter) => file.includes(filter)));
const say = (line: string) => process.stderr.write(`${line}\n`);

const ends: (() => unknown)[] = [];
let failed = chosen.length === 0;
if (failed) say(`no client matches ${filters.join(" ")}: they are ${PROGRAMS.map(({ file }) => file).join(", ")}`);
else {
  try {
    const installed = await install(say);
    const stage = await startStage({ after: (end) => ends.push(end) }, { hasRealEngine: true });
    const results: ProgramResult[] = [];
    for (const program of chosen) {
      const result = await play(program, stage, installed);
      results.push(result);
      tell(result);
    }
    if (filters.length === 0) writeFileSync(PAGE, withReport(readFileSync(PAGE, "utf8"), results));
    failed = results.some(({ trouble, cases }) => trouble !== null || cases.some(({ problem }) => problem !== null));
    const all = results.flatMap(({ cases }) => cases);
    const passed = all.filter(({ problem }) => problem === null).length;
    process.stdout.write(`${passed} passed, ${all.length - passed + results.filter((r) => r.trouble).length} failed\n`);
  } finally {
    for (const end of ends.reverse()) await end();
  }
}
process.exitCode = failed ? 1 : 0;

function tell({ client, version, cases, trouble }: ProgramResult): void {
  say(`${client} ${version}: ${resultOf(cases)}`);
  if (trouble !== null) say(trouble);
  for (const { name, engine, problem } of cases) if (problem !== null) say(`✖ ${name} (${engine})\n${problem}`);
}
