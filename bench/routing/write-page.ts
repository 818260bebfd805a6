/** Writes docs/benchmarks/routing.md's numbers and plots anew, from the outcome that stands beside it. */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type FidelityOutcome, fidelityParts, fidelityVerdicts } from "./fidelity-page.ts";
import type { Outcome } from "./outcome.ts";
import { partsOf, plotsOf, renewed } from "./page.ts";

const FOLDER = fileURLToPath(new URL("../../docs/benchmarks/", import.meta.url));

/** Keeps an outcome, and writes the page from it. */
export function writeOutcome(outcome: Outcome): void {
  writeFileSync(join(FOLDER, "routing.json"), jsonOf(outcome));
  writePage();
}

/** Keeps an outcome of `bench:fidelity`, and writes the page from it. A half that was not run stays as it was. */
export function writeFidelity(outcome: FidelityOutcome): void {
  const before = read<FidelityOutcome>("routing-fidelity.json");
  const rows = outcome.rows.length > 0 ? outcome.rows : (before?.rows ?? []);
  const real = outcome.real ?? before?.real ?? null;
  writeFileSync(join(FOLDER, "routing-fidelity.json"), jsonOf({ ...outcome, rows, real }));
  writePage();
}

function writePage(): void {
  for (const [name, text] of Object.entries(renderedPage())) writeFileSync(join(FOLDER, name), text);
}

function read<Kept>(name: string): Kept | null {
  const text = standingPage(name);
  return text === null ? null : (JSON.parse(text) as Kept);
}

/** Files of the page by name, as they should be by the outcome that is kept. */
export function renderedPage(): Readonly<Record<string, string>> {
  const outcome = read<Outcome>("routing.json");
  const fidelity = read<FidelityOutcome>("routing-fidelity.json");
  const page = readFileSync(join(FOLDER, "routing.md"), "utf8");
  const parts = {
    ...(outcome === null ? {} : partsOf(outcome, fidelityVerdicts(fidelity))),
    ...(fidelity === null ? {} : fidelityParts(fidelity)),
  };
  return { "routing.md": renewed(page, parts), ...(outcome === null ? {} : plotsOf(outcome)) };
}

/** A file of the page as it stands; null: it is not there. */
export function standingPage(name: string): string | null {
  const path = join(FOLDER, name);
  return existsSync(path) ? readFileSync(path, "utf8") : null;
}

/** One line per entry of a list, so that a change shows where it is. */
function jsonOf(outcome: Outcome | FidelityOutcome): string {
  const members = Object.entries(outcome).map(([name, value]) => {
    if (!Array.isArray(value)) return `${JSON.stringify(name)}: ${JSON.stringify(value)}`;
    return `${JSON.stringify(name)}: [\n${value.map((entry) => JSON.stringify(entry)).join(",\n")}\n]`;
  });
  return `{\n${members.join(",\n")}\n}\n`;
}
