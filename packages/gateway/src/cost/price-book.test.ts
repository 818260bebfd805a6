import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FeedError, type FetchPrices, optionalPackage, quoteOf } from "./feed-context.ts";
import type { Feed } from "./feeds/index.ts";
import { CHANGES_PER_KEY, type PriceHistory } from "./price-history.ts";
import { pricesReport } from "./price-report.ts";
import type { PricePoint } from "./quote.ts";
import { oneFeed, runningBook, until } from "./testing/running-book.ts";

const KEY = "f/r/t/spot";
const CONFIG = oneFeed("url", "url: http://prices.test/", KEY);

/** A feed that answers what the test says. */
class ScriptedFeed implements Feed {
  usd = 2;
  fetches = 0;
  running = 0;
  most = 0;
  /** Types that it delivers. */
  types = ["t"];
  failWith: Error | null = null;
  gate: Promise<void> = Promise.resolve();
  /** Since when the price is asked, Unix ms. */
  observedAtMs: number | undefined;

  fetchPrices: FetchPrices = async (context) => {
    this.fetches += 1;
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    try {
      await this.gate;
      if (this.failWith !== null) throw this.failWith;
      return this.types.map((instanceType) =>
        quoteOf(context, {
          ...{ region: "r", instanceType, gpus: 8, market: "spot", usdPerHour: this.usd * 8 },
          ...(this.observedAtMs === undefined ? {} : { observedAtMs: this.observedAtMs }),
        }),
      );
    } finally {
      this.running -= 1;
    }
  };
}

function scripted(t: TestContext, text = CONFIG, options: Parameters<typeof runningBook>[2] = {}) {
  const feed = new ScriptedFeed();
  return { feed, ...runningBook(t, text, { feeds: { url: feed }, ...options }) };
}

class MemoryHistory implements PriceHistory {
  readonly points: PricePoint[] = [];
  latest: () => Promise<readonly PricePoint[]> = () => Promise.resolve([]);
  append(points: readonly PricePoint[]): void {
    this.points.push(...points);
  }
  loadLatest(): Promise<readonly PricePoint[]> {
    return this.latest();
  }
}

test("price book: each change is recorded once, with the time of its fetch, and the same price again is none", async (t) => {
  const history = new MemoryHistory();
  const { feed, book, changes } = scripted(t, CONFIG, { history });
  await until("it was fetched three times", () => feed.fetches >= 3);
  feed.usd = 3;
  await until("the change is there", () => book.usdPerGpuHour(KEY) === 3);
  assert.deepEqual(
    history.points.map(({ key, usdPerGpuHour }) => [key, usdPerGpuHour]),
    [
      [KEY, 2],
      [KEY, 3],
    ],
  );
  for (const { observedAtMs, fetchedAtMs } of history.points) {
    assert.ok(observedAtMs <= fetchedAtMs && fetchedAtMs <= Date.now());
  }
  assert.deepEqual(changes, [[KEY], [KEY]]);
});

test("price book: a change that keeps the old date is dated by its fetch, so that records stay in order", async (t) => {
  const history = new MemoryHistory();
  const { feed, book } = scripted(t, CONFIG, { history });
  feed.observedAtMs = 1_000_000;
  await until("the first price is there", () => book.usdPerGpuHour(KEY) === 2);
  for (const usd of [3, 4]) {
    feed.usd = usd;
    feed.observedAtMs = 1_000_000 - usd;
    await until("the change is there", () => book.usdPerGpuHour(KEY) === usd);
  }
  const [first, second, third] = history.points;
  assert.equal(third?.usdPerGpuHour, 4);
  assert.ok((first?.observedAtMs ?? 0) < (second?.observedAtMs ?? 0));
  assert.ok((second?.observedAtMs ?? 0) < third.observedAtMs);
});

test("price book: only prices that a node names are recorded, from the moment it names them", async (t) => {
  const history = new MemoryHistory();
  const { feed, book, configure } = scripted(t, CONFIG, { history, intervalMs: 3_600_000 });
  feed.types = ["t", "u"];
  await until("both are there", () => book.entries.size === 2);
  assert.deepEqual(
    history.points.map(({ key }) => key),
    [KEY],
  );
  configure(CONFIG.replaceAll(KEY, "f/r/u/spot"));
  assert.deepEqual(
    history.points.map(({ key }) => key),
    [KEY, "f/r/u/spot"],
  );
  assert.equal(book.changesOf("f/r/u/spot").length, 1);
  assert.equal(feed.fetches, 1);
});

