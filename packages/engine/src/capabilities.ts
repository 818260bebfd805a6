/**
 * What requests need of a node beside room, as bits: what a placement is known to lack stands in the column `lacks`, and
 * one `&` with what the request needs tells whether they meet. Unknown is never a lack: the node says it when asked.
 *
 * Bits 0–7: the endpoints, by index. Bit 8: images. From bit 9 on the context, one bit for each power of two from 512
 * tokens: set where the context is smaller than that. A request asks for the power of two that holds it, so that a bit
 * that meets says "look at `contextTokens`", and none that it fits.
 */

import type { FleetTable } from "./fleet-table.ts";
import { ENDPOINTS, type Endpoint } from "./reasons.ts";

const IMAGES = 1 << 8;

/** Of the least context that is told apart, 512 tokens: the shortest in use (sentence encoders). */
const CONTEXT_BIT = 9;
const CONTEXT_MIN = 512;
/** 512 × 2^15 = 16 Mi tokens: no context comes near. */
const CONTEXT_BITS = 16;

/** What is known of a model on a node. */
export interface PlacementCapabilities {
  /** Tokens; NaN: unknown. */
  readonly contextTokens: number;
  /** Null: unknown. */
  readonly readsImages: boolean | null;
  /** Routed endpoints that it answers; null: unknown. */
  readonly endpoints: readonly Endpoint[] | null;
}

/** Writes what is known of a placement: control thread only, within `publish`. Nothing else writes these columns. */
export function writeCapabilities(table: FleetTable, placement: number, known: PlacementCapabilities): void {
  const { contextTokens, readsImages, endpoints } = known;
  let lacks = readsImages === false ? IMAGES : 0;
  if (endpoints !== null) {
    ENDPOINTS.forEach((endpoint, index) => {
      if (!endpoints.includes(endpoint)) lacks |= 1 << index;
    });
  }
  for (let step = 0; step < CONTEXT_BITS; step++) {
    if (contextTokens < CONTEXT_MIN * 2 ** step) lacks |= 1 << (CONTEXT_BIT + step);
  }
  table.contextTokens[placement] = contextTokens;
  table.lacks[placement] = lacks;
}

/** Bits of what a request needs, but for the context. @param endpoint index into `ENDPOINTS`. */
export function needsOf(endpoint: number, hasImages: boolean): number {
  return (1 << endpoint) | (hasImages ? IMAGES : 0);
}

/** The bit of a context of so many tokens; 0 for none. */
export function contextBit(tokens: number): number {
  if (!(tokens > 0)) return 0;
  const doublings = 32 - Math.clz32(Math.ceil(tokens / CONTEXT_MIN) - 1);
  return 1 << (CONTEXT_BIT + Math.min(doublings, CONTEXT_BITS - 1));
}

/** True when a placement lacks the endpoint. */
export function lacksEndpoint(lacks: number, endpoint: number): boolean {
  return (lacks & (1 << endpoint)) !== 0;
}

/** True when a request needs images and a placement reads none. */
export function lacksImages(lacks: number, needs: number): boolean {
  return (lacks & needs & IMAGES) !== 0;
}

/**
 * Endpoints whose prompt is one text. A body of the others may hold many inputs, each of which has the whole context to
 * itself, so that its size says nothing.
 */
const IS_ONE_PROMPT = ENDPOINTS.map(
  (name) => name === "chat_completions" || name === "responses" || name === "messages",
);
const IS_MEASURED = ENDPOINTS.map((name) => name !== "embeddings" && name !== "rerank");

/**
 * Context that a request takes for certain, tokens: a smaller one cannot hold it. A power of two, so that few kinds of
 * request wait apart; 0 below 512, or where nothing is certain.
 */
export function contextAtLeast(endpoint: number, promptTokensAtLeast: number): number {
  if (IS_ONE_PROMPT[endpoint] !== true || promptTokensAtLeast < CONTEXT_MIN) return 0;
  return 2 ** Math.floor(Math.log2(promptTokensAtLeast));
}

/**
 * Context that a request probably takes, tokens; 0: nobody knows. Engines differ about an output limit beyond the context
 * (vLLM refuses it, llama.cpp cuts the answer), so that the limit makes it likely and not certain.
 */
export function contextLikely(endpoint: number, promptTokens: number, maxTokens: number): number {
  if (IS_MEASURED[endpoint] !== true) return 0;
  return promptTokens + (Number.isNaN(maxTokens) ? 0 : maxTokens);
}
