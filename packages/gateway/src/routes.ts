/** The routes of the data port. Paths on the node are these constants, never the caller's raw path. */

import { ENDPOINTS, type Endpoint } from "@zml/engine";
import type { ErrorShape } from "@zml/protocol";

/** A routed endpoint. */
export interface InferenceRoute {
  readonly path: string;
  /** Index into `ENDPOINTS`. */
  readonly endpoint: number;
  /** Whose shape errors have here. */
  readonly shape: ErrorShape;
}

const PATHS: Readonly<Record<Endpoint, string>> = {
  chat_completions: "/v1/chat/completions",
  completions: "/v1/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  embeddings: "/v1/embeddings",
  rerank: "/v1/rerank",
};

/** Routed endpoints by exact path. */
export const INFERENCE_ROUTES: ReadonlyMap<string, InferenceRoute> = new Map(
  ENDPOINTS.map((name, endpoint): [string, InferenceRoute] => [
    PATHS[name],
    { path: PATHS[name], endpoint, shape: name === "messages" ? "anthropic" : "openai" },
  ]),
);

export const MODELS_PATH = "/v1/models";
export const MODEL_PREFIX = "/v1/models/";
/** The process lives. */
export const LIVENESS_PATH = "/healthz";
/** The process takes requests. */
export const READINESS_PATH = "/readyz";

/** Whose shape an error has at a path, one that nothing answers included. */
export function shapeAt(path: string): ErrorShape {
  return INFERENCE_ROUTES.get(path)?.shape ?? (path.startsWith(`${PATHS.messages}/`) ? "anthropic" : "openai");
}
