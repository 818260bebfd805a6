/** Targets of policies by the index that requests are reported with. */

import type { CompiledDirectory } from "../control/compile-directory.ts";

export class PolicyTargets {
  readonly #directory: () => CompiledDirectory;
  #of: CompiledDirectory | null = null;
  #targetsMs = new Map<number, number>();

  /** @param directory the one in force; another object when anything changed. */
  constructor(directory: () => CompiledDirectory) {
    this.#directory = directory;
  }

  /** Target for the whole response, ms; NaN: the policy has none, or is gone. */
  latencyTargetMs(policy: number): number {
    const directory = this.#directory();
    if (directory !== this.#of) {
      this.#of = directory;
      this.#targetsMs = new Map(Array.from(directory.policies.values(), (data) => [data.index, data.latencyTargetMs]));
    }
    return this.#targetsMs.get(policy) ?? Number.NaN;
  }
}
