/** `npm run fuzz -- [--minutes N] [--seed S] [--only KIND:INDEX] [--json]`: see fuzz.ts. */

import { parseArgs } from "node:util";
import { type CaseName, type FuzzReport, fuzz, KINDS, nameText } from "./fuzz.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string" },
    only: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const only = values.only === undefined ? undefined : caseName(values.only);
const report = await fuzz({
  seed,
  durationMs: Number(values.minutes) * 60_000,
  cutStride: 1,
  ...(only === undefined ? {} : { only }),
});
process.stdout.write(values.json ? `${JSON.stringify(report)}\n` : tableOf(report));
for (const { name, what, bytes } of report.failures) {
  process.stderr.write(
    `\n${nameText(name)}: ${what}\n  again: npm run fuzz -- --seed ${seed} --only ${nameText(name)}\n  bytes: ${JSON.stringify(bytes.toString("latin1").slice(0, 4000))}\n`,
  );
}
process.exitCode = report.failures.length + report.faults.length + report.workerCrashes === 0 ? 0 : 1;

function caseName(text: string): CaseName {
  const [kindText, index] = text.split(":");
  const kind = KINDS.find((each) => each === kindText);
  if (kind === undefined || !/^\d+$/.test(index ?? ""))
    throw new Error(`--only takes KIND:INDEX with a kind of ${KINDS.join(", ")}, got ${text}`);
  return { kind, index: Number(index) };
}

function tableOf(one: FuzzReport): string {
  const rows: [string, string | number][] = [
    ["seed", one.seed],
    ["seconds", one.seconds.toFixed(0)],
    ...KINDS.map((kind): [string, number] => [`cases: ${kind}`, one.cases[kind]]),
    ["requests that reached the recording node", one.recorded],
    ["  after their connection had closed", one.late],
    ["failures", one.failures.length],
    ["faults of the process", one.faults.length],
    ["threads that died", one.workerCrashes],
    ["in flight at the end", one.inFlightAtEnd],
    ["memory, warm to end, MiB", `${one.rssWarmMib.toFixed(0)} to ${one.rssEndMib.toFixed(0)}`],
    ["open sockets at the end", one.socketsAtEnd],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  return `${rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join("\n")}\n${one.faults.map((fault) => `fault: ${fault}\n`).join("")}`;
}
