/** Free memory of accelerators out of an exporter's page: NVIDIA's DCGM exporter, AMD's device metrics exporter. */

import type { GpuExporterConfig } from "@zml/protocol";
import { parseMetrics } from "../metrics-text.ts";

/** NVIDIA's, AMD's, and AMD's with the prefix of its documentation. MiB each (AMD says MB; the error is below 5 %). */
const FREE_MEMORY: readonly string[] = ["DCGM_FI_DEV_FB_FREE", "gpu_free_vram", "amd_gpu_free_vram"];
const DEFAULT_NAMES: ReadonlySet<string> = new Set(FREE_MEMORY);

const MIB_PER_GIB = 1024;

/** More is a mark for "not available" (9223372036854775794) or nonsense: 16 TiB. */
const GPU_MIB_MAX = 16 * 1024 * 1024;

/** What a page says about the GPUs of a node. */
export interface GpuMemoryReading {
  /** Free memory of all of them together, GiB; NaN: of one or more it is unknown, or there is none. */
  readonly freeGib: number;
  /** GPUs that match. */
  readonly gpus: number;
}

const wantedOf = new WeakMap<GpuExporterConfig, ReadonlySet<string>>();

/** Reads a page. Never throws. */
export function readGpuMemory(text: string, exporter: GpuExporterConfig): GpuMemoryReading {
  const { metric, match } = exporter;
  let wanted = metric === null ? DEFAULT_NAMES : wantedOf.get(exporter);
  if (wanted === undefined) {
    wanted = new Set(metric === null ? [] : [metric.name]);
    wantedOf.set(exporter, wanted);
  }
  const metrics = parseMetrics(text, wanted);
  const conditions = { ...match, ...valuesOf(metric?.labels) };
  const gpus = new Map<string, Map<string, number>>();
  for (const name of wanted) {
    for (const { labels, value } of metrics.get(name) ?? []) {
      const own = new Map(Array.from(labels, ([label, text]) => [label.toLowerCase(), text]));
      if (!Object.entries(conditions).every(([label, values]) => values.includes(own.get(label) ?? ""))) continue;
      const parts = gpus.get(gpuOf(own)) ?? new Map<string, number>();
      gpus.set(gpuOf(own), parts);
      // a GPU that several pods share stands there once for each
      parts.set(partOf(own), value);
    }
  }
  const free = Array.from(gpus.values(), freeMibOf);
  const sum = free.length === 0 ? Number.NaN : free.reduce((total, mib) => total + mib, 0);
  return { freeGib: sum / MIB_PER_GIB, gpus: gpus.size };
}

function valuesOf(labels: Readonly<Record<string, string>> = {}): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(labels).map(([label, value]) => [label.toLowerCase(), [value]]));
}

type Labels = ReadonlyMap<string, string>;

/** The card: by its serial where there is one, else by its number on its host. */
function gpuOf(labels: Labels): string {
  const number = labels.get("gpu") ?? labels.get("gpu_id") ?? "";
  return labels.get("uuid") ?? `${labels.get("hostname") ?? ""}/${labels.get("serial_number") ?? ""}/${number}`;
}

/** A part of a card: MIG instance, AMD partition; "": the whole card. */
function partOf(labels: Labels): string {
  return labels.get("gpu_i_id") ?? labels.get("gpu_partition_id") ?? "";
}

/** MiB of one card: of the whole where it stands there, else of its parts. */
function freeMibOf(parts: ReadonlyMap<string, number>): number {
  const whole = parts.get("");
  const values = whole === undefined ? [...parts.values()] : [whole];
  const isKnown = values.every((value) => value >= 0 && value <= GPU_MIB_MAX);
  return isKnown ? values.reduce((sum, value) => sum + value, 0) : Number.NaN;
}
