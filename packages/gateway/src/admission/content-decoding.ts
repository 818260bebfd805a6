import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from "node:zlib";

/** Content codings that a request body may have. */
export const SUPPORTED_ENCODINGS = ["gzip", "deflate", "br", "zstd"] as const;

export type ContentEncoding = (typeof SUPPORTED_ENCODINGS)[number];

/** Windows above 8 MiB are refused, as RFC 9659 allows: a frame can ask for far more memory than its body has bytes. */
const ZSTD_WINDOW_LOG = 23;

/**
 * The coding that a `content-encoding` header names: "identity" for none, null for one that isn't supported, stacked
 * codings included (nobody stacks them on requests, and each layer multiplies what a small body can expand to).
 */
export function encodingOf(header: string | undefined): ContentEncoding | "identity" | null {
  if (header === undefined) return "identity";
  const name = header.trim().toLowerCase();
  if (name === "" || name === "identity") return "identity";
  if (name === "x-gzip") return "gzip";
  return SUPPORTED_ENCODINGS.find((supported) => supported === name) ?? null;
}

/** A decoder that puts out blocks of at most `blockBytes`. `firstByte` tells the two kinds of "deflate" apart. */
export function createDecoder(
  encoding: ContentEncoding,
  firstByte: number,
  blockBytes: number,
): Transform & { readonly bytesWritten: number } {
  const options = { chunkSize: blockBytes };
  switch (encoding) {
    case "gzip":
      return createGunzip(options);
    case "deflate":
      // The standard means zlib's format; some clients send the bare one.
      return (firstByte & 0x0f) === 8 ? createInflate(options) : createInflateRaw(options);
    case "br":
      return createBrotliDecompress(options);
    case "zstd":
      return createZstdDecompress({ ...options, params: { [constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } });
  }
}
