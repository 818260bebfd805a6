import { readFileSync } from "node:fs";
import { dataFile } from "./data-file.ts";
import type { NodeConstants } from "./step-model.ts";

let table: ReadonlyMap<string, NodeConstants> | undefined;

/** All rows of `data/node-params.csv`, by key `gpu/model/weights/tp`, for example `H100-SXM-80GB/llama-3-8b/bf16/1`. */
export function nodeConstantsTable(): ReadonlyMap<string, NodeConstants> {
  table ??= parse(readFileSync(dataFile("node-params.csv"), "utf8"));
  return table;
}

/** The constants of one hardware key. Throws an error that lists the known keys. */
export function nodeConstants(key: string): NodeConstants {
  const row = nodeConstantsTable().get(key);
  if (row === undefined) {
    throw new Error(`unknown hardware key ${key}: use one of ${[...nodeConstantsTable().keys()].join(", ")}`);
  }
  return row;
}

function parse(text: string): ReadonlyMap<string, NodeConstants> {
  const rows = new Map<string, NodeConstants>();
  for (const line of text.trim().split("\n").slice(1)) {
    const [gpu, model, weights, tp, a0, a1, a2, p1, p2, kv] = line.split(",");
    rows.set(`${gpu}/${model}/${weights}/${tp}`, {
      baseMs: Number(a0),
      usPerSequence: Number(a1),
      nsPerCachedToken: Number(a2),
      usPerPrefillToken: Number(p1),
      nsPerSquaredPrefillToken: Number(p2),
      kvCapacityTokens: Number(kv),
    });
  }
  return rows;
}
