/**
 * What was learned from traffic, as plain rows that outlive the process: by account, node (id and URL) and model, since
 * rows of the fleet table are given anew at each start. Control thread only.
 */

import { type FleetTable, publish } from "@zml/engine";
import type { LearnedNumber } from "../store/operations.ts";
import type { Fleet, FleetNode } from "./fleet.ts";

/** Names of learned numbers: of a model on a node, of a node, of a model on all nodes. */
const LEARNED_NAMES = {
  placement: ["tokens_per_second", "stream_tokens_per_second", "error_rate"],
  node: ["error_rate", "last_success_at_ms"],
  model: ["mean_output_tokens", "mean_prompt_tokens", "prompt_ratio"],
} as const;

/** A speed or a length above this is no measurement. */
const SANE_MAX = 1e9;

/** What the numbers stand in. */
export interface LearnedSources {
  readonly table: FleetTable;
  readonly fleet: Pick<Fleet, "nodes" | "directory">;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
}

/** See the head of this file. */
export class LearnedNumbers {
  readonly #sources: LearnedSources;
  /** Rows whose node or model has not come yet, by what they belong to. At most as many as were imported. */
  readonly #waiting = new Map<string, LearnedNumber>();

  constructor(sources: LearnedSources) {
    this.#sources = sources;
  }

