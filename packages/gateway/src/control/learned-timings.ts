/**
 * What the predictor learned, as rows that outlive the process: by account, model and family, since indexes are given anew
 * at each start. Rows of models and families that this process has not seen yet wait for them. Control thread only.
 */

import { FIT_SIZE, type TimingLearner, type TimingState } from "@zml/engine";
import { z } from "zod";
import type { StoredTiming } from "../store/timing-operations.ts";
import type { GatewayLog } from "./gateway-log.ts";
import type { NameRegistry } from "./name-registry.ts";

/** Unknown is null in JSON, and NaN with us. */
const known = z
  .number()
  .nullable()
  .transform((value) => value ?? Number.NaN);
/** Beyond it no coefficient, in ms, says anything. */
const COEFFICIENT_MAX = 1e9;
/** Far above what thousands of additions are off by. */
const ROUNDING = 1e-6;
/** What faded so far is rounded to nothing in one cell before it is in another. */
const FADED = 1e-100;
const fit = z
  .object({
    products: z.array(z.number()).length(FIT_SIZE ** 2),
    targets: z.array(z.number()).length(FIT_SIZE),
    coefficients: z.array(z.number().min(0).max(COEFFICIENT_MAX)).length(FIT_SIZE),
    meanResidual: z.number(),
    spread: z.object({ log: z.number().min(0), size: known, bias: z.number().min(-1).max(1) }),
  })
  .refine(({ products }) => areSums(products), "these products are sums of no samples");

/** Sums of products of samples are symmetric, and none is above the mean of its squares: from others no fit can be solved. */
function areSums(products: readonly number[]): boolean {
  const at = (row: number, column: number) => products[row * FIT_SIZE + column] as number;
  return products.every((value, cell) => {
    const row = Math.floor(cell / FIT_SIZE);
    const column = cell % FIT_SIZE;
    const most = Math.sqrt(at(row, row) * at(column, column));
    const off = most * ROUNDING + FADED;
    return Math.abs(value) <= most + off && Math.abs(value - at(column, row)) <= off;
  });
}

const state = z.object({ decode: fit, first: fit, samples: z.number().min(0), error: known });

/** What the rows are made of. */
export interface TimingSources {
  readonly names: Pick<NameRegistry, "models" | "families">;
  readonly timing: Pick<TimingLearner, "states" | "restore">;
  readonly log: GatewayLog;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
  /** Wall clock at engine time 0, Unix ms. */
  readonly unixOriginMs: number;
}

/** See the head of this file. */
export class LearnedTimings {
  readonly #sources: TimingSources;
  #waiting: { row: StoredTiming; state: TimingState }[] = [];

  constructor(sources: TimingSources) {
    this.#sources = sources;
  }

  /** Everything that was learned so far. O(models × families). */
  exportTimings(): StoredTiming[] {
    const { names, timing, unixOriginMs } = this.#sources;
    return timing.states().flatMap(({ model, family, state: learned, learnedAtMs }) => {
      const of = names.models.nameOf(model);
      const on = names.families.nameOf(family);
      if (of === null || on === null || !Number.isFinite(learnedAtMs)) return [];
      return {
        account: of.scope,
        model: of.name,
        family: on.name,
        state: JSON.stringify(learned),
        updatedAtMs: Math.round(unixOriginMs + learnedAtMs),
      };
    });
  }

  /** Takes rows of another process. One that can't be read is said and passed over. */
  importTimings(rows: readonly StoredTiming[]): void {
    for (const row of rows) {
      const { account, model, family } = row;
      const read = state.safeParse(parsed(row.state));
      if (read.success) this.#waiting.push({ row, state: read.data });
      else {
        this.#sources.log.warn(
          { account, model, family, problem: read.error.issues[0]?.message },
          "what was learned of a model's timing can't be read: it is learned anew",
        );
      }
    }
    this.apply();
  }

  /** Gives what waits to models and families that exist by now; called after each change of the fleet. */
  apply(): void {
    const { names, timing, nowMs, unixOriginMs } = this.#sources;
    const atMs = nowMs();
    this.#waiting = this.#waiting.filter(({ row, state: learned }) => {
      const model = names.models.find(row.account, row.model);
      const family = names.families.find("", row.family);
      if (model < 0 || family < 0) return true;
      // the clock may have been set back since: nothing is from the future
      timing.restore(model, family, learned, {
        ageMs: Math.max(0, unixOriginMs + atMs - row.updatedAtMs),
        nowMs: atMs,
      });
      return false;
    });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
