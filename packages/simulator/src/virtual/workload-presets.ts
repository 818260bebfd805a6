/** Workloads of the benchmark (§4.2) on the traces of `data/`. W3 and W6 need traces that could not be had. */

import { existsSync } from "node:fs";
import { dataFile } from "../data-file.ts";
import { readTrace } from "./traces/read-trace.ts";
import type { Trace } from "./traces/trace.ts";
import type { ArrivalProcess, WorkloadSource } from "./workload.ts";

interface PresetSource {
  readonly file: string;
  readonly share: number;
  readonly arrivals: ArrivalProcess;
}

const CHAT = "azure2023-conv.csv";
const CODE = "azure2023-code.csv";
const MOONCAKE = "mooncake-synthetic.jsonl";
const recorded = (file: string, share = 1): PresetSource => ({ file, share, arrivals: { kind: "trace" } });

export const WORKLOADS = {
  /** Chat. */
  W1: [recorded(CHAT)],
  /** Code completion: long prompts, short answers, heavy bursts. */
  W2: [recorded(CODE)],
  /** Long prompts with shared prefixes. */
  W4: [recorded(MOONCAKE)],
  /** Sessions of agents. */
  W5: [recorded("agent-sessions-swebench.csv")],
  /** 60 % chat, 20 % code, 20 % long prompts. */
  W7: [recorded(CHAT, 0.6), recorded(CODE, 0.2), recorded(MOONCAKE, 0.2)],
  /** Chat lengths under a day curve. */
  W8: [{ file: CHAT, share: 1, arrivals: { kind: "diurnal", cv: 1.3, peakToMean: 2.5, dayS: 86_400 } }],
  /** Summaries of papers. */
  W9: [{ file: "vidur-arxiv-summarization.csv", share: 1, arrivals: { kind: "poisson" } }],
} as const satisfies Readonly<Record<string, readonly PresetSource[]>>;
export type WorkloadName = keyof typeof WORKLOADS;

const traces = new Map<string, Trace>();

/** Sources of a workload by name. Reads each trace once. @throws Error when the file is not there. */
export function presetSources(name: WorkloadName): WorkloadSource[] {
  const sources: readonly PresetSource[] = WORKLOADS[name];
  return sources.map(({ file, share, arrivals }) => {
    const path = dataFile(file);
    if (!existsSync(path)) {
      throw new Error(
        `workload ${name} needs ${file}, which this package does not bring: name the trace in workload.sources`,
      );
    }
    const trace = traces.get(file) ?? readTrace(path);
    traces.set(file, trace);
    return { trace, share, arrivals };
  });
}