test("price book: in memory the last changes of a price stay, no more", async (t) => {
  const { feed, book } = scripted(t, CONFIG, { intervalMs: 1 });
  let target = 1;
  await until("it changed often", () => {
    if (book.usdPerGpuHour(KEY) === feed.usd) {
      target += 1;
      feed.usd = 1 + (target % 7);
    }
    return target > CHANGES_PER_KEY + 20;
  });
  assert.equal(book.changesOf(KEY).length, CHANGES_PER_KEY);
});

test("price book: prices of the last run count until the first fetch, with their age", async (t) => {
  const history = new MemoryHistory();
  const dayMs = 86_400_000;
  const fetchedAtMs = Date.now() - dayMs;
  const point = { key: KEY, usdPerGpuHour: 7, observedAtMs: fetchedAtMs, fetchedAtMs, source: "" };
  history.latest = () =>
    Promise.resolve([
      point,
      { ...point, key: "gone/r/t/spot" },
      { ...point, key: "f/r/odd/spot", usdPerGpuHour: Number.NaN },
      { ...point, key: "no key" },
    ]);
  const gate = Promise.withResolvers<void>();
  const feed = new ScriptedFeed();
  feed.gate = gate.promise;
  const { book, log } = runningBook(t, CONFIG, { feeds: { url: feed }, history });
  await until("the price is back", () => book.usdPerGpuHour(KEY) === 7);
  assert.ok(book.ageMs(KEY) >= dayMs && book.ageMs(KEY) < dayMs + 100_000);
  assert.deepEqual([...book.entries.keys()], [KEY]);
  assert.equal(book.feeds.get("f")?.alarms.has(`stale ${KEY}`), true);
  assert.equal(pricesReport(book, performance.now()).prices[0]?.is_restored, true);
  gate.resolve();
  await until("it is fetched", () => book.usdPerGpuHour(KEY) === 2);
  assert.ok(book.ageMs(KEY) < 60_000);
  assert.equal(log.count(/prices of the last run count/), 1);
});

test("price book: what an account's feed told does not come back for another account of the same name", async (t) => {
  const history = new MemoryHistory();
  history.latest = () => Promise.resolve(history.points);
  const { feed, book, configure } = scripted(t, CONFIG, { history });
  await until("the price is there", () => book.usdPerGpuHour(KEY) === 2);
  feed.failWith = new FeedError("no");
  const other = CONFIG.replace("url: http", "cloud_account: other, url: http");
  configure(other);
  await until("it failed", () => book.feeds.get("f")?.error != null);
  assert.ok(Number.isNaN(book.usdPerGpuHour(KEY)), "after a reload");
  const next = scripted(t, other, { history });
  next.feed.failWith = new FeedError("no");
  await until("it failed", () => next.book.feeds.get("f")?.error != null);
  assert.ok(Number.isNaN(next.book.usdPerGpuHour(KEY)), "after a restart");
});

test("price book: a change after the wall clock was set back is the latest of the record", async (t) => {
  const history = new MemoryHistory();
  let offsetMs = 3_600_000;
  const clock = { nowMs: () => performance.now(), unixMs: () => Date.now() + offsetMs, random: () => 0.5 };
  const { feed, book } = scripted(t, CONFIG, { history, clock });
  await until("the price is there", () => book.usdPerGpuHour(KEY) === 2);
  offsetMs = 0;
  const goal = feed.fetches + 2;
  await until("the same price was told again", () => feed.fetches > goal);
  feed.usd = 3;
  await until("it changed", () => book.usdPerGpuHour(KEY) === 3);
  const [first, second] = history.points;
  assert.ok((second?.observedAtMs ?? 0) > (first?.observedAtMs ?? 0), "a restart would bring the old price back");
});

test("price book: a store that fails or hangs, and one that throws, hold nothing up", async (t) => {
  const failing = new MemoryHistory();
  failing.latest = () => Promise.reject(new Error("disk"));
  failing.append = () => {
    throw new Error("full");
  };
  const first = scripted(t, CONFIG, { history: failing });
  await until("its price is there", () => first.book.usdPerGpuHour(KEY) === 2);
  assert.equal(first.log.count(/could not be recorded/), 1);
  const hanging = new MemoryHistory();
  hanging.latest = () => new Promise(() => {});
  const second = scripted(t, CONFIG, { history: hanging });
  await until("its price is there", () => second.book.usdPerGpuHour(KEY) === 2);
});

