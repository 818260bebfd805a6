/**
 * Price lists of an operator or of SkyPilot's catalogue, as CSV or JSON, from a file or a URL. Rows are read as they
 * come, so that a long list never holds this thread for long.
 *
 * Columns of our own: `region`, `instance_type`, `market` (on_demand, spot), `usd_per_gpu_hour` or `usd_per_hour` with
 * `gpus`; optional `currency`, `observed_at`. SkyPilot's: `InstanceType`, `AcceleratorCount`, `Price`, `SpotPrice`,
 * `Region`, `AvailabilityZone`, with one row per zone.
 */

import { Readable } from "node:stream";
import { MARKETS } from "@zml/protocol";
import { z } from "zod";
import { parseJson, textOf } from "./ask.ts";
import { type FeedContext, FeedError, isWanted, median, QUOTES_MAX, quoteOf, typeNamed } from "./feed-context.ts";
import type { Quote } from "./quote.ts";

/** Longest row of a CSV list, bytes: without an end a quote would swallow the file. */
const ROW_BYTES_MAX = 64 * 1024;

type Row = Readonly<Record<string, unknown>>;

/** Its rows are looked at one by one: a schema of theirs would take ten times as long. */
const rowsSchema = z.array(z.unknown());
const jsonSchema = z.union([rowsSchema, z.object({ prices: rowsSchema }).transform(({ prices }) => prices)]);

/**
 * Reads a list.
 *
 * @param place how texts call where it came from.
 * @throws FeedError when it is no list, or cut off.
 */
export async function readPriceList(
  context: FeedContext,
  chunks: AsyncIterable<Uint8Array>,
  place: string,
): Promise<Quote[]> {
  const reader = new RowReader(context);
  const { first, all, close } = await peek(chunks);
  try {
    if (first === "") throw new FeedError(`${place} is empty`);
    if (first === "<") throw new FeedError(`${place}: HTML or XML where a price list was expected`);
    if (first === "{" || first === "[") {
      const text = (await textOf(all)).replace(/^\uFEFF/, "");
      for (const row of parseJson(text, jsonSchema, place)) reader.take(isMapping(row) ? row : {});
      return reader.quotes();
    }
    for await (const row of csvRows(all, place)) reader.take(row);
    return reader.quotes();
  } finally {
    // what is not read to its end would be unpacked, or kept open, for nobody
    await close();
  }
}

async function* csvRows(chunks: AsyncIterable<Uint8Array>, place: string): AsyncGenerator<Row> {
  // loaded on use: who has no CSV list does not wait for it at the start
  const { CsvError, parse } = await import("csv-parse");
  const source = Readable.from(chunks, { objectMode: false });
  const parser = parse({
    bom: true,
    columns: (header: string[]) => checkHeader(header, place),
    skip_empty_lines: true,
    trim: true,
    max_record_size: ROW_BYTES_MAX,
  });
  source.once("error", (error) => parser.destroy(error));
  source.pipe(parser);
  try {
    for await (const row of parser) yield row as Row;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    // its own text quotes the row
    throw new FeedError(`${place}: line ${String(error.lines)} is no row of the list, or cut off (${error.code})`);
  } finally {
    source.destroy();
  }
}

function checkHeader(header: readonly string[], place: string): string[] {
  const has = (...names: string[]) => names.every((name) => header.includes(name));
  const isOwn = has("region", "instance_type", "market") && (has("usd_per_gpu_hour") || has("usd_per_hour", "gpus"));
  if (isOwn || has("InstanceType", "AcceleratorCount", "Price", "Region")) return [...header];
  throw new FeedError(
    `${place}: its first line names other columns: region, instance_type, market and usd_per_gpu_hour ` +
      "(or usd_per_hour and gpus) are expected, or those of a SkyPilot catalogue",
  );
}

/** Turns rows into quotes, and counts those that it can't read. */
class RowReader {
  readonly #context: FeedContext;
  readonly #names: readonly string[];
  readonly #quotes: Quote[] = [];
  /** SkyPilot's spot and list prices of the zones of a region. */
  readonly #zones = new Map<string, Quote[]>();
  #rows = 0;
  #unreadable = 0;

  constructor(context: FeedContext) {
    this.#context = context;
    this.#names = context.config.instanceTypes.map(({ name }) => name);
  }

  take(row: Row): void {
    this.#rows += 1;
    const isRead = "InstanceType" in row ? this.#takeSkyPilot(row) : this.#takeOwn(row);
    if (!isRead) this.#unreadable += 1;
    if (this.#quotes.length + this.#zones.size > QUOTES_MAX) {
      throw new FeedError(`the list has more than ${QUOTES_MAX} prices: name regions and instance_types`);
    }
  }

