import { type ConfigIssue, formatPath } from "@zml/protocol";

/** One thing that is wrong with a configuration file, and where. */
export interface ConfigProblem {
  readonly file: string;
  /** 1-based. */
  readonly line: number;
  /** 1-based. */
  readonly column: number;
  /** `nodes[2].cost.usd_per_gpu_hour`; empty when it is about the file as a whole. */
  readonly path: string;
  /** What is wrong; holds no secret. */
  readonly message: string;
  /** What to do, where the message doesn't say it. */
  readonly hint: string | null;
}

/** A place in the text; both numbers are 1-based. */
export interface TextPlace {
  readonly line: number;
  readonly column: number;
}

/** The problem that an issue is, at its place. */
export function problemAt(file: string, place: TextPlace, issue: ConfigIssue): ConfigProblem {
  return { file, ...place, path: formatPath(issue.path), message: issue.message, hint: issue.hint };
}

/** By place in the text. */
export function sortProblems(problems: readonly ConfigProblem[]): ConfigProblem[] {
  return problems.toSorted((left, right) => left.line - right.line || left.column - right.column);
}

/** Where something stands, for a sentence: a line of the file (1-based), or in words, where there is no file. */
export type PlaceName = number | string;

/** The start of a sentence about two places that say the same: `lines 3 and 9 both`. */
export function bothPlaces(first: PlaceName, second: PlaceName): string {
  if (first === second) return `${inWords(first)} has two places that`;
  const areLines = typeof first === "number" && typeof second === "number";
  return areLines ? `lines ${first} and ${second} both` : `${inWords(first)} and ${inWords(second)} both`;
}

/** `line 3`. */
export function inWords(place: PlaceName): string {
  return typeof place === "number" ? `line ${place}` : place;
}

/** One line per problem: `zml.yaml:12:5 nodes[1].url: what is wrong: what to do`. */
export function formatProblems(problems: readonly ConfigProblem[]): string {
  return problems.map(formatProblem).join("\n");
}

function formatProblem({ file, line, column, path, message, hint }: ConfigProblem): string {
  const where = path === "" ? `${file}:${line}:${column}` : `${file}:${line}:${column} ${path}`;
  return oneLine(hint === null ? `${where}: ${message}` : `${where}: ${message}: ${hint}`);
}

/** A key of the file may hold line breaks and terminal escapes; a log line may not. */
function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, "�");
}
