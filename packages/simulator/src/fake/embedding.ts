import type { InferenceRequest } from "./inference-request.ts";

/** Numbers of the vectors that the fakes make. */
const DIMENSIONS = 8;

export function isBase64({ body }: InferenceRequest): boolean {
  return body["encoding_format"] === "base64";
}

/** The vector of one input: a list of numbers, or base64 of little-endian float32 where the caller wants that. */
export function embeddingOf(request: InferenceRequest, index: number): readonly number[] | string {
  const vector = Float32Array.from({ length: DIMENSIONS }, (_, axis) => Math.cos(index + axis) / 2);
  return isBase64(request) ? Buffer.from(vector.buffer).toString("base64") : [...vector];
}
