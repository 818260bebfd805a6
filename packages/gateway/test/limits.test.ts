/** Limits of keys and accounts on the data port: what is counted, what is told, and that everything is given back. */

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { pendingUsd, type RowLimits, spentUsd, writeLimits } from "@zml/engine";
import { FIXTURE_MODEL, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { ask, chatBody, post, RawClient } from "./raw-client.ts";
import { head, healthy, type NodeCall, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const NONE: RowLimits = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  concurrentRequests: null,
  budgetUsdPerDay: null,
  budgetUsdPerMonth: null,
};
const ACCOUNT_ROW = 0;

let node: ScriptedNode;
let plane: PlaneFixture;
/** Each test has a key of its own, so that nothing is left over from another. */
let key = "";
let row = 0;

before(async () => {
  node = await startScriptedNode(healthy("a"));
});
after(async () => {
  await node.stop();
});
beforeEach(async () => {
  node.script = healthy("a");
  key = "zml_test";
  row = 1;
  plane = await startPlane([{ id: "a", url: node.url, priceUsdPerHour: 3600, tokensPerSecond: 1000 }], {
    keys: [{ name: "app", value: key, limitRow: row }],
    file: { timeouts: { total_ms: 5_000 } },
  });
  writeLimits(plane.plane.limits, ACCOUNT_ROW, NONE);
  writeLimits(plane.plane.limits, row, NONE);
});

afterEach(() => plane.stop());

function limit(limits: Partial<RowLimits>, which = row): void {
  writeLimits(plane.plane.limits, which, { ...NONE, ...limits });
}

async function call(body: Record<string, unknown> = {}, path = "/v1/chat/completions") {
  const bytes = post(chatBody({ max_tokens: 8, ...body }), { authorization: `Bearer ${key}` })
    .toString("latin1")
    .replace("/v1/chat/completions", path);
  const answer = await ask(plane.port, Buffer.from(bytes, "latin1"));
  const { error } = JSON.parse(answer.body.toString() || "{}") as { error?: Record<string, string> };
  return { status: answer.status, headers: answer.headers, error: error ?? {} };
}

/** Nothing is held any more. */
async function isAllGivenBack(): Promise<void> {
  await plane.settled();
  const { limits } = plane.plane;
  for (const each of [ACCOUNT_ROW, row]) {
    assert.equal(limits.running[each], 0, "running");
    assert.equal(pendingUsd(limits, each), 0, "pending");
  }
}

describe("what a caller is told", () => {
  test("requests per minute: headers on every answer, and a 429 as OpenAI's clients know it", async () => {
    limit({ requestsPerMinute: 2 });
    const first = await call();
    assert.equal(first.status, 200);
    assert.deepEqual(
      ["limit", "remaining", "reset"].map((what) => first.headers[`x-ratelimit-${what}-requests`]),
      ["2", "1", "1m1s"],
    );
    assert.equal(first.headers["x-ratelimit-limit-tokens"], undefined);
    assert.equal((await call()).status, 200);
    const calls = node.calls.length;
    const refused = await call();
    assert.deepEqual(
      [refused.status, refused.error["code"], refused.error["type"]],
      [429, "rate_limit_exceeded", "requests"],
    );
    assert.match(
      refused.error["message"] ?? "",
      /key "app" on requests per minute: limit 2, used 2, requested 1: try again in \d+/,
    );
    assert.equal(refused.headers["x-ratelimit-remaining-requests"], "0");
    assert.ok(Number(refused.headers["retry-after"]) >= 59 && Number(refused.headers["retry-after"]) <= 61);
    assert.equal(refused.headers["x-should-retry"], undefined);
    assert.equal(node.calls.length, calls, "no node hears of it");
    await isAllGivenBack();
  });

  test("on /v1/messages a 429 has Anthropic's shape", async () => {
    limit({ requestsPerMinute: 1 });
    await call();
    const answer = await ask(
      plane.port,
      Buffer.from(
        post(chatBody(), { "x-api-key": key }).toString("latin1").replace("/v1/chat/completions", "/v1/messages"),
        "latin1",
      ),
    );
    const body = JSON.parse(answer.body.toString()) as { type: string; error: Record<string, string> };
    assert.equal(answer.status, 429);
    assert.deepEqual(
      [body.type, body.error["type"], body.error["code"]],
      ["error", "rate_limit_error", "rate_limit_exceeded"],
    );
    await isAllGivenBack();
  });

  test("on /v1/messages the headers are Anthropic's, and no other route has those", async () => {
    limit({ requestsPerMinute: 2, tokensPerMinute: 1_000 });
    const names = (headers: Record<string, unknown>) => Object.keys(headers).filter((name) => /ratelimit/.test(name));
    const began = Date.now();
    const first = await call({}, "/v1/messages");
    assert.equal(first.status, 200);
    const kinds = ["requests", "tokens"].flatMap((kind) =>
      ["limit", "remaining", "reset"].map((what) => `anthropic-ratelimit-${kind}-${what}`),
    );
    assert.deepEqual(names(first.headers), kinds);
    const {
      [`${kinds[0]}`]: most,
      [`${kinds[1]}`]: left,
      [`${kinds[2]}`]: reset,
      [`${kinds[3]}`]: tokens,
    } = first.headers;
    assert.deepEqual([most, left, tokens], ["2", "1", "1000"]);
    // the moment at which all of it is there again: a sliding minute and one of its slots from now
    assert.match(String(reset), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const inMs = Date.parse(String(reset)) - began;
    assert.ok(inMs > 59_000 && inMs < 61_500 + (Date.now() - began) + 1_000, `${inMs} ms`);
    assert.ok(
      names((await call()).headers).every((name) => name.startsWith("x-ratelimit-")),
      "the same key elsewhere",
    );
    const refused = await call({}, "/v1/messages");
    assert.equal(refused.status, 429);
    assert.deepEqual(names(refused.headers), kinds);
    assert.equal(refused.headers["anthropic-ratelimit-requests-remaining"], "0");
    await isAllGivenBack();
  });

  test("the tighter one of key and account is told, and named", async () => {
    limit({ requestsPerMinute: 5 });
    limit({ requestsPerMinute: 1 }, ACCOUNT_ROW);
    assert.equal((await call()).headers["x-ratelimit-limit-requests"], "1");
    const refused = await call();
    assert.match(refused.error["message"] ?? "", /the account "default" on requests per minute: limit 1/);
    limit({ requestsPerMinute: 5 }, ACCOUNT_ROW);
    assert.equal(
      (await call()).headers["x-ratelimit-remaining-requests"],
      "3",
      "the refused one took nothing of the key's",
    );
    await isAllGivenBack();
  });

  test("tokens: the estimate is reserved, what was used counts, and what never fits is told so", async () => {
    limit({ tokensPerMinute: 1000 });
    const first = await call();
    const left = Number(first.headers["x-ratelimit-remaining-tokens"]);
    assert.ok(left < 1000 && left > 900, `${left} left while it runs`);
    await plane.settled();
    const second = await call();
    const used = 1000 - Number(second.headers["x-ratelimit-remaining-tokens"]);
    // the node said 5 prompt and 2 output tokens of the first; the second one's estimate stands
    assert.ok(used < 2 * (1000 - left), `${used} used`);
    const never = await call({ max_tokens: 5000, n: 100 });
    assert.deepEqual([never.status, never.error["type"], never.headers["x-should-retry"]], [429, "tokens", "false"]);
    assert.equal(never.headers["retry-after"], undefined);
    assert.match(never.error["message"] ?? "", /above the limit: send less/);
    await isAllGivenBack();
  });

  test("a node's own rate-limit headers don't mix with ours", async () => {
    limit({ requestsPerMinute: 7 });
    node.script = (one) =>
      one.write(
        `${head(200, { "content-type": "application/json", "content-length": "2", "x-ratelimit-limit-requests": "999" })}{}`,
      );
    assert.equal((await call()).headers["x-ratelimit-limit-requests"], "7");
    limit({});
    assert.equal((await call()).headers["x-ratelimit-limit-requests"], "999");
    await isAllGivenBack();
  });
});

describe("budgets", () => {
  test("what was used of a node is spent at its price, and a used-up budget is insufficient_quota until it begins anew", async () => {
    limit({ budgetUsdPerDay: 0.1 });
    // 100 tokens at 1000 tokens/s are a tenth of a second at 1 USD a second
    node.script = (one) => {
      const body = JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 100 } });
      one.write(`${head(200, { "content-type": "application/json", "content-length": String(body.length) })}${body}`);
    };
    assert.equal((await call()).status, 200);
    await plane.settled();
    assert.ok(Math.abs(spentUsd(plane.plane.limits, row) - 0.1) < 1e-9);
    assert.ok(Math.abs(spentUsd(plane.plane.limits, ACCOUNT_ROW) - 0.1) < 1e-9, "the account spends it too");
    const refused = await call();
    assert.deepEqual(
      [refused.status, refused.error["code"], refused.error["type"], refused.headers["x-should-retry"]],
      [429, "insufficient_quota", "insufficient_quota", "false"],
    );
    assert.match(
      refused.error["message"] ?? "",
      /budget of the key "app" is used up: 0\.1 of 0\.1 USD this day: it begins anew at .*T00:00:00/,
    );
    const untilMidnight = 86_400 - (Math.floor(Date.now() / 1000) % 86_400);
    assert.ok(Math.abs(Number(refused.headers["retry-after"]) - untilMidnight) <= 2);
    await isAllGivenBack();
  });

  test("what runs is held against the budget, and given back when it ends", async () => {
    limit({ budgetUsdPerDay: 0.005 });
    let pending: NodeCall | null = null;
    node.script = (one) => {
      pending = one;
    };
    const running = call();
    await until(() => pending !== null);
    const refused = await call();
    assert.equal(refused.error["code"], "insufficient_quota");
    assert.match(refused.error["message"] ?? "", /held by requests that run/);
    assert.equal(refused.headers["retry-after"], "1");
    (pending as NodeCall | null)?.write(
      `${head(200, { "content-type": "application/json", "content-length": "2" })}{}`,
    );
    assert.equal((await running).status, 200);
    await isAllGivenBack();
  });

  for (const [what, body] of Object.entries({ "a whole answer": {}, embeddings: null })) {
    test(`a caller who leaves before ${what} has used what the node worked on until then`, async () => {
      limit({ tokensPerMinute: 10_000, budgetUsdPerDay: 100 });
      let isThere = false;
      node.script = () => {
        isThere = true;
      };
      const bytes = post(body === null ? chatBody({ input: "some words" }) : chatBody({ max_tokens: 1000, ...body }), {
        authorization: `Bearer ${key}`,
      }).toString("latin1");
      const client = await RawClient.open(plane.port);
      client.send(
        Buffer.from(body === null ? bytes.replace("/v1/chat/completions", "/v1/embeddings") : bytes, "latin1"),
      );
      await until(() => isThere);
      client.kill();
      await isAllGivenBack();
      assert.ok(Number(plane.plane.limits.tokens.sum[row]) > 0, "tokens");
      assert.ok(spentUsd(plane.plane.limits, row) > 0, "USD");
    });
  }

  test("a node without a price counts as free, and is told of once", async () => {
    limit({ budgetUsdPerDay: 1 });
    plane.table.priceUsdPerHour[0] = Number.NaN;
    for (let index = 0; index < 3; index++) assert.equal((await call()).status, 200);
    await plane.settled();
    assert.equal(spentUsd(plane.plane.limits, row), 0);
    assert.equal(plane.logs.filter((line) => /without a known price/.test(line)).length, 1);
    assert.match(plane.logs.join(), /"node":"a"/);
  });
});

