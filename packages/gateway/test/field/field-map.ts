/** The table of README.md: each case with the tests whose titles carry its id. Run as a file, it writes the table. */

import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { FIELD_CASES } from "./field-cases.ts";

const PACKAGES = join(import.meta.dirname, "../../..");
const FIELD = "gateway/test/field/";

/** A title that carries ids, as it stands in its source: `"A01, A02: a claim"`. */
const TITLE = /(["`])((?:[A-M]\d\d)(?:, [A-M]\d\d)*): ((?:(?!\1)[^\n])+)\1/g;

/** A test, or a group of tests, that carries the id of a case. */
export interface CaseTest {
  readonly id: string;
  /** Below `packages/`. */
  readonly file: string;
  readonly title: string;
}

/** Every title of a test file that carries an id. */
export function testsOfCases(): CaseTest[] {
  const files = globSync("*/{src,test}/**/*.test.ts", {
    cwd: PACKAGES,
    exclude: (path) => path.includes("node_modules"),
  }).sort();
  return files.flatMap((file) =>
    [...readFileSync(join(PACKAGES, file), "utf8").matchAll(TITLE)].flatMap(([, , ids = "", title = ""]) =>
      ids.split(", ").map((id) => ({ id, file, title })),
    ),
  );
}

/** Files that hold tests of cases, below the root of the repository. */
export function filesOfCases(): string[] {
  return [...new Set(testsOfCases().map(({ file }) => `packages/${file}`))];
}

const README = join(import.meta.dirname, "README.md");
const START = "<!-- table -->\n";

/** A row of the table of README.md. */
export interface CaseRow {
  readonly id: string;
  readonly claim: string;
  /** As `cellOf` writes them. */
  readonly tests: readonly string[];
  readonly state: string;
}

/** The rows of the table as it stands. */
export function rowsOfReadme(): CaseRow[] {
  return readFileSync(README, "utf8")
    .split("\n")
    .filter((line) => /^\| [A-M]\d\d \|/.test(line))
    .map((line) => {
      const [id = "", claim = "", tests = "", state = ""] = line.slice(2, -2).split(" | ");
      return { id, claim, tests: tests === NONE ? [] : tests.split("<br>"), state };
    });
}

const NONE = "–";

function renderTable(): string {
  const tests = testsOfCases();
  const rows = Object.entries(FIELD_CASES).map(([id, [claim, note = {}]]) => {
    const mine = tests.filter((test) => test.id === id);
    const where = mine.map(({ file, title }) => cellOf(file, title)).join("<br>");
    const isHere = mine.some(({ file }) => file.startsWith(FIELD));
    const isElsewhere = mine.some(({ file }) => !file.startsWith(FIELD));
    const state = [
      ...(isHere ? ["tested here"] : []),
      ...(isElsewhere ? [isHere ? "and elsewhere" : "tested elsewhere"] : []),
      ...(note.owner === undefined ? [] : [`owned by ${note.owner}`]),
      ...(note.open === undefined ? [] : [`open: ${note.open}`]),
    ];
    return `| ${id} | ${claim} | ${where === "" ? NONE : where} | ${state.join("; ")} |\n`;
  });
  return `\n| case | claim | tests | state |\n|---|---|---|---|\n${rows.join("")}`;
}

/** A test as the table shows it: its file, below `packages/gateway/test` or `packages`, and its title. */
export function cellOf(file: string, title: string): string {
  const below = relative("gateway/test", file);
  return `${below.startsWith("..") ? file : below}: ${title.replaceAll("|", "/")}`;
}

if (process.argv[1] === import.meta.filename) {
  const text = readFileSync(README, "utf8");
  writeFileSync(README, text.slice(0, text.indexOf(START) + START.length) + renderTable());
}
