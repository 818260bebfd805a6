/** Runs cases in some processes, each result kept as soon as it is there, so that a run that was ended goes on where it was. */

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { CaseExtra, CaseNews, CaseOrder } from "./case-process.ts";
import type { RoutingCase } from "./grid.ts";
import type { ResultStore } from "./result-store.ts";

export interface RunOptions {
  readonly processes: number;
  /** No case is begun after so long. */
  readonly budgetMs: number;
  readonly extraOf: (of: RoutingCase) => CaseExtra | null;
  /** Told after each result: how many of all there are. */
  readonly onProgress: (done: number, all: number, of: RoutingCase) => void;
}

/**
 * Runs what the store does not have yet.
 *
 * @returns runs that the budget left out.
 * @throws Error of the first case that failed; the others are ended.
 */
export async function runCases(
  cases: readonly RoutingCase[],
  store: ResultStore,
  options: RunOptions,
): Promise<number> {
  const orders = cases.flatMap((of): CaseOrder[] => {
    const extra = options.extraOf(of);
    const isExtraMissing = extra !== null && !store.hasExtra(of, extra);
    // hindsight looks at all policies of its case
    const isWhole = extra === "hindsight" && isExtraMissing;
    const policies = of.policies.filter((policy) => isWhole || !store.has(of, policy));
    return policies.length === 0 && !isExtraMissing ? [] : [{ of, policies, extra: isExtraMissing ? extra : null }];
  });
  const all = cases.reduce((sum, of) => sum + of.policies.length, 0);
  const missing = () =>
    orders.reduce((sum, { of, policies }) => sum + policies.filter((policy) => !store.has(of, policy)).length, 0);
  let done = all - missing();
  const untilMs = performance.now() + options.budgetMs;
  const next = (): CaseOrder | undefined => (performance.now() < untilMs ? orders.shift() : undefined);
  const children = Array.from({ length: Math.min(options.processes, orders.length) }, () =>
    fork(fileURLToPath(new URL("case-process.ts", import.meta.url)), { serialization: "advanced" }),
  );
  try {
    await Promise.all(
      children.map((child) =>
        serve(child, next, (of, news) => {
          if (news.kind === "bound") store.addBound(of, news.bound);
          if (news.kind === "hindsight") store.addHindsight(of, news.hindsight);
          if (news.kind !== "result") return;
          if (!store.has(of, news.result.policy)) done += 1;
          store.add(of, news.result);
          options.onProgress(done, all, of);
        }),
      ),
    );
  } finally {
    await Promise.all(children.map(stop));
  }
  return missing();
}

/** Gives a child one order after the other until there is none. */
async function serve(
  child: ChildProcess,
  next: () => CaseOrder | undefined,
  onNews: (of: RoutingCase, news: CaseNews) => void,
): Promise<void> {
  let order: CaseOrder | undefined;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.on("message", (news: CaseNews) => {
    if (order !== undefined) onNews(order.of, news);
    if (news.kind === "failed") reject(new Error(`${order === undefined ? "" : nameOf(order.of)}: ${news.message}`));
    if (news.kind !== "ready") return;
    order = next();
    if (order === undefined) resolve();
    else child.send(order);
  });
  child.on("exit", (code, signal) => reject(new Error(`a process of the bench ended by itself: ${signal ?? code}`)));
  await promise;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

/** For people. */
export function nameOf({ fleet, workload, load, seed, axis }: RoutingCase): string {
  const conditions = axis === "" ? "" : `, ${axis}`;
  return `${fleet} ${workload} ${Math.round(load * 100)} % seed ${seed}${conditions}`;
}