describe("requests at one time are given back on every way out", () => {
  /** Sends a request and ends it in some way; resolves when it has ended. */
  const ways: Record<string, () => Promise<unknown>> = {
    "a plain answer": () => call(),
    "a stream": () => call({ stream: true }).catch(() => {}),
    "a refused body": () => ask(plane.port, post("[]", { authorization: `Bearer ${key}` })),
    "a model that is none": () => call({ model: "nope" }),
    "a node's 500": () => {
      node.script = (one) => one.write(`${head(500, { "content-length": "0" })}`);
      return call();
    },
    "a node's 400": () => {
      node.script = (one) => one.write(`${head(400, { "content-type": "application/json", "content-length": "2" })}{}`);
      return call();
    },
    "a connection that breaks": () => {
      node.script = (one) => one.rst();
      return call();
    },
    "a stream that breaks": () => {
      node.script = (one) => {
        one.write(
          `${head(200, { "content-type": "text/event-stream" })}data: {"choices":[{"delta":{"content":"x"}}]}\n\n`,
        );
        one.rst();
      };
      return ask(plane.port, post(chatBody({ stream: true }), { authorization: `Bearer ${key}` })).catch(() => {});
    },
    "a caller who leaves before the head": async () => {
      let isThere = false;
      node.script = () => {
        isThere = true;
      };
      const client = await RawClient.open(plane.port);
      client.send(post(chatBody(), { authorization: `Bearer ${key}` }));
      await until(() => isThere);
      client.kill();
    },
    "a caller who leaves within a stream": async () => {
      node.script = (one) =>
        one.write(
          `${head(200, { "content-type": "text/event-stream" })}data: {"choices":[{"delta":{"content":"x"}}]}\n\n`,
        );
      const client = await RawClient.open(plane.port);
      client.send(post(chatBody({ stream: true }), { authorization: `Bearer ${key}` }));
      await client.waitFor("data:");
      client.kill();
    },
    "a caller who leaves within the body": async () => {
      const client = await RawClient.open(plane.port);
      client.send(post(chatBody(), { authorization: `Bearer ${key}` }).subarray(0, -5));
      client.kill();
    },
    "no room": () => {
      plane.table.maxInFlight[0] = 0;
      return call();
    },
    "a drain": async () => {
      let isThere = false;
      node.script = () => {
        isThere = true;
      };
      const running = call().catch(() => {});
      await until(() => isThere);
      await plane.server.drain(10);
      await running;
    },
  };
  for (const [name, end] of Object.entries(ways)) {
    test(name, async () => {
      limit({ concurrentRequests: 1, requestsPerMinute: 1000, tokensPerMinute: 1_000_000, budgetUsdPerDay: 100 });
      await end();
      await isAllGivenBack();
      assert.ok(Number(plane.plane.limits.tokens.sum[row]) >= 0);
    });
  }

  test("one more than the limit is a 429, and another one is let in when one ended", async () => {
    limit({ concurrentRequests: 1 });
    let pending: NodeCall | null = null;
    node.script = (one) => {
      pending = one;
    };
    const running = call();
    await until(() => pending !== null);
    const refused = await call();
    assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "1"]);
    assert.match(refused.error["message"] ?? "", /concurrent requests: limit 1, used 1/);
    (pending as NodeCall | null)?.write(
      `${head(200, { "content-type": "application/json", "content-length": "2" })}{}`,
    );
    assert.equal((await running).status, 200);
    await plane.settled();
    node.script = healthy("a");
    assert.equal((await call({ model: FIXTURE_MODEL })).status, 200);
    await isAllGivenBack();
  });
});
