/** The generated part of docs/clients.md: what was run, with which version, and how it ended. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PINS } from "./environments.ts";
import type { CaseResult, Program, ProgramResult } from "./programs.ts";

export const PAGE = join(import.meta.dirname, "..", "..", "..", "..", "docs", "clients.md");
const BEGIN = "<!-- generated: npm run test:clients -->";
const END = "<!-- end of what is generated -->";

const ENGINES = {
  vllm: "fake vLLM",
  llamacpp: "fake llama.cpp",
  real: "real llama.cpp",
  fault: "a node that fails on command",
} as const;

/** The page with its generated part replaced. @throws Error when the page lacks the marks */
export function withReport(page: string, results: readonly ProgramResult[]): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`the page needs the lines ${BEGIN} and ${END}`);
  return `${page.slice(0, begin + BEGIN.length)}\n\n${render(results)}\n\n${page.slice(end)}`;
}

/** A row of the table. */
export interface Row {
  readonly client: string;
  readonly version: string;
  readonly result: string;
}

/** The rows that the page has. */
export function rowsOf(page: string): Row[] {
  const part = page.slice(page.indexOf(BEGIN), page.indexOf(END));
  const rows = [...part.matchAll(/^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$/gm)].slice(1);
  return rows.map(([, client = "", version = "", result = ""]) => ({ client, version, result }));
}

export function resultOf(cases: readonly CaseResult[]): string {
  return `${cases.filter(({ problem }) => problem === null).length} of ${cases.length} passed`;
}

/** Version that a pin file names; null: the client is the system's. */
export function pinnedVersion({ setting, pinned }: Program): string | null {
  if (pinned === null) return null;
  const read = (path: string): string => readFileSync(path, "utf8");
  switch (setting) {
    case "repository": {
      const root = join(PINS, "..", "..", "..", "..", "..", "package.json");
      return (JSON.parse(read(root)) as { devDependencies: Record<string, string> }).devDependencies[pinned] ?? "";
    }
    case "npm":
      return (
        (JSON.parse(read(join(PINS, "package.json"))) as { dependencies: Record<string, string> }).dependencies[
          pinned
        ] ?? ""
      );
    default: {
      const file = setting === "python" ? "requirements.txt" : setting.replace("python", "requirements").concat(".txt");
      const line = read(join(PINS, file))
        .split("\n")
        .find((one) => one.startsWith(`${pinned}==`));
      return line?.slice(pinned.length + 2) ?? "";
    }
  }
}

function render(results: readonly ProgramResult[]): string {
  const rows = results.map(
    ({ client, version, cases, program }) => `| ${client} | ${version} | ${resultOf(cases)} | ${program.routing} |`,
  );
  const table = ["| client | version | result | how routing is reached |", "|---|---|---|---|", ...rows].join("\n");
  return `${table}\n\nWhat was run:\n\n${results.map(casesOf).join("\n\n")}`;
}

function casesOf({ client, cases }: ProgramResult): string {
  const engines = new Map<string, string[]>();
  for (const { name, engine, problem } of cases) {
    const place = `${ENGINES[engine]}${problem === null ? "" : " (failed)"}`;
    engines.set(name, [...(engines.get(name) ?? []), place]);
  }
  const lines = [...engines].map(([name, places]) => `- ${name}: ${places.join(", ")}`);
  return `<details><summary>${client}</summary>\n\n${lines.join("\n")}\n\n</details>`;
}
