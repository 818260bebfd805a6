import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { FeedConfig } from "@zml/protocol";
import { configured } from "../control/testing/configured.ts";
import { FeedError } from "./feed-context.ts";
import { FeedRunner } from "./feed-runner.ts";

const { config } = configured("prices:\n  feeds:\n    - { name: f, provider: lambda }\n");
const [feed = null as never] = config.prices.feeds;

test("pauses after failures grow to fifteen minutes and no further, and nothing is asked after the end", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const pauses: number[] = [];
  let fetches = 0;
  const runner = new FeedRunner({
    config: { ...feed, intervalMs: 86_400_000 } satisfies FeedConfig,
    apiKey: null,
    feed: {
      fetchPrices: async () => {
        fetches += 1;
        throw new FeedError("no");
      },
    },
    clock: { nowMs: () => 0, unixMs: () => 0, random: () => 0.5 },
    events: { onAnswer: () => assert.fail("it never answers"), onFailure: () => {} },
  });
  runner.start();
  for (let failure = 0; failure < 30; failure++) {
    await turn();
    pauses.push(runner.nextAtMs);
    t.mock.timers.tick(runner.nextAtMs);
  }
  assert.deepEqual(pauses.slice(0, 3), [10_000, 20_000, 40_000]);
  assert.deepEqual(pauses.slice(-1), [900_000]);
  await runner.stop();
  const before = fetches;
  t.mock.timers.tick(10_000_000);
  await turn();
  assert.equal(fetches, before);
});
