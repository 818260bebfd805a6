/** What keys and accounts have spent, per day and month of the calendar (UTC). */

import type { DatabaseSync } from "node:sqlite";

/** Spent by one owner in one period. */
export interface StoredSpend {
  readonly account: string;
  /** "": the account as a whole. */
  readonly key: string;
  /** `2027-01-31` or `2027-01`. */
  readonly period: string;
  readonly usd: number;
}

/** Arguments and result of each call. */
export interface SpendCalls {
  "spend.save": { args: { spends: readonly StoredSpend[]; forgetBefore: string }; result: null };
  "spend.load": { args: { periods: readonly string[] }; result: readonly StoredSpend[] };
}

/** Prepares every statement once. */
export function createSpendOperations(database: DatabaseSync): {
  readonly [K in keyof SpendCalls]: (args: SpendCalls[K]["args"]) => SpendCalls[K]["result"];
} {
  // what is spent only grows: a process that could not read the store may not make less of it
  const put = database.prepare(
    `INSERT INTO spend (account, key, period, usd) VALUES (:account, :key, :period, :usd)
     ON CONFLICT DO UPDATE SET usd = max(usd, excluded.usd)`,
  );
  const forget = database.prepare("DELETE FROM spend WHERE period < ?");
  const load = database.prepare("SELECT account, key, period, usd FROM spend WHERE period = ?");
  return {
    "spend.save": ({ spends, forgetBefore }) => {
      for (const spend of spends) put.run({ ...spend });
      forget.run(forgetBefore);
      return null;
    },
    "spend.load": ({ periods }) => periods.flatMap((period) => load.all(period) as unknown as StoredSpend[]),
  };
}
