/** A price list in a file. It is read again when it changes, once whoever writes it is done. */

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { ANSWER_BYTES_MAX, codeOf } from "../ask.ts";
import { type FeedContext, FeedError, type SourceVersion } from "../feed-context.ts";
import { readPriceList } from "../price-list.ts";
import type { Quote } from "../quote.ts";

/** Every price of the list. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const before = await sourceVersion(context);
  const quotes = await readPriceList(context, chunksOf(context), "the price list");
  if ((await sourceVersion(context)) !== before) throw new FeedError("the price list changed while it was read");
  return quotes;
}

/** Time of the last change, size and number of the file. */
export const sourceVersion: SourceVersion = async ({ config }) => {
  let found: Awaited<ReturnType<typeof statOf>>;
  try {
    found = await statOf(config.path ?? "");
  } catch (cause) {
    throw new FeedError(`the price list can't be read (${codeOf(cause)}): check path and permissions`, { cause });
  }
  // reading a pipe or a device would not end
  if (!found.isFile()) throw new FeedError("the price list is no plain file");
  return `${found.mtimeNs}:${found.size}:${found.ino}`;
};

function statOf(path: string) {
  return stat(path, { bigint: true });
}

async function* chunksOf({ config, signal }: FeedContext): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(config.path ?? "", { signal }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX) throw new FeedError(`the price list is larger than ${ANSWER_BYTES_MAX} bytes`);
      yield chunk;
    }
  } catch (cause) {
    if (cause instanceof FeedError) throw cause;
    throw new FeedError(`the price list can't be read (${codeOf(cause)}): check path and permissions`, { cause });
  }
}
