/**
 * Results of the routing bench by case and policy, on disk as lines of JSON. A file is of one state of the sources: its
 * name holds their fingerprint, so that results of another engine are never taken for this one's.
 */

import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PolicyName } from "@zml/simulator/virtual";
import type { CaseExtra } from "./case-process.ts";
import type { RoutingCase } from "./grid.ts";
import type { BoundResult, CaseResult, HindsightResult } from "./run-case.ts";

interface Line {
  readonly key: string;
  readonly result?: CaseResult;
  readonly bound?: BoundResult;
  readonly hindsight?: readonly HindsightResult[];
}

export class ResultStore {
  readonly #file: string | null;
  readonly #results = new Map<string, CaseResult>();
  readonly #bounds = new Map<string, BoundResult>();
  readonly #hindsights = new Map<string, readonly HindsightResult[]>();

  /** @param file null: nothing is kept beyond the process. */
  constructor(file: string | null) {
    this.#file = file;
    if (file === null) return;
    mkdirSync(dirname(file), { recursive: true });
    if (!existsSync(file)) return;
    for (const text of readFileSync(file, "utf8").split("\n")) {
      const line = lineOf(text);
      if (line?.result !== undefined) this.#results.set(line.key, line.result);
      if (line?.bound !== undefined) this.#bounds.set(line.key, line.bound);
      if (line?.hindsight !== undefined) this.#hindsights.set(line.key, line.hindsight);
    }
  }

  has(of: RoutingCase, policy: PolicyName): boolean {
    return this.#results.has(keyOf(of, policy));
  }

  get(of: RoutingCase, policy: PolicyName): CaseResult | undefined {
    return this.#results.get(keyOf(of, policy));
  }

  add(of: RoutingCase, result: CaseResult): void {
    const key = keyOf(of, result.policy);
    this.#results.set(key, result);
    this.#append({ key, result });
  }

  hasExtra(of: RoutingCase, extra: CaseExtra): boolean {
    const kept = extra === "bound" ? this.#bounds : this.#hindsights;
    return kept.has(keyOf(of, extra));
  }

  bound(of: RoutingCase): BoundResult | undefined {
    return this.#bounds.get(keyOf(of, "bound"));
  }

  addBound(of: RoutingCase, bound: BoundResult): void {
    const key = keyOf(of, "bound");
    this.#bounds.set(key, bound);
    this.#append({ key, bound });
  }

  hindsight(of: RoutingCase): readonly HindsightResult[] | undefined {
    return this.#hindsights.get(keyOf(of, "hindsight"));
  }

  addHindsight(of: RoutingCase, hindsight: readonly HindsightResult[]): void {
    const key = keyOf(of, "hindsight");
    this.#hindsights.set(key, hindsight);
    this.#append({ key, hindsight });
  }

  #append(line: Line): void {
    if (this.#file !== null) appendFileSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

/** The last line of a process that was killed may be cut. */
function lineOf(text: string): Line | null {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return null;
  }
}

/** Everything that the result depends on but the sources. */
function keyOf({ section: _section, axis: _axis, policies: _policies, ...of }: RoutingCase, policy: string): string {
  return JSON.stringify({ ...of, policy });
}

const FOLDERS = ["packages/engine/src", "packages/simulator/src", "packages/simulator/data"];
const KEPT = "node_modules/.cache/zml-bench-routing";

/** File for results of the sources as they are; `isFresh` forgets what it has. */
export function resultsFile(isFresh: boolean): string {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const hash = createHash("sha256");
  for (const folder of FOLDERS) {
    const names = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
    for (const name of names.sort()) {
      if (!/\.(ts|csv|jsonl)$/.test(name) || name.endsWith(".test.ts")) continue;
      hash.update(`${name}\n`).update(readFileSync(join(root, folder, name)));
    }
  }
  const file = join(root, KEPT, `${hash.digest("hex").slice(0, 16)}.jsonl`);
  if (isFresh) rmSync(file, { force: true });
  return file;
}
