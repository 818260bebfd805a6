/** The real client against a local server that speaks EC2's query protocol. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FeedError } from "../feed-context.ts";
import { feedOf, fetchOnce } from "../testing/feed-call.ts";
import { type Asked, priceServer } from "../testing/price-server.ts";
import { awsError, awsHistory, SECRET } from "../testing/provider-cases.ts";
import { fetchPrices } from "./aws-spot.ts";

const KEY_ID = "AKIAIOSFODNN7EXAMPLE";
// the client's standard chain reads these
process.env["AWS_ACCESS_KEY_ID"] = KEY_ID;
process.env["AWS_SECRET_ACCESS_KEY"] = SECRET;
process.env["AWS_EC2_METADATA_DISABLED"] = "true";

const TYPES = "regions: [us-east-1], instance_types: [{ name: p5.48xlarge, gpus: 8 }, { name: g6.xlarge, gpus: 1 }]";
const yaml = (url: string) => `endpoint: "${url}", ${TYPES}`;
const formOf = (asked: Asked | undefined) => new URLSearchParams(asked?.body ?? "");

test("aws_spot: asks for the prices of one moment, signed, and divides them by the GPUs", async (t) => {
  const server = await priceServer(t, () => awsHistory([{ price: "16.000000" }, { type: "g6.xlarge", price: "0.3" }]));
  const { prices, quotes } = await fetchOnce("aws_spot", yaml(server.url));
  assert.deepEqual(prices, {
    "us-east-1a/p5.48xlarge/spot": 2,
    "us-east-1/p5.48xlarge/spot": 2,
    "us-east-1a/g6.xlarge/spot": 0.3,
    "us-east-1/g6.xlarge/spot": 0.3,
  });
  assert.equal(quotes[0]?.observedAtMs, Date.parse("2026-05-28T10:00:00Z"), "the moment of the change");
  assert.equal(quotes[0]?.gpus, 8);
  const [asked] = server.asked;
  const form = formOf(asked);
  assert.equal(form.get("Action"), "DescribeSpotPriceHistory");
  assert.deepEqual([form.get("InstanceType.1"), form.get("InstanceType.2")], ["p5.48xlarge", "g6.xlarge"]);
  assert.equal(form.get("ProductDescription.1"), "Linux/UNIX");
  assert.equal(form.get("StartTime"), form.get("EndTime"));
  assert.match(asked?.headers.authorization ?? "", /^AWS4-HMAC-SHA256 Credential=AKIA.*us-east-1\/ec2/);
});

test("aws_spot: pages may be short or empty, only an empty token ends them", async (t) => {
  const server = await priceServer(t, (asked) => {
    const token = formOf(asked).get("NextToken");
    if (token === null) return awsHistory([], "one");
    if (token === "one") return awsHistory([{ price: 16 }], "two");
    if (token === "two") return awsHistory([], "three");
    return awsHistory([{ type: "g6.xlarge", price: 0.5 }]);
  });
  const { prices } = await fetchOnce("aws_spot", yaml(server.url));
  assert.equal(prices["us-east-1/p5.48xlarge/spot"], 2);
  assert.equal(prices["us-east-1/g6.xlarge/spot"], 0.5);
  assert.equal(server.asked.length, 4);
});

test("aws_spot: a token that never ends is given up", async (t) => {
  const server = await priceServer(t, () => awsHistory([{ price: 16 }], "again"));
  await assert.rejects(fetchOnce("aws_spot", yaml(server.url)), /more than 50 pages/);
  assert.equal(server.asked.length, 50);
});

test("aws_spot: a region is the median of its zones, a zone is itself, the latest change of each counts", async (t) => {
  const server = await priceServer(t, () =>
    awsHistory([
      { zone: "us-east-1a", zoneId: "use1-az4", price: 8, at: "2026-05-27T00:00:00Z" },
      { zone: "us-east-1a", zoneId: "use1-az4", price: 16, at: "2026-05-28T00:00:00Z" },
      { zone: "us-east-1b", price: 24 },
      { zone: "us-east-1c", price: 80 },
    ]),
  );
  const { prices } = await fetchOnce("aws_spot", yaml(server.url));
  assert.deepEqual(prices, {
    "us-east-1a/p5.48xlarge/spot": 2,
    "use1-az4/p5.48xlarge/spot": 2,
    "us-east-1b/p5.48xlarge/spot": 3,
    "us-east-1c/p5.48xlarge/spot": 10,
    "us-east-1/p5.48xlarge/spot": 3,
  });
});

const REFUSALS = [
  ["AuthFailure", 401, /AuthFailure: the credentials are not valid/],
  ["UnauthorizedOperation", 403, /grant ec2:DescribeSpotPriceHistory/],
  ["ExpiredToken", 400, /session's token has expired/],
  ["RequestExpired", 400, /this machine's clock/],
  ["RequestLimitExceeded", 503, /too many requests/],
  ["InternalError", 500, /answered InternalError/],
  [`Odd ${SECRET}`, 400, /answered an error that it gives no name/],
] as const;

for (const [code, status, says] of REFUSALS) {
  test(`aws_spot: ${code.split(" ", 1)[0]} is said in words, without what AWS wrote`, async (t) => {
    const server = await priceServer(t, () => awsError(code, status, `The key ${KEY_ID} ${SECRET} is odd`));
    await assert.rejects(fetchOnce("aws_spot", yaml(server.url)), (error: unknown) => {
      assert.ok(error instanceof FeedError);
      assert.match(error.message, says);
      assert.doesNotMatch(error.message, new RegExp(`${KEY_ID}|${SECRET}`));
      return true;
    });
    assert.equal(server.asked.length, 1, "the client does not repeat it: the feed backs off by itself");
  });
}

test("aws_spot: a region that refuses leaves the others their prices, and is noted", async (t) => {
  const server = await priceServer(t, (asked) =>
    (asked.headers.authorization ?? "").includes("/ap-east-1/")
      ? awsError("OptInRequired", 401)
      : awsHistory([{ price: 16 }]),
  );
  const two = yaml(server.url).replace("[us-east-1]", "[ap-east-1, us-east-1]");
  const { prices, notes } = await fetchOnce("aws_spot", two);
  assert.equal(prices["us-east-1/p5.48xlarge/spot"], 2);
  assert.deepEqual(notes, ["ap-east-1: AWS ap-east-1 answered OptInRequired: the account has not enabled this region"]);
});

test("aws_spot: an answer without an end is cut off by its size", async (t) => {
  const chunk = Buffer.alloc(2 ** 20, 0x20);
  const server = await priceServer(t, () => (response) => {
    const more = (error?: Error | null): void => {
      if (error == null && !response.closed) response.write(chunk, more);
    };
    response.writeHead(200, { "content-type": "text/xml" });
    more();
  });
  await assert.rejects(fetchOnce("aws_spot", yaml(server.url)), /larger than 33554432 bytes/);
});

test("aws_spot: a profile of the shared files is used, and one that is not there is said", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-aws-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const credentials = join(folder, "credentials");
  writeFileSync(credentials, "[pricing]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = x\n");
  withEnv(t, { AWS_SHARED_CREDENTIALS_FILE: credentials, AWS_CONFIG_FILE: join(folder, "config") });
  const server = await priceServer(t, () => awsHistory([{ price: 16 }]));
  await fetchOnce("aws_spot", `${yaml(server.url)}, profile: pricing`);
  assert.match(server.asked[0]?.headers.authorization ?? "", /Credential=AKIAPROFILE/);
  await assert.rejects(fetchOnce("aws_spot", `${yaml(server.url)}, profile: nobody`), /no credentials were found/);
});

test("aws_spot: a fetch ends with its signal", async (t) => {
  const server = await priceServer(t, () => () => {});
  const stop = new AbortController();
  const context = { ...feedOf("aws_spot", yaml(server.url)), signal: stop.signal, unixMs: 0, note: () => {} };
  const fetched = fetchPrices(context);
  const ended = assert.rejects(fetched, FeedError);
  while (server.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await ended;
});

function withEnv(t: TestContext, values: Readonly<Record<string, string>>): void {
  const before = Object.keys(values).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, values);
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
}
