/**
 * What the sections of a run measured, kept as each ends: a run of many minutes that is broken off goes on behind the last
 * one. In `.cache/peers`, beside the installed peers.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Figure } from "../report.ts";

const FILE = fileURLToPath(new URL("../../.cache/peers/figures.json", import.meta.url));

/** What two runs have to have in common, so that one goes on where the other ended. */
export interface RunOptions {
  readonly rounds: number;
  /** Null: all. */
  readonly only: readonly string[] | null;
}

interface Kept {
  readonly options: RunOptions;
  readonly sections: Record<string, { readonly figures: readonly Figure[]; readonly loadAverage: number }>;
}

export class KeptFigures {
  readonly #kept: Kept;

  /** @param isResumed what a run with these options measured is taken over; else it is forgotten with the first section. */
  constructor(options: RunOptions, isResumed: boolean) {
    const old = isResumed ? read() : null;
    const isSame = old !== null && JSON.stringify(old.options) === JSON.stringify(options);
    this.#kept = isSame ? old : { options, sections: {} };
  }

  has(section: string): boolean {
    return Object.hasOwn(this.#kept.sections, section);
  }

  keep(section: string, figures: readonly Figure[]): void {
    this.#kept.sections[section] = { figures, loadAverage: loadavg()[0] ?? Number.NaN };
    mkdirSync(dirname(FILE), { recursive: true });
    writeFileSync(FILE, JSON.stringify(this.#kept));
  }

  all(): Figure[] {
    return Object.values(this.#kept.sections).flatMap(({ figures }) => figures);
  }

  /** Of the last minute, as each section ended: a run of its own makes 2 of it. */
  loadAverages(): number[] {
    return Object.values(this.#kept.sections).map(({ loadAverage }) => loadAverage);
  }
}

function read(): Kept | null {
  try {
    return JSON.parse(readFileSync(FILE, "utf8")) as Kept;
  } catch {
    return null;
  }
}
