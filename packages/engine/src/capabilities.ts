/**
 * What requests need of a node beside room, as bits: what a placement is known to lack stands in the column `lacks`, and
 * one `&` with what the request needs tells whether they meet. Unknown is never a lack: the node says it when asked.
 */

import { ENDPOINTS, type Endpoint } from "./reasons.ts";

/** The model on this node reads no images. Above the bits of the endpoints. */
const IMAGES = 1 << 16;

/** What is known of a model on a node; null: unknown. */
export interface Capabilities {
  readonly readsImages: boolean | null;
  /** Routed endpoints that it answers. */
  readonly endpoints: readonly Endpoint[] | null;
}

/** Bits of what a placement is known to lack. */
export function lacksOf({ readsImages, endpoints }: Capabilities): number {
  let lacks = readsImages === false ? IMAGES : 0;
  if (endpoints === null) return lacks;
  ENDPOINTS.forEach((endpoint, index) => {
    if (!endpoints.includes(endpoint)) lacks |= 1 << index;
  });
  return lacks;
}

/** Bits of what a request needs. @param endpoint index into `ENDPOINTS`. */
export function needsOf(endpoint: number, hasImages: boolean): number {
  return (1 << endpoint) | (hasImages ? IMAGES : 0);
}

/** True when a placement lacks the endpoint. */
export function lacksEndpoint(lacks: number, endpoint: number): boolean {
  return (lacks & (1 << endpoint)) !== 0;
}

/** True when what a placement lacks is among what the request needs, images. */
export function lacksImages(lacks: number, needs: number): boolean {
  return (lacks & needs & IMAGES) !== 0;
}

/**
 * Endpoints whose prompt is one text. A body of the others may hold many inputs, each of which has the whole context to
 * itself, so that its size says nothing.
 */
const ONE_PROMPT: readonly Endpoint[] = ["chat_completions", "responses", "messages"];

/**
 * Below this nothing is certain enough, or small enough, to ask: the shortest contexts in use are 512 tokens (sentence
 * encoders).
 */
const CERTAIN_TOKENS_MIN = 512;

/** Bounds on the context that a request takes, tokens. */
export interface ContextNeed {
  /** A smaller context cannot hold it. A power of two, so that few kinds of request wait apart; 0: nothing is certain. */
  readonly atLeast: number;
  /** A smaller context probably cannot. 0: its size says nothing. */
  readonly likely: number;
}

/**
 * How much context a request takes. Certain is only what its prompt has at least: engines differ about an output limit
 * beyond the context (vLLM refuses it, llama.cpp cuts the answer), so that the limit makes it likely and not certain.
 */
export function contextNeedOf(request: {
  endpoint: number;
  promptTokens: number;
  promptTokensAtLeast: number;
  maxTokens: number;
}): ContextNeed {
  const endpoint = ENDPOINTS[request.endpoint] as Endpoint;
  if (endpoint === "embeddings" || endpoint === "rerank") return NO_NEED;
  const isCertain = ONE_PROMPT.includes(endpoint) && request.promptTokensAtLeast >= CERTAIN_TOKENS_MIN;
  const atLeast = isCertain ? 2 ** Math.floor(Math.log2(request.promptTokensAtLeast)) : 0;
  const outputTokens = Number.isNaN(request.maxTokens) ? 0 : request.maxTokens;
  return { atLeast, likely: Math.max(atLeast, request.promptTokens + outputTokens) };
}

const NO_NEED: ContextNeed = Object.freeze({ atLeast: 0, likely: 0 });
