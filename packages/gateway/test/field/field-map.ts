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

/** README.md with the table as it should be. */
export function readmeWithTable(): string {
  const text = readFileSync(README, "utf8");
  return text.slice(0, text.indexOf(START) + START.length) + renderTable();
}

/** README.md as it is. */
export function readme(): string {
  return readFileSync(README, "utf8");
}

function renderTable(): string {
  const tests = testsOfCases();
  const rows = Object.entries(FIELD_CASES).map(([id, [claim, note = {}]]) => {
    const mine = tests.filter((test) => test.id === id);
    const where = mine.map(({ file, title }) => `${shortOf(file)}: ${title.replaceAll("|", "\\|")}`).join("<br>");
    const isHere = mine.some(({ file }) => file.startsWith(FIELD));
    const isElsewhere = mine.some(({ file }) => !file.startsWith(FIELD));
    const state = [
      ...(isHere ? ["tested here"] : []),
      ...(isElsewhere ? [isHere ? "and elsewhere" : "tested elsewhere"] : []),
      ...(note.owner === undefined ? [] : [`owned by ${note.owner}`]),
      ...(note.open === undefined ? [] : [`open: ${note.open}`]),
    ];
    return `| ${id} | ${claim} | ${where === "" ? "–" : where} | ${state.join("; ")} |\n`;
  });
  return `\n| case | claim | tests | state |\n|---|---|---|---|\n${rows.join("")}`;
}

function shortOf(file: string): string {
  return relative("gateway/test", file).startsWith("..") ? file : relative("gateway/test", file);
}

if (process.argv[1] === import.meta.filename) writeFileSync(README, readmeWithTable());
