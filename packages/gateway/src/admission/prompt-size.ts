/** Tokens of a prompt, from what the scan of its body saw. */

import type { RoutableBody } from "./body-scan.ts";

/** Bytes of a JSON body per prompt token: four bytes of English text a token, and little else in a body but base64. */
const BYTES_PER_TOKEN = 4;

/** Bytes of text that no token exceeds: the longest ones of the vocabularies in use are runs of 128 spaces (Llama 3). */
const TOKEN_BYTES_MAX = 128;

/** Tokens of an image: vision models make 256 to 2,000 of one, by its size. */
const IMAGE_TOKENS = 1000;

/** Estimated. @param bytes of the decoded body. */
export function promptTokensOf({ opaqueBytes, images }: RoutableBody, bytes: number): number {
  return Math.ceil((bytes - opaqueBytes) / BYTES_PER_TOKEN) + images * IMAGE_TOKENS;
}

/** What the prompt has for certain. */
export function promptTokensAtLeast({ textBytes }: RoutableBody): number {
  return Math.floor(textBytes / TOKEN_BYTES_MAX);
}
