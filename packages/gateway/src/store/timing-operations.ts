/** What predictions are made with, per model and family. */

import type { DatabaseSync } from "node:sqlite";

/** What was learned of the timing of a model on a family. */
export interface StoredTiming {
  readonly account: string;
  readonly model: string;
  readonly family: string;
  /** JSON. */
  readonly state: string;
  /** When the newest of it was learned, Unix ms. */
  readonly updatedAtMs: number;
}

/** Arguments and result of each call. */
export interface TimingCalls {
  "timings.save": { args: { timings: readonly StoredTiming[]; forgetBeforeMs: number }; result: null };
  /** The newest first. */
  "timings.load": { args: { limit: number }; result: readonly StoredTiming[] };
}

/** Prepares every statement once. */
export function createTimingOperations(database: DatabaseSync): {
  readonly [K in keyof TimingCalls]: (args: TimingCalls[K]["args"]) => TimingCalls[K]["result"];
} {
  const put = database.prepare(
    `INSERT INTO timings (account, model, family, state, updated_at_ms)
     VALUES (:account, :model, :family, :state, :updatedAtMs)
     ON CONFLICT DO UPDATE SET state = excluded.state, updated_at_ms = excluded.updated_at_ms`,
  );
  const forget = database.prepare("DELETE FROM timings WHERE updated_at_ms < ?");
  const load = database.prepare(
    `SELECT account, model, family, state, updated_at_ms AS updatedAtMs FROM timings
     ORDER BY updated_at_ms DESC, account, model, family LIMIT ?`,
  );
  return {
    "timings.save": ({ timings, forgetBeforeMs }) => {
      for (const timing of timings) put.run({ ...timing });
      forget.run(forgetBeforeMs);
      return null;
    },
    "timings.load": ({ limit }) => load.all(limit) as unknown as StoredTiming[],
  };
}
