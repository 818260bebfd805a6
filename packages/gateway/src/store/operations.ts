/** What the store can be asked, by name. Everything runs on the store's own thread, each call in one transaction. */

import { rmSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { createObjectOperations, type ObjectCalls } from "./object-operations.ts";
import { makeFileOfCopy } from "./private-files.ts";
import { createSpendOperations, type SpendCalls } from "./spend-operations.ts";
import { createTimingOperations, type TimingCalls } from "./timing-operations.ts";

/** A number that was learned from traffic. */
export interface LearnedNumber {
  readonly account: string;
  /** "" for numbers of a model on all nodes. */
  readonly node: string;
  /** With the id it tells a node; "" where `node` is. */
  readonly url: string;
  /** Family of the node; "" where `node` is, or where nobody knows it any more. */
  readonly family: string;
  /** Caller's name of the model; "" for numbers of the node. */
  readonly model: string;
  readonly name: string;
  readonly value: number;
  /** How many attempts it stands on. */
  readonly samples: number;
  /** Unix ms. */
  readonly updatedAtMs: number;
}

/** A price as it was seen. */
export interface StoredPrice {
  readonly key: string;
  readonly usdPerGpuHour: number;
  /** Unix ms at which it began to hold, as the seller says; else the time of the fetch. */
  readonly observedAtMs: number;
  /** Unix ms. */
  readonly fetchedAtMs: number;
  /** Who told it: provider and account; "": nobody knows any more. */
  readonly source: string;
}

/** Arguments and result of each call. Structured-cloneable. */
export interface StoreCalls extends ObjectCalls, SpendCalls, TimingCalls {
  "learned.save": { args: { numbers: readonly LearnedNumber[]; forgetBeforeMs: number }; result: null };
  /** In parts, the newest first: whole, what a large fleet learned does not fit into the heap of the store's thread. */
  "learned.load": { args: { skip: number; limit: number }; result: readonly LearnedNumber[] };
  "prices.append": { args: { prices: readonly StoredPrice[]; forgetBeforeMs: number }; result: null };
  /** The newest price of each key. */
  "prices.latest": { args: null; result: readonly StoredPrice[] };
  /** One key's prices since a time, oldest first; of more than `limit` the newest. */
  "prices.history": { args: { key: string; sinceMs: number; limit: number }; result: readonly StoredPrice[] };
  /** Copies the whole store, consistently, into a new file. */
  "store.backup": { args: { path: string }; result: null };
}

/** Name of a call. */
export type StoreCallName = keyof StoreCalls;

/** How each call is done on an open database. */
export type StoreOperations = {
  readonly [K in StoreCallName]: (args: StoreCalls[K]["args"]) => StoreCalls[K]["result"];
};

/** Prepares every statement once. */
export function createOperations(database: DatabaseSync): StoreOperations {
  const putLearned = database.prepare(
    `INSERT INTO learned (account, node, url, model, name, value, samples, updated_at_ms, family)
     VALUES (:account, :node, :url, :model, :name, :value, :samples, :updatedAtMs, :family)
     ON CONFLICT DO UPDATE SET value = excluded.value, samples = excluded.samples,
       updated_at_ms = excluded.updated_at_ms, family = excluded.family`,
  );
  const forgetLearned = database.prepare("DELETE FROM learned WHERE updated_at_ms < ?");
  const learnedPart = database.prepare(
    `SELECT account, node, url, model, name, value, samples, updated_at_ms AS updatedAtMs, family FROM learned
     ORDER BY updated_at_ms DESC, account, node, url, model, name LIMIT ? OFFSET ?`,
  );
  const putPrice = database.prepare(
    `INSERT INTO prices (key, observed_at_ms, fetched_at_ms, usd_per_gpu_hour, source)
     VALUES (:key, :observedAtMs, :fetchedAtMs, :usdPerGpuHour, :source)
     ON CONFLICT DO UPDATE SET fetched_at_ms = excluded.fetched_at_ms, usd_per_gpu_hour = excluded.usd_per_gpu_hour,
       source = excluded.source`,
  );
  // the price that holds is kept however old it is
  const forgetPrices = database.prepare(
    `DELETE FROM prices WHERE observed_at_ms < :before
       AND observed_at_ms < (SELECT max(other.observed_at_ms) FROM prices AS other WHERE other.key = prices.key)`,
  );
  const price =
    "key, usd_per_gpu_hour AS usdPerGpuHour, observed_at_ms AS observedAtMs, fetched_at_ms AS fetchedAtMs, source";
  const latestPrices = database.prepare(
    `SELECT ${price} FROM prices AS p
     WHERE observed_at_ms = (SELECT max(observed_at_ms) FROM prices AS other WHERE other.key = p.key)`,
  );
  const priceHistory = database.prepare(
    `SELECT ${price} FROM prices WHERE key = ? AND observed_at_ms >= ? ORDER BY observed_at_ms DESC LIMIT ?`,
  );
  return {
    ...createObjectOperations(database),
    ...createSpendOperations(database),
    ...createTimingOperations(database),
    "learned.save": ({ numbers, forgetBeforeMs }) => {
      for (const number of numbers) putLearned.run({ ...number });
      forgetLearned.run(forgetBeforeMs);
      return null;
    },
    "learned.load": ({ skip, limit }) => learnedPart.all(limit, skip) as unknown as LearnedNumber[],
    "prices.append": ({ prices, forgetBeforeMs }) => {
      for (const stored of prices) putPrice.run({ ...stored });
      forgetPrices.run({ before: forgetBeforeMs });
      return null;
    },
    "prices.latest": () => latestPrices.all() as unknown as StoredPrice[],
    "prices.history": ({ key, sinceMs, limit }) =>
      (priceHistory.all(key, sinceMs, limit) as unknown as StoredPrice[]).reverse(),
    "store.backup": ({ path }) => {
      makeFileOfCopy(path);
      try {
        database.prepare("VACUUM INTO ?").run(path);
      } catch (error) {
        rmSync(path, { force: true });
        throw error;
      }
      return null;
    },
  };
}

/** Calls that can't run inside a transaction. */
export const WITHOUT_TRANSACTION: ReadonlySet<StoreCallName> = new Set<StoreCallName>(["store.backup"]);
