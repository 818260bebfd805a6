/**
 * What a node says about itself, held against what can be: a number that no node can have is unknown, a text that no
 * engine would write is none. Nothing that a broken or lying node sends goes further than this.
 */

import { isModelName } from "../../request-body/routing-fields.ts";
import type { Adapter, ModelLoad, NodeReading, ReportedModel } from "./adapter.ts";

/** Requests: a thousand times what the largest nodes run. */
const REQUESTS_MAX = 1e6;
/** Tokens of a counter, or requests: ten million a second for three years. Exact as a double. */
const COUNTER_MAX = 1e15;
/** Tokens of a KV cache: 100 TB at a kilobyte each. */
const KV_TOKENS_MAX = 1e11;
/** Tokens of a context: a thousand times the longest that models are trained with. */
const CONTEXT_TOKENS_MAX = 1e9;
/** GiB of a node: eight accelerators with a hundred times the memory of today's. */
const MEMORY_GIB_MAX = 1e6;
/** A share may be above 1 by what engines round and over-commit. */
const SHARE_MAX = 1.05;
/** Characters of a version or a platform. */
const WORD_MAX = 128;

/** The adapter, with readings that can be believed as far as their range goes. */
export function soundAdapter(adapter: Adapter): Adapter {
  return { ...adapter, read: (responses, previous) => soundReading(adapter.read(responses, previous)) };
}

/** A reading without what cannot be. */
export function soundReading(reading: NodeReading): NodeReading {
  return {
    isReady: reading.isReady,
    running: within(reading.running, REQUESTS_MAX),
    waiting: within(reading.waiting, REQUESTS_MAX),
    concurrencyLimit: within(reading.concurrencyLimit, REQUESTS_MAX),
    admissionLimit: within(reading.admissionLimit, REQUESTS_MAX),
    kvUse: Math.min(1, within(reading.kvUse, SHARE_MAX)),
    freeMemoryGib: within(reading.freeMemoryGib, MEMORY_GIB_MAX),
    generationTokensTotal: within(reading.generationTokensTotal, COUNTER_MAX),
    promptTokensTotal: within(reading.promptTokensTotal, COUNTER_MAX),
    kvHeadroomTokens: within(reading.kvHeadroomTokens, KV_TOKENS_MAX),
    successesTotal: within(reading.successesTotal, COUNTER_MAX),
    errorsTotal: within(reading.errorsTotal, COUNTER_MAX),
    byModel: reading.byModel?.filter(({ id }) => isModelName(id)).map(soundLoad) ?? null,
    version: wordOf(reading.version),
    platform: wordOf(reading.platform),
    models: reading.models?.filter(({ id }) => isModelName(id)).map(soundModel) ?? null,
  };
}

function soundLoad(load: ModelLoad): ModelLoad {
  return {
    id: load.id,
    running: within(load.running, REQUESTS_MAX),
    waiting: within(load.waiting, REQUESTS_MAX),
    generationTokensTotal: within(load.generationTokensTotal, COUNTER_MAX),
  };
}

function soundModel(model: ReportedModel): ReportedModel {
  const { parent } = model;
  return {
    ...model,
    contextTokens: within(model.contextTokens, CONTEXT_TOKENS_MAX),
    parent: parent !== null && isModelName(parent) ? parent : null,
  };
}

/** NaN for what is below 0 or above the largest. */
function within(value: number, largest: number): number {
  return value >= 0 && value <= largest ? value : Number.NaN;
}

/** Null for a text that a terminal or a log could not show as it is. */
function wordOf(text: string | null): string | null {
  return text !== null && /^[ -~]+$/.test(text) && text.length <= WORD_MAX ? text : null;
}
