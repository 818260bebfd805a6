/** `zml apply` and `zml diff`: brings the objects of a file into a running gateway, after showing what would change. */

import { formatProblems, problemAt, sortProblems } from "../config/config-problem.ts";
import { readYaml, type YamlText } from "../config/yaml-text.ts";
import type { AdminProblem } from "./admin-problem.ts";
import { type AdminOptions, askAdmin, tellProblem } from "./ask-admin.ts";
import { type Change, changeLines, changeSummary, isChange } from "./changes-text.ts";
import { EXIT } from "./exit-codes.ts";
import { readInput } from "./input-file.ts";
import { hasColour, type Terminal } from "./terminal.ts";

export interface DiffOptions extends AdminOptions {
  /** `-`: standard input. */
  readonly file: string;
  /** Also delete what the API made and the file does not have. */
  readonly prune: boolean;
  readonly json: boolean;
  /** Every change, however many there are. */
  readonly full: boolean;
}

export interface ApplyOptions extends DiffOptions {
  readonly dryRun: boolean;
  /** Don't ask. */
  readonly yes: boolean;
}

/** What a dry run said, with the tag of it. */
interface Planned extends Applied {
  readonly etag: string | null;
}

interface Applied {
  readonly changes: readonly Change[];
  readonly version: number | null;
  readonly is_acknowledged: boolean;
  readonly warnings: readonly string[];
}

/** A file of 10,000 nodes is validated and applied in some seconds on a slow machine; the gateway answers within this. */
const APPLY_TIMEOUT_MS = 120_000;

/** @returns the exit code: 7 when something would change. */
export async function diff(terminal: Terminal, options: DiffOptions): Promise<number> {
  const read = await readFileOf(terminal, options.file);
  if (typeof read === "number") return read;
  const tried = await send(terminal, options, { read, isDryRun: true });
  if ("problem" in tried) return tellProblem(terminal, tried);
  const { etag: _, ...planned } = tried;
  if (options.json) terminal.out(`${JSON.stringify(planned)}\n`);
  else show(terminal, planned, options);
  return planned.changes.some(isChange) ? EXIT.differs : EXIT.ok;
}

/** @returns the exit code. */
export async function apply(terminal: Terminal, options: ApplyOptions): Promise<number> {
  const read = await readFileOf(terminal, options.file);
  if (typeof read === "number") return read;
  const tried = await send(terminal, options, { read, isDryRun: true });
  if ("problem" in tried) return tellProblem(terminal, tried);
  const { etag, ...planned } = tried;
  const hasChanges = planned.changes.some(isChange);
  if (!options.json) show(terminal, planned, options);
  if (options.dryRun || !hasChanges) {
    if (options.json) terminal.out(`${JSON.stringify({ ...planned, dry_run: options.dryRun })}\n`);
    return EXIT.ok;
  }
  if (!options.yes) {
    const answer = await terminal.ask("apply this? [y/N] ");
    if (answer === null) {
      terminal.error("zml: nobody is there to say yes, nothing was changed: --yes applies without asking\n");
      return EXIT.usage;
    }
    if (!/^y(es)?$/i.test(answer.trim())) {
      terminal.error("zml: nothing was changed\n");
      return EXIT.failed;
    }
  }
  // what was shown, or nothing: somebody else may have changed the same objects meanwhile
  const done = await send(terminal, options, { read, isDryRun: false, shown: etag });
  if ("problem" in done) return tellProblem(terminal, done);
  const { etag: _, ...applied } = done;
  if (options.json) terminal.out(`${JSON.stringify({ ...applied, dry_run: false })}\n`);
  else terminal.out(`applied as version ${applied.version ?? "?"}\n`);
  if (!options.json) for (const warning of applied.warnings) terminal.error(`warning: ${warning}\n`);
  tellUnacknowledged(terminal, applied);
  return EXIT.ok;
}

/** Says that a change is stored, and not yet in force everywhere. */
export function tellUnacknowledged(terminal: Terminal, answer: { readonly is_acknowledged?: unknown }): void {
  if (answer.is_acknowledged !== false) return;
  terminal.error("note: a serving thread has not confirmed it yet; it will: zml status tells\n");
}

interface ReadFile {
  readonly name: string;
  readonly yaml: YamlText;
}

/** The file, or the exit code after saying what is wrong with it. */
async function readFileOf(terminal: Terminal, file: string): Promise<ReadFile | number> {
  const read = await readInput(terminal, file, "-f");
  if ("problem" in read) {
    terminal.error(`${read.problem}\n`);
    return EXIT.failed;
  }
  const { name } = read;
  const yaml = readYaml(read.bytes.toString("utf8"));
  if (yaml.problems.length > 0) {
    const problems = yaml.problems.map((problem) => problemAt(name, problem, problem));
    terminal.error(`${formatProblems(sortProblems(problems))}\n`);
    return EXIT.failed;
  }
  if (typeof yaml.value !== "object" || yaml.value === null || Array.isArray(yaml.value)) {
    terminal.error(`zml: ${name} holds no objects: write them as in zml.yaml, under nodes, policies, models, …\n`);
    return EXIT.failed;
  }
  return { name, yaml };
}

async function send(
  terminal: Terminal,
  options: DiffOptions,
  { read, isDryRun, shown = null }: { read: ReadFile; isDryRun: boolean; shown?: string | null },
): Promise<Planned | AdminProblem> {
  const answer = await askAdmin(terminal, options, {
    method: "POST",
    path: "/admin/v1/apply",
    query: { dry_run: isDryRun, prune: options.prune },
    body: read.yaml.value,
    ...(shown === null ? {} : { ifMatch: shown }),
    members: ["changes"],
    timeoutMs: APPLY_TIMEOUT_MS,
  });
  // the other end is this product
  if (!("problem" in answer)) return { ...(answer.value as Applied), etag: answer.etag };
  return { ...answer, lines: answer.lines.map((line) => withPlace(line, read)) };
}

/** `policies[0].cost_priority: …` with the line of the file in front. */
function withPlace(line: string, { name, yaml }: ReadFile): string {
  const [, shown = ""] = /^([^\s:]+): /.exec(line) ?? [];
  const parts = [...shown.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([part, index]) =>
    index === undefined ? part : Number(index),
  );
  if (parts.length === 0) return line;
  const { line: row, column } = yaml.place(parts, "value");
  return `${name}:${row}:${column} ${line}`;
}

function show(terminal: Terminal, { changes, warnings }: Applied, { full }: DiffOptions): void {
  const isColoured = hasColour(terminal);
  const lines = changeLines(changes, { isColoured, limit: full ? Number.POSITIVE_INFINITY : SHOWN_MAX });
  terminal.out(`${[...lines, changeSummary(changes)].join("\n")}\n`);
  for (const warning of warnings ?? []) terminal.error(`warning: ${warning}\n`);
}

/** More changed objects than anybody reads. */
const SHOWN_MAX = 100;