  quotes(): Quote[] {
    if (this.#unreadable > 0) {
      this.#context.note(`${this.#unreadable} of ${this.#rows} rows could not be read and were left out`);
    }
    const regions = [...this.#zones.values()].map((ofZones): Quote => {
      const [quote] = ofZones as [Quote];
      return { ...quote, usdPerGpuHour: median(ofZones.map(({ usdPerGpuHour }) => usdPerGpuHour)) };
    });
    return [...this.#quotes, ...regions];
  }

  #takeOwn(row: Row): boolean {
    const region = textIn(row, "region");
    const instanceType = textIn(row, "instance_type");
    const market = MARKETS.find((name) => name === row["market"]);
    if (region === null || instanceType === null || market === undefined) return false;
    if (!this.#isWanted(region, instanceType)) return true;
    const currency = row["currency"];
    if (currency !== undefined && currency !== "" && currency !== "USD") {
      this.#context.note(`${region} ${instanceType}: the currency is not USD`);
      return true;
    }
    const perGpu = numberIn(row, "usd_per_gpu_hour");
    const perInstance = numberIn(row, "usd_per_hour");
    const stated = typeNamed(this.#context, instanceType)?.gpus ?? numberIn(row, "gpus");
    const gpus = stated === null && perGpu !== null ? 1 : stated;
    if (gpus === null || gpus <= 0) return false;
    const usdPerHour = perGpu === null ? perInstance : perGpu * gpus;
    if (usdPerHour === null) return false;
    const observedAtMs = Date.parse(textIn(row, "observed_at") ?? "");
    const time = Number.isNaN(observedAtMs) ? {} : { observedAtMs };
    this.#quotes.push(quoteOf(this.#context, { region, instanceType, gpus, market, usdPerHour, ...time }));
    return true;
  }

  /** A row is an instance type in a zone. Without accelerators it is none of ours; an empty price is none. */
  #takeSkyPilot(row: Row): boolean {
    const region = textIn(row, "Region");
    const instanceType = textIn(row, "InstanceType");
    const gpus = numberIn(row, "AcceleratorCount");
    // a row without them is a processor, or an accelerator that is sold by itself
    if (instanceType === null || gpus === null || gpus === 0) return true;
    if (region === null || gpus < 0) return false;
    const zone = textIn(row, "AvailabilityZone");
    const isWantedHere = this.#isWanted(region, instanceType);
    const isWantedZone = zone !== null && zone !== region && this.#isWanted(zone, instanceType);
    for (const [market, column] of [
      ["on_demand", "Price"],
      ["spot", "SpotPrice"],
    ] as const) {
      const usdPerHour = numberIn(row, column);
      if (usdPerHour === null) {
        if (textIn(row, column) !== null) return false;
        continue;
      }
      // one bad zone must not bend the region's median; the catalogue writes 0 for unknown
      if (usdPerHour <= 0) return false;
      const quote = quoteOf(this.#context, { region, instanceType, gpus, market, usdPerHour });
      if (isWantedZone) this.#quotes.push({ ...quote, region: zone });
      if (!isWantedHere) continue;
      const key = JSON.stringify([region, instanceType, market]);
      const zones = this.#zones.get(key);
      if (zones === undefined) this.#zones.set(key, [quote]);
      else zones.push(quote);
    }
    return true;
  }

  #isWanted(region: string, instanceType: string): boolean {
    return isWanted(this.#context.config.regions, region) && isWanted(this.#names, instanceType);
  }
}

function isMapping(value: unknown): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textIn(row: Row, column: string): string | null {
  const value = Object.hasOwn(row, column) ? row[column] : undefined;
  return typeof value === "string" && value.trim() !== "" ? value.trim() : null;
}

/** Null: absent, empty, or no plain number; a decimal comma and a currency sign are none. */
function numberIn(row: Row, column: string): number | null {
  const value = Object.hasOwn(row, column) ? row[column] : undefined;
  if (typeof value === "number") return value;
  const isPlain = typeof value === "string" && /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(value.trim());
  return isPlain ? Number(value) : null;
}

/** Space, tab, line ends, and the three bytes of a byte order mark, which may be cut in two. */
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** What begins with as many chunks of blanks is no list. */
const BLANK_CHUNKS_MAX = 64;

/** The first character that is no blank, the chunks with those that were read to find it, and what ends them. */
async function peek(
  chunks: AsyncIterable<Uint8Array>,
): Promise<{ first: string; all: AsyncIterable<Uint8Array>; close: () => Promise<void> }> {
  const iterator = chunks[Symbol.asyncIterator]();
  const read: Uint8Array[] = [];
  let first = "";
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    read.push(next.value);
    const byte = next.value.find((one) => !BLANKS.has(one));
    first = byte === undefined ? "" : String.fromCharCode(byte);
    if (first !== "" || read.length > BLANK_CHUNKS_MAX) break;
  }
  async function* all(): AsyncGenerator<Uint8Array> {
    yield* read;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
  }
  const close = async (): Promise<void> => {
    await iterator.return?.();
  };
  return { first, all: all(), close };
}