test("price book: a jump waits for a second answer, with an alarm, then counts", async (t) => {
  const { feed, book, log } = scripted(t);
  await until("the first price is there", () => book.usdPerGpuHour(KEY) === 2);
  feed.usd = 500;
  await until("it is held", () => book.feeds.get("f")?.alarms.has(`refused ${KEY}`) === true);
  await until("it counts", () => book.usdPerGpuHour(KEY) === 500);
  assert.equal(log.count(/a price is refused.*more than max_change/), 1);
  assert.equal(book.feeds.get("f")?.alarms.size, 0);
});

/** Two feeds: `f`, and `g`, whose fetches tell that time goes by. */
const TWO_FEEDS = CONFIG.replace("nodes:", "    - { name: g, provider: lambda }\nnodes:");

test("price book: one fetch of a feed runs at a time, whatever its interval", async (t) => {
  const gate = Promise.withResolvers<void>();
  const [feed, other] = [new ScriptedFeed(), new ScriptedFeed()];
  feed.gate = gate.promise;
  runningBook(t, TWO_FEEDS, { feeds: { url: feed, lambda: other }, intervalMs: 1 });
  await until("the other feed was fetched often", () => other.fetches > 5);
  assert.equal(feed.fetches, 1);
  gate.resolve();
  await until("it goes on", () => feed.fetches > 3);
  assert.equal(feed.most, 1);
});

test("price book: a feed that never ends is given up at its deadline and asked again", async (t) => {
  const feed = new ScriptedFeed();
  feed.gate = new Promise(() => {});
  const { book } = runningBook(t, CONFIG, { feeds: { url: feed }, timeoutMs: 20 });
  await until("it was asked again", () => feed.fetches >= 2);
  assert.match(book.feeds.get("f")?.error ?? "", /no whole answer within timeout_ms \(20\)/);
});

test("price book: pauses after failures double, and a stated one is kept", async (t) => {
  const { feed, book } = scripted(t, CONFIG, { intervalMs: 30 });
  feed.failWith = new FeedError("no");
  await until("it failed three times", () => (book.feeds.get("f")?.runner.failures ?? 0) >= 3);
  const pauseMs = () => {
    const { runner, lastAttemptMs } = book.feeds.get("f") ?? assert.fail();
    return runner.nextAtMs - lastAttemptMs;
  };
  await until("it waits", () => !Number.isNaN(pauseMs()));
  const { failures } = book.feeds.get("f")?.runner ?? assert.fail();
  const expectedMs = 30 * 2 ** (failures - 1);
  assert.ok(Math.abs(pauseMs() - expectedMs) < 10, `${pauseMs()} ms after ${failures} failures`);
  feed.failWith = new FeedError("limit", { retryAfterMs: 50_000 });
  await until("it waits as it was told", () => pauseMs() > 40_000);
});

test("price book: an error that is not the feed's is shown by its name only", async (t) => {
  const { feed, book, log } = scripted(t);
  feed.failWith = new TypeError("secret-in-a-text");
  await until("it failed", () => book.feeds.get("f")?.error !== null);
  assert.equal(book.feeds.get("f")?.error, "a fault inside the gateway (TypeError)");
  assert.ok(!log.lines.join("\n").includes("secret-in-a-text"));
});

test("price book: a feed that did not change keeps prices and timers over a reload, one that did asks at once", async (t) => {
  const { feed, book, configure } = scripted(t, CONFIG, { intervalMs: 3_600_000 });
  await until("the price is there", () => book.usdPerGpuHour(KEY) === 2);
  const runner = book.feeds.get("f")?.runner;
  const nextAtMs = runner?.nextAtMs;
  configure(CONFIG.replace("id: n,", "id: other,"));
  assert.equal(book.feeds.get("f")?.runner, runner);
  assert.equal(runner?.nextAtMs, nextAtMs);
  assert.deepEqual(book.usersOf(KEY), ["other"]);
  assert.equal(feed.fetches, 1);
  feed.usd = 3;
  configure(CONFIG.replace("url: http", "max_change: 50, url: http"));
  assert.equal(book.usdPerGpuHour(KEY), 2, "the last good price counts meanwhile");
  await until("it was asked again", () => book.usdPerGpuHour(KEY) === 3);
});

test("price book: a feed that went stops and takes its prices along, as one that became another account's does", async (t) => {
  const [feed, other] = [new ScriptedFeed(), new ScriptedFeed()];
  const { book, changes, configure } = runningBook(t, TWO_FEEDS, { feeds: { url: feed, lambda: other } });
  await until("the price is there", () => book.usdPerGpuHour(KEY) === 2);
  feed.failWith = new FeedError("no");
  configure(TWO_FEEDS.replace("url: http", "cloud_account: other, url: http"));
  assert.ok(Number.isNaN(book.usdPerGpuHour(KEY)));
  assert.deepEqual(changes.at(-1), [KEY]);
  configure("prices:\n  feeds:\n    - { name: g, provider: lambda }\n");
  assert.deepEqual([...book.feeds.keys()], ["g"]);
  const { fetches } = feed;
  const goal = other.fetches + 5;
  await until("the other feed was fetched often", () => other.fetches >= goal);
  assert.equal(feed.fetches, fetches);
});