  /** Everything that is known now, and what waits for its node. O(placements). */
  exportLearned(): LearnedNumber[] {
    const { table, fleet, nowMs, unixOriginMs } = this.#sources;
    const rows: LearnedNumber[] = [...this.#waiting.values()];
    const add = (place: Place, name: string, value: number, { samples, atMs }: { samples: number; atMs: number }) => {
      if (!Number.isFinite(value) || !Number.isFinite(atMs)) return;
      rows.push({ ...place, name, value, samples, updatedAtMs: Math.round(unixOriginMs + atMs) });
    };
    for (const node of fleet.nodes) {
      const { row } = node;
      let samples = 0;
      let newestMs = Number.NaN;
      for (const [model, placement] of node.placements) {
        const own = {
          samples: orZero(table.ownSamples[placement]),
          atMs: table.ownSampledAtMs[placement] ?? Number.NaN,
        };
        samples += own.samples;
        if (!(newestMs >= own.atMs)) newestMs = own.atMs;
        const place = placeOf(node, model);
        // a busy engine tells its capacity with its polls, whoever keeps it busy
        const polled = { samples: own.samples, atMs: table.polledAtMs[row] ?? Number.NaN };
        add(place, "tokens_per_second", table.measuredTokensPerSecond[placement] ?? Number.NaN, polled);
        add(place, "stream_tokens_per_second", table.measuredStreamTokensPerSecond[placement] ?? Number.NaN, own);
        add(place, "error_rate", table.placementErrorRate[placement] ?? Number.NaN, own);
      }
      const place = placeOf(node, "");
      const lastSuccessAtMs = table.lastSuccessAtMs[row] ?? Number.NaN;
      add(place, "error_rate", table.errorRate[row] ?? Number.NaN, { samples, atMs: newestMs });
      add(place, "last_success_at_ms", unixOriginMs + lastSuccessAtMs, { samples, atMs: lastSuccessAtMs });
    }
    for (const { account, name, index } of fleet.directory.models.values()) {
      const place = { account, node: "", url: "", family: "", model: name };
      // means have no time and no count of their own
      for (const [learned, column] of modelColumns(table)) {
        add(place, learned, column[index] ?? Number.NaN, { samples: 0, atMs: nowMs() });
      }
    }
    return rows;
  }

  /** Takes rows of another process. What this one has measured itself stays; rows of nodes to come wait for them. */
  importLearned(rows: readonly LearnedNumber[]): void {
    const { nowMs, unixOriginMs } = this.#sources;
    const unixNowMs = unixOriginMs + nowMs();
    for (const row of rows) {
      if (!isSane(row)) continue;
      // the clock may have been set back since: nothing is newer than what is learned from now on
      const updatedAtMs = Math.min(row.updatedAtMs, unixNowMs);
      this.#waiting.set(keyOf(row, row.name), { ...row, updatedAtMs });
    }
    this.apply();
  }

  /** Puts what waits into rows that exist by now; called after each change of the fleet. */
  apply(): void {
    if (this.#waiting.size === 0) return;
    const { table, fleet } = this.#sources;
    publish(table, () => {
      for (const node of fleet.nodes) {
        for (const [model, placement] of node.placements) this.#applyPlacement(placeOf(node, model), placement);
        this.#applyNode(placeOf(node, ""), node.row);
      }
      for (const { account, name, index } of fleet.directory.models.values()) {
        const place = { account, node: "", url: "", family: "", model: name };
        for (const [learned, column] of modelColumns(table)) fill(column, index, this.#take(place, learned));
      }
    });
  }

  #applyPlacement(place: Place, placement: number): void {
    const { table, unixOriginMs } = this.#sources;
    const capacity = this.#take(place, "tokens_per_second");
    if (fill(table.measuredTokensPerSecond, placement, capacity)) {
      table.tokensPerSecond[placement] = table.measuredTokensPerSecond[placement] as number;
    }
    const stream = this.#take(place, "stream_tokens_per_second");
    if (fill(table.measuredStreamTokensPerSecond, placement, stream)) {
      table.streamTokensPerSecond[placement] = table.measuredStreamTokensPerSecond[placement] as number;
    }
    const errors = this.#take(place, "error_rate");
    fill(table.placementErrorRate, placement, errors);
    const counted = stream ?? errors ?? capacity;
    if (counted === undefined || !Number.isNaN(table.ownSamples[placement] as number)) return;
    table.ownSamples[placement] = counted.samples;
    if (counted.samples > 0) table.ownSampledAtMs[placement] = counted.updatedAtMs - unixOriginMs;
  }

  #applyNode(place: Place, row: number): void {
    const { table, unixOriginMs } = this.#sources;
    fill(table.errorRate, row, this.#take(place, "error_rate"));
    const success = this.#take(place, "last_success_at_ms");
    if (success !== undefined && Number.isNaN(table.lastSuccessAtMs[row] as number)) {
      // never later than this process began: its own clock starts there
      table.lastSuccessAtMs[row] = Math.min(0, success.value - unixOriginMs);
    }
  }

  #take(place: Place, name: string): LearnedNumber | undefined {
    const key = keyOf(place, name);
    const row = this.#waiting.get(key);
    this.#waiting.delete(key);
    // what other hardware gave says nothing about this one
    return row?.family === "" || row?.family === place.family ? row : undefined;
  }
}

function modelColumns(table: FleetTable): (readonly [string, Float64Array])[] {
  return [
    ["mean_output_tokens", table.meanOutputTokens],
    ["mean_prompt_tokens", table.meanPromptTokens],
    ["prompt_ratio", table.promptRatio],
  ];
}

type Place = Pick<LearnedNumber, "account" | "node" | "url" | "family" | "model">;

function placeOf({ config }: FleetNode, model: string): Place {
  return { account: config.account, node: config.id, url: config.url, family: config.family, model };
}

function keyOf({ account, node, url, model }: Place, name: string): string {
  return JSON.stringify([account, node, url, model, name]);
}

/** Writes a learned value where nothing stands. Returns true when it did. */
function fill(column: Float64Array, index: number, row: LearnedNumber | undefined): boolean {
  if (row === undefined || !Number.isNaN(column[index] as number)) return false;
  column[index] = row.value;
  return true;
}

/** A store may hold what a fault or a person wrote. */
function isSane({ node, model, name, value, samples, updatedAtMs }: LearnedNumber): boolean {
  if (!Number.isFinite(value) || !(samples >= 0) || !Number.isFinite(updatedAtMs)) return false;
  const names: readonly string[] = LEARNED_NAMES[node === "" ? "model" : model === "" ? "node" : "placement"];
  if (!names.includes(name)) return false;
  if (name === "error_rate") return value >= 0 && value <= 1;
  return value > 0 && (name === "last_success_at_ms" || value <= SANE_MAX);
}

function orZero(value: number | undefined): number {
  return value === undefined || Number.isNaN(value) ? 0 : value;
}
