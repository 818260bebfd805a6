/** Whatever an interface answers, the last good price stays, an alarm says so once, and a good answer ends it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { type Answer, type PriceServer, priceServer } from "./testing/price-server.ts";
import { awsError, PROVIDER_CASES, type ProviderCase, SECRET } from "./testing/provider-cases.ts";
import { oneFeed, type RunningBook, runningBook, until } from "./testing/running-book.ts";

// the clients of the providers read these themselves
process.env["AWS_ACCESS_KEY_ID"] = "AKIAIOSFODNN7EXAMPLE";
process.env["AWS_SECRET_ACCESS_KEY"] = SECRET;
process.env["AWS_EC2_METADATA_DISABLED"] = "true";

const MIB = Buffer.alloc(2 ** 20, 0x20);

interface Bad {
  readonly name: string;
  /** What the report says of it. */
  readonly says: RegExp;
  readonly answer: (one: ProviderCase) => Answer;
  readonly timeoutMs?: number;
  readonly isLeftOut?: (one: ProviderCase) => boolean;
}

const isAws = ({ provider }: ProviderCase) => provider === "aws_spot";

const BAD: readonly Bad[] = [
  {
    name: "a connection that is cut",
    says: /gave no answer/,
    answer: () => (response) => response.destroy(),
  },
  {
    name: "silence",
    says: /no whole answer within timeout_ms/,
    answer: () => () => {},
    timeoutMs: 150,
  },
  {
    name: "a body that stops half-way for ever",
    says: /no whole answer within timeout_ms/,
    answer: () => (response) => {
      response.writeHead(200);
      response.write("[");
    },
    timeoutMs: 150,
  },
  { name: "nothing at all", says: /empty|no price|can be read/, answer: () => ({ body: "" }) },
  { name: "a page of HTML", says: /HTML|can be read|no price/, answer: () => ({ body: HTML }) },
  {
    name: "bytes that mean nothing",
    says: /no JSON|can be read|other columns|no row/,
    answer: () => ({ body: NOISE }),
  },
  { name: "a good answer without prices", says: /no price/, answer: ({ nothing }) => nothing },
  {
    name: "an answer that breaks off",
    says: /broke off|can be read|gave no answer/,
    answer: (one) => (response) => {
      const good = textOf(one.answer(2, ASKED));
      response.writeHead(200, { "content-length": good.length });
      response.write(good.slice(0, good.length / 2), () => response.destroy());
    },
  },
  {
    name: "an answer that was cut and looks whole",
    says: /truncated|can be read|cut off|no price/,
    answer: (one) => ({ body: textOf(one.answer(2, ASKED)).slice(0, -25) }),
  },
  {
    name: "an answer without an end",
    says: /larger than|is empty/,
    answer: () => (response) => {
      const more = (error?: Error | null): void => {
        if (error == null && !response.destroyed && !response.closed) response.write(MIB, more);
      };
      response.writeHead(200);
      more();
    },
  },
  {
    name: "a kilobyte that unpacks to 64 MB",
    says: /larger than|is empty/,
    answer: () => ({ headers: { "content-encoding": "gzip" }, body: BOMB }),
    // its client asks for no compression and takes none
    isLeftOut: isAws,
  },
  { name: "a negative price", says: /negative|cost nothing|no price|positive/, answer: (one) => one.answer(-2, ASKED) },
  {
    name: "a price of 0",
    says: /0, which no market asks|cost nothing|positive/,
    answer: (one) => one.answer(0, ASKED),
    isLeftOut: ({ canBeFree }) => canBeFree,
  },
  {
    name: "a text for a price",
    says: /no price|unknown shape|no number/,
    answer: (one) => one.answer("cheap", ASKED),
  },
  { name: "a price beyond any price", says: /more than 100000/, answer: (one) => one.answer(250_000, ASKED) },
  {
    name: "another currency",
    says: /USD/,
    answer: (one) => one.otherCurrency?.(ASKED) ?? { body: "" },
    isLeftOut: ({ otherCurrency }) => otherCurrency === undefined,
  },
  {
    name: "401",
    says: /401|AuthFailure/,
    answer: (one) => (isAws(one) ? awsError("AuthFailure", 401) : { status: 401, body: SECRET }),
  },
  {
    name: "429",
    says: /429|RequestLimitExceeded/,
    answer: (one) => (isAws(one) ? awsError("RequestLimitExceeded", 503) : { status: 429, body: "{}" }),
  },
  {
    name: "500 with a page",
    says: /500|can be read|answered/,
    answer: () => ({ status: 500, body: HTML }),
  },
  {
    name: "a redirect to a metadata address",
    says: /redirect|can be read|answered/,
    answer: () => ({ status: 302, headers: { location: "http://169.254.169.254/latest/meta-data/" }, body: "" }),
  },
];

const ASKED = { method: "GET", url: new URL("http://prices.test/"), headers: {}, body: "" };
const HTML = "<!doctype html><html><body>Please sign in</body></html>";
const NOISE = Buffer.from(Array.from({ length: 999 }, (_, index) => (index * 7919 + 130) % 256));
const BOMB = gzipSync(Buffer.alloc(64 * MIB.length, 0x20));

function textOf(answer: Answer): string {
  assert.ok(typeof answer !== "function");
  return String(answer.body);
}

for (const one of PROVIDER_CASES) {
  test(`L05: bad input to ${one.provider}`, { concurrency: 4 }, async (t) => {
    for (const bad of BAD) {
      if (bad.isLeftOut?.(one) === true) continue;
      void t.test(`${one.provider}: ${bad.name} leaves the last good price, and is said once`, async (s) => {
        const server = await priceServer(s, (asked) => one.answer(2, asked));
        const timeoutMs = bad.timeoutMs ?? 10_000;
        const running = runningBook(s, oneFeed(one.provider, one.yaml(server.url), one.key), { timeoutMs });
        await survives(one, bad, server, running);
      });
    }
  });
}

async function survives(one: ProviderCase, bad: Bad, server: PriceServer, { book, log, changes }: RunningBook) {
  const price = () => book.usdPerGpuHour(one.key);
  const state = () => {
    const feed = book.feeds.get("f");
    assert.ok(feed !== undefined);
    return feed;
  };
  await until("the first price is there", () => price() === 2);
  // a timeout that a slow machine made is no part of what is counted below
  await until("the feed is well", () => state().error === null);
  const before = log.lines.length;
  server.answer = () => bad.answer(one);
  const asked = server.asked.length;
  await until("the bad answer was met twice", () => state().error !== null && server.asked.length >= asked + 2);
  assert.equal(price(), 2, "the last good price stays");
  assert.match(state().error ?? "", bad.says);
  assert.ok(book.ageMs(one.key) >= 0, "with its age");
  await until("the second failure is over", () => !Number.isNaN(state().runner.nextAtMs));
  const warnings = log.lines.slice(before).filter((line) => line.startsWith("warn") && line.includes('"failing"'));
  assert.equal(warnings.length, 1, warnings.join("\n"));

  server.answer = (request) => one.answer(3, request);
  await until("a good answer counts again", () => price() === 3);
  assert.equal(state().error, null);
  assert.equal(state().alarms.size, 0);
  assert.ok(log.count(/a price alarm is over/) >= 1);
  assert.ok(changes.some((keys) => keys.includes(one.key)));
  const shown = [...log.lines, JSON.stringify([...state().notes, state().error])].join("\n");
  assert.ok(!shown.includes(SECRET), "no secret is shown");
}
