// node --test prints its totals before the details of what failed. Readers, human and machine, look at the end.
import { stripVTControlCharacters } from "node:util";

const totalNames = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];

/** Passes the text of the spec reporter on line by line and keeps the block of totals for the end. */
export class TotalsLast {
  readonly #print: (text: string) => void;
  #rest = "";
  #totals: string[] = [];

  constructor(print: (text: string) => void) {
    this.#print = print;
  }

  write(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#takeLine(line);
  }

  /** Prints what is left, then the remarks, then the totals. */
  end(remarks: readonly string[]): void {
    if (this.#rest !== "") this.#takeLine(this.#rest);
    this.#rest = "";
    for (const line of [...remarks, ...this.#totals]) this.#print(`${line}\n`);
  }

  #takeLine(line: string): void {
    const name = /^ℹ (\w+) [\d.]+$/.exec(stripVTControlCharacters(line))?.[1];
    const isNextTotal = name !== undefined && name === totalNames[this.#totals.length];
    if (isNextTotal) {
      this.#totals.push(line);
      return;
    }
    // A test that prints something alike, or a second block: only a complete block at the end counts as the totals.
    if (this.#totals.length > 0 && (this.#totals.length < totalNames.length || name === "tests")) {
      for (const held of this.#totals) this.#print(`${held}\n`);
      this.#totals = name === "tests" ? [line] : [];
      if (name === "tests") return;
    }
    this.#print(`${line}\n`);
  }
}