test("price book: a fetch that ends after its feed went changes nothing", async (t) => {
  const gate = Promise.withResolvers<void>();
  const feed = new ScriptedFeed();
  feed.gate = gate.promise;
  const { book, changes, configure } = runningBook(t, CONFIG, { feeds: { url: feed } });
  configure("nodes: []\n");
  gate.resolve();
  await book.stop();
  assert.equal(book.entries.size, 0);
  assert.deepEqual(changes, []);
});

test("price book: a price that the feed leaves out stays while a node names it, with an alarm", async (t) => {
  const { feed, book, log } = scripted(t);
  feed.types = ["t", "u"];
  await until("both are there", () => book.entries.size === 2);
  feed.types = ["v"];
  await until("it is missing", () => book.feeds.get("f")?.alarms.has(`missing ${KEY}`) === true);
  assert.deepEqual([...book.entries.keys()].sort(), [KEY, "f/r/v/spot"], "what nobody names goes");
  assert.equal(log.count(/not in its feed.*"nodes":\["n"\]/), 1);
  const report = pricesReport(book, performance.now());
  assert.equal(report.feeds[0]?.state, "degraded");
});

test("price book: a price that no fetch confirms gets old, still counts, and is said once", async (t) => {
  const { feed, book, log } = scripted(t, CONFIG.replace("url: http", "stale_after_ms: 40, url: http"));
  await until("the price is there", () => book.usdPerGpuHour(KEY) === 2);
  feed.failWith = new FeedError("no");
  await until("it is stale", () => book.feeds.get("f")?.alarms.has(`stale ${KEY}`) === true);
  assert.equal(book.usdPerGpuHour(KEY), 2);
  assert.equal(pricesReport(book, performance.now()).prices[0]?.is_stale, true);
  feed.failWith = null;
  await until("it is fresh", () => book.feeds.get("f")?.alarms.size === 0);
  assert.equal(log.count(/a price is old/), 1);
});

test("price book: what the report says survives JSON, and unknown numbers are null", async (t) => {
  const gate = Promise.withResolvers<void>();
  const feed = new ScriptedFeed();
  feed.gate = gate.promise;
  const { book } = runningBook(t, CONFIG, { feeds: { url: feed } });
  const report = pricesReport(book, performance.now());
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
  const { state, last_success_age_ms, next_fetch_in_ms } = report.feeds[0] ?? {};
  assert.deepEqual(
    { state, last_success_age_ms, next_fetch_in_ms },
    {
      state: "waiting",
      last_success_age_ms: null,
      next_fetch_in_ms: null,
    },
  );
  assert.equal(report.prices[0]?.usd_per_gpu_hour, null);
  gate.resolve();
});

test("price book: a file that is half written, gone and back leaves the last good price", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-book-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "prices.csv");
  const head = "region,instance_type,market,usd_per_gpu_hour\n";
  writeFileSync(path, `${head}r,t,spot,2\n`);
  const text = oneFeed("file", `path: "${path}"`, KEY);
  const { book } = runningBook(t, text, { intervalMs: 600_000 });
  const error = () => book.feeds.get("f")?.error ?? null;
  await until("the list is read", () => book.usdPerGpuHour(KEY) === 2);
  writeFileSync(path, `${head}r,t,spot,3\nr,u,`);
  await until("half a list is refused", () => error() !== null);
  assert.equal(book.usdPerGpuHour(KEY), 2);
  appendFileSync(path, "spot,4\n");
  await until("the whole list is read", () => book.usdPerGpuHour(KEY) === 3);
  assert.equal(error(), null);
  unlinkSync(path);
  assert.equal(book.usdPerGpuHour(KEY), 3);
  writeFileSync(path, `${head}r,t,spot,5\n`);
  await until("the new list is read", () => book.usdPerGpuHour(KEY) === 5);
});

test("a package that is not installed is said with what to install; another fault of it stays one", async () => {
  const name = "@zml-none/no-such-package";
  await assert.rejects(
    optionalPackage(name, () => import(name)),
    (error: unknown) => error instanceof FeedError && error.message.includes(`npm install ${name}`),
  );
  await assert.rejects(
    optionalPackage(name, () => Promise.reject(new SyntaxError("broken"))),
    SyntaxError,
  );
});
