/**
 * AWS spot: EC2 `DescribeSpotPriceHistory` through the official client, with its standard credential chain.
 *
 * The history holds changes only; asked for one moment it gives the price in force then, per availability zone. Each
 * zone becomes a region of its own (`us-east-1a`, and `use1-az4` where AWS names its id), and the region itself gets the
 * median of its zones: a cheap zone without capacity would otherwise make the whole region look cheap.
 */

import { pipeline, type Readable, Transform } from "node:stream";
import type { EC2Client, SpotPrice } from "@aws-sdk/client-ec2";
import { ANSWER_BYTES_MAX, codeOf } from "../ask.ts";
import {
  type FeedContext,
  FeedError,
  median,
  optionalPackage,
  perRegion,
  quoteOf,
  typeNamed,
} from "../feed-context.ts";
import type { Quote } from "../quote.ts";

/** Pages of 1,000 prices: far more than all zones of a region have for the types of a fleet. */
const PAGES_MAX = 50;
/** Prices of other systems (Windows, SUSE, Red Hat) hold their licence. */
const PRODUCTS = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/** Prices of every region of the feed. */
export async function fetchPrices(context: FeedContext): Promise<Quote[]> {
  const sdk = await optionalPackage("@aws-sdk/client-ec2", () => import("@aws-sdk/client-ec2"));
  const { config } = context;
  return perRegion(context, async (region) => {
    const client = new sdk.EC2Client({
      region,
      // our own back-off repeats the fetch
      maxAttempts: 1,
      ...(config.profile === null ? {} : { profile: config.profile }),
      ...(config.endpoint === null ? {} : { endpoint: config.endpoint }),
    });
    limitAnswers(client);
    try {
      return regionQuotes(context, region, await currentPrices(context, client, sdk));
    } catch (error) {
      throw error instanceof FeedError ? error : inWords(error, region);
    } finally {
      client.destroy();
    }
  });
}

async function currentPrices(
  { config, signal, unixMs }: FeedContext,
  client: EC2Client,
  { DescribeSpotPriceHistoryCommand }: typeof import("@aws-sdk/client-ec2"),
): Promise<SpotPrice[]> {
  const now = new Date(unixMs);
  const prices: SpotPrice[] = [];
  let NextToken: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await client.send(
      new DescribeSpotPriceHistoryCommand({
        InstanceTypes: config.instanceTypes.map(({ name }) => name as never),
        ProductDescriptions: PRODUCTS,
        StartTime: now,
        EndTime: now,
        MaxResults: 1000,
        NextToken,
      }),
      { abortSignal: signal },
    );
    // a page may be short or empty and still have a next one: only the token tells
    prices.push(...(answer.SpotPriceHistory ?? []));
    NextToken = answer.NextToken === "" ? undefined : answer.NextToken;
    if (NextToken === undefined) return prices;
  }
  throw new FeedError(`AWS has more than ${PAGES_MAX} pages of prices: name fewer instance types`);
}

interface ZonePrice {
  readonly usdPerHour: number;
  readonly observedAtMs: number;
}

function regionQuotes(context: FeedContext, region: string, prices: readonly SpotPrice[]): Quote[] {
  const quotes: Quote[] = [];
  const byType = Map.groupBy(prices, (price) => price.InstanceType ?? "");
  for (const [instanceType, ofType] of byType) {
    const gpus = typeNamed(context, instanceType)?.gpus ?? null;
    if (gpus === null) continue;
    const zones = new Map<string, ZonePrice>();
    for (const [zone, ofZone] of Map.groupBy(ofType, (price) => price.AvailabilityZone ?? "")) {
      const latest = latestOf(ofZone);
      if (zone === "" || latest === null) {
        context.note(`${region} ${instanceType}: a price without zone, time or number was left out`);
        continue;
      }
      zones.set(zone, latest);
      const id = ofZone.find((price) => price.AvailabilityZoneId !== undefined)?.AvailabilityZoneId;
      for (const name of id === undefined ? [zone] : [zone, id]) {
        quotes.push(quoteOf(context, { region: name, instanceType, gpus, market: "spot", ...latest }));
      }
    }
    if (zones.size === 0) continue;
    const all = [...zones.values()];
    quotes.push(
      quoteOf(context, {
        region,
        instanceType,
        gpus,
        market: "spot",
        usdPerHour: median(all.map(({ usdPerHour }) => usdPerHour)),
        observedAtMs: Math.max(...all.map(({ observedAtMs }) => observedAtMs)),
      }),
    );
  }
  return quotes;
}

/** The latest change is the price in force. */
function latestOf(prices: readonly SpotPrice[]): ZonePrice | null {
  let latest: ZonePrice | null = null;
  for (const { SpotPrice: text, Timestamp } of prices) {
    const usdPerHour = text === undefined || text.trim() === "" ? Number.NaN : Number(text);
    const observedAtMs = Timestamp?.getTime() ?? Number.NaN;
    if (Number.isNaN(usdPerHour) || Number.isNaN(observedAtMs)) continue;
    if (latest === null || observedAtMs > latest.observedAtMs) latest = { usdPerHour, observedAtMs };
  }
  return latest;
}

/** The client reads answers whole: an endless one must not fill the memory. */
function limitAnswers(client: EC2Client): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const response = result.response as { body?: Readable };
      if (response.body !== undefined && typeof response.body.pipe === "function") {
        response.body = pipeline(response.body, byteLimit(), () => {});
      }
      return result;
    },
    { step: "deserialize", priority: "low", name: "zmlByteLimit" },
  );
}

function byteLimit(): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX) done(new FeedError(`AWS: the answer is larger than ${ANSWER_BYTES_MAX} bytes`));
      else done(null, chunk);
    },
  });
}

const HINTS: Readonly<Record<string, string>> = {
  CredentialsProviderError: "no credentials were found: set AWS_ACCESS_KEY_ID, a profile, or the instance's role",
  AuthFailure: "the credentials are not valid",
  InvalidClientTokenId: "the credentials are not valid",
  SignatureDoesNotMatch: "the secret key is wrong, or this machine's clock",
  RequestExpired: "the request was too old: check this machine's clock",
  ExpiredToken: "the session's token has expired",
  ExpiredTokenException: "the session's token has expired",
  UnauthorizedOperation: "grant ec2:DescribeSpotPriceHistory",
  OptInRequired: "the account has not enabled this region",
  RequestLimitExceeded: "too many requests",
  Throttling: "too many requests",
  ThrottlingException: "too many requests",
};

/** Only the code of the answer: AWS's texts quote key ids and signed strings. */
function inWords(error: unknown, region: string): FeedError {
  for (let inner = error, depth = 0; inner instanceof Error && depth < 4; inner = inner.cause, depth += 1) {
    if (inner instanceof FeedError) return inner;
  }
  const name = error instanceof Error ? error.name : "";
  const isPlain = /^[A-Za-z.]{1,64}$/.test(name);
  const hint = Object.hasOwn(HINTS, name) ? HINTS[name] : undefined;
  if (hint !== undefined) return new FeedError(`AWS ${region} answered ${name}: ${hint}`, { cause: error });
  if (isServiceError(error)) {
    return new FeedError(`AWS ${region} answered ${isPlain ? name : "an error that it gives no name"}`, {
      cause: error,
    });
  }
  return new FeedError(`AWS ${region} gave no answer that can be read (${codeOf(error)})`, { cause: error });
}

function isServiceError(error: unknown): boolean {
  return typeof error === "object" && error !== null && "$fault" in error;
}
