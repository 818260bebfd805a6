import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FleetTable } from "@zml/engine";
import type { PollResponse } from "./adapters/adapter.ts";
import type { NodeSpec } from "./node-spec.ts";
import { type PollClient, PollError, type PollFault, type PollRequest } from "./poll-fetch.ts";
import type { PollerOptions } from "./poller-options.ts";
import { fleetOf, VirtualTime } from "./testing/virtual-time.ts";

/** What a node does at a poll: a fault of all its paths, or its answers by path. */
type Behaviour = PollFault | Readonly<Record<string, string | number>>;

const rowOf = (request: PollRequest): number => Number(request.origin.slice("http://node-".length));

const ok = (body: string): PollResponse => ({ status: 200, contentType: null, body });

/** Nodes by row; a text is a body, a number a status. */
function nodesOf(time: VirtualTime, behaviourOf: (row: number) => Behaviour): PollClient {
  return {
    fetch: (request) => {
      const behaviour = behaviourOf(rowOf(request));
      if (behaviour === "timeout") {
        return new Promise((_, reject) =>
          request.signal.addEventListener("abort", () => reject(new PollError("timeout", "late"))),
        );
      }
      if (typeof behaviour === "string") return Promise.reject(new PollError(behaviour, "no answer"));
      const answer = behaviour[request.path] ?? 404;
      return Promise.resolve(
        typeof answer === "string" ? ok(answer) : { status: answer, contentType: null, body: "" },
      ).then((response) => new Promise((resolve) => time.after(5, () => resolve(response))));
    },
    close: async () => {},
  };
}

function busyVllm(numbers: { running: number; generated: number; successes?: number; errors?: number }): Behaviour {
  const { running, generated, successes = 0, errors = 0 } = numbers;
  return {
    "/health": "",
    "/metrics":
      `vllm:num_requests_running ${running}\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total ${generated}\n` +
      `vllm:request_success_total{finished_reason="stop"} ${successes}\n` +
      `vllm:request_success_total{finished_reason="error"} ${errors}\n`,
    "/v1/models": '{"data":[{"id":"m","max_model_len":4096}]}',
  };
}

function start(
  behaviourOf: (row: number, time: VirtualTime) => Behaviour,
  more: { nodes?: number; spec?: (row: number) => Partial<NodeSpec>; poller?: Partial<PollerOptions> } = {},
) {
  const time = new VirtualTime();
  const events: string[] = [];
  const client = nodesOf(time, (row) => behaviourOf(row, time));
  const { table, poller } = fleetOf(time, {
    nodes: more.nodes ?? 1,
    client,
    random: () => 0.5,
    ...(more.spec === undefined ? {} : { spec: more.spec }),
    poller: {
      onDown: (row, cause) => events.push(`down ${row} ${cause}`),
      onUp: (row) => events.push(`up ${row}`),
      onKeptIn: (row, cause) => events.push(`kept in ${row} ${cause}`),
      onEngine: (row, engine) => events.push(`engine ${row} ${engine}`),
      ...more.poller,
    },
  });
  const run = (untilMs: number) => time.run(untilMs, () => {});
  return { time, table, poller, events, run };
}

const outRows = (table: FleetTable, rows: number): number[] =>
  Array.from({ length: rows }, (_, row) => row).filter((row) => table.isUnhealthy[row] === 1);

describe("a node that stands still behind a green page", () => {
  it("is out after some polls without a token, and back with the first token", async () => {
    let generated = 1_000;
    const { table, poller, events, run } = start(() => busyVllm({ running: 4, generated }));
    await run(20_000);
    assert.equal(table.isUnhealthy[0], 0, "20 s may be a large prompt");
    await run(35_000);
    assert.equal(table.isUnhealthy[0], 1);
    assert.deepEqual(events.slice(-1), ["down 0 stalled"]);
    assert.equal(poller.factsOf(0)?.downCause, "stalled");
    assert.ok((table.goodPolls[0] as number) >= 7, "its page is green all the time");
    generated += 1;
    await run(40_000);
    assert.equal(table.isUnhealthy[0], 0);
    assert.deepEqual(events.slice(-1), ["up 0"]);
    await poller.stop();
  });

  it("stays in while our own streams bring bytes, or while nothing runs", async () => {
    const { table, poller, run } = start(() => busyVllm({ running: 4, generated: 1_000 }));
    for (let second = 1; second <= 60; second++) {
      table.relayed[0] = second;
      await run(second * 1_000 + 1_000);
    }
    assert.equal(table.isUnhealthy[0], 0);
    await poller.stop();
    const idle = start(() => busyVllm({ running: 0, generated: 1_000 }));
    await idle.run(60_000);
    assert.equal(idle.table.isUnhealthy[0], 0);
    await idle.poller.stop();
  });

  it("is told by the configured number of polls", async () => {
    const health = { pollIntervalMs: 5_000, timeoutMs: 4_000, unhealthyAfter: 2, healthyAfter: 1, stalledAfter: 2 };
    const { table, poller, run } = start(() => busyVllm({ running: 4, generated: 1_000 }), {
      spec: () => ({ health }),
    });
    await run(14_000);
    assert.equal(table.isUnhealthy[0], 1);
    await poller.stop();
  });
});

describe("ejection by health alone", () => {
  it("leaves half of a model's nodes in when all fall silent, and says so", async () => {
    let isSilent = false;
    const { table, poller, events, run } = start(
      (row) => (isSilent ? "timeout" : busyVllm({ running: 0, generated: row })),
      { nodes: 5 },
    );
    await run(12_000);
    isSilent = true;
    await run(60_000);
    assert.equal(outRows(table, 5).length, 2);
    const kept = [0, 1, 2, 3, 4].filter((row) => poller.factsOf(row)?.isKeptIn);
    assert.equal(kept.length, 3);
    for (const row of kept) assert.equal(table.isUnhealthy[row], 0);
    isSilent = false;
    await run(75_000);
    assert.deepEqual(outRows(table, 5), []);
    const count = (word: string) => events.filter((event) => event.startsWith(word)).length;
    assert.equal(count("up"), count("down"));
    assert.equal(count("kept in"), 3);
    await poller.stop();
  });

  it("does not count nodes that refuse, or say that they are not ready", async () => {
    let isDown = false;
    const { table, poller, run } = start(
      (row) => {
        if (!isDown || row === 4) return busyVllm({ running: 0, generated: 0 });
        return row < 2 ? "refused" : { "/health": 503 };
      },
      { nodes: 5 },
    );
    await run(12_000);
    isDown = true;
    await run(40_000);
    assert.deepEqual(outRows(table, 5), [0, 1, 2, 3]);
    await poller.stop();
  });

  it("holds when the nodes that answer turn out to be gone, and when nodes leave", async () => {
    const behaviours: Behaviour[] = Array.from({ length: 4 }, () => busyVllm({ running: 0, generated: 0 }));
    const { table, poller, run } = start((row) => behaviours[row] as Behaviour, { nodes: 4 });
    await run(12_000);
    behaviours[0] = "timeout";
    behaviours[1] = "timeout";
    await run(30_000);
    assert.deepEqual(outRows(table, 4), [0, 1]);
    behaviours[2] = "refused";
    await run(45_000);
    assert.equal(outRows(table, 4).length, 2, "one refused, one of three silent");
    assert.equal(table.isUnhealthy[2], 1);
    poller.removeNode(3);
    await run(60_000);
    assert.equal(outRows(table, 3).length, 2);
    await poller.stop();
  });

  it("does not keep in a silent node that begins to say that it is not ready", async () => {
    const behaviours: Behaviour[] = [busyVllm({ running: 0, generated: 0 }), busyVllm({ running: 0, generated: 0 })];
    const { table, poller, run } = start((row) => behaviours[row] as Behaviour, { nodes: 2 });
    await run(12_000);
    behaviours.fill("timeout");
    await run(30_000);
    const [kept = -1] = [0, 1].filter((row) => table.isUnhealthy[row] === 0);
    assert.deepEqual(outRows(table, 2), [1 - kept]);
    behaviours[kept] = { "/health": 503 };
    await run(45_000);
    assert.deepEqual(outRows(table, 2), [0, 1]);
    assert.equal(poller.factsOf(kept)?.downCause, "not_ready");
    await poller.stop();
  });

  it("takes all out where the share says so, and none where it is 0", async () => {
    for (const [maxEjectedShare, out] of [
      [1, 3],
      [0, 0],
    ] as const) {
      let isSilent = false;
      const { table, poller, run } = start(() => (isSilent ? "timeout" : busyVllm({ running: 0, generated: 0 })), {
        nodes: 3,
      });
      poller.configure({ maxEjectedShare, maxPollsAtOnce: 16 });
      await run(12_000);
      isSilent = true;
      await run(40_000);
      assert.equal(outRows(table, 3).length, out);
      await poller.stop();
    }
  });
});

describe("the load of a node that stays in while its polls fail", () => {
  it("is unknown after three rounds without an answer of its metrics", async () => {
    let behaviour: Behaviour = busyVllm({ running: 50, generated: 0 });
    const { time, table, poller, run } = start(() => behaviour, { poller: { lastTrafficAtMs: () => time.nowMs } });
    await run(12_000);
    assert.equal(table.foreign[0], 50);
    behaviour = "timeout";
    await run(20_000);
    assert.equal(table.foreign[0], 50, "one late round may be chance");
    await run(40_000);
    assert.equal(table.isUnhealthy[0], 0, "requests pass");
    assert.ok(Number.isNaN(table.foreign[0] as number), `${table.foreign[0]} after 25 s of silence`);
    assert.ok(Number.isNaN(table.running[0] as number));
    await poller.stop();
  });

  it("and its limit stay while its metrics fail for a round", async () => {
    const page = "trtllm_num_requests_running 50\ntrtllm_num_requests_waiting 0\ntrtllm_max_num_active_requests 8\n";
    let metrics: string | number = page;
    const answers = () => ({ "/health": "", "/prometheus/metrics": metrics, "/v1/models": '{"data":[{"id":"m"}]}' });
    const { table, poller, run } = start(answers, { spec: () => ({ engine: "trtllm" }) });
    await run(12_000);
    assert.deepEqual([table.foreign[0], table.maxInFlight[0]], [50, 10]);
    metrics = 503;
    await run(17_000);
    assert.deepEqual([table.foreign[0], table.maxInFlight[0]], [50, 10]);
    await run(40_000);
    assert.ok(Number.isNaN(table.foreign[0] as number), "not for ever");
    assert.equal(poller.factsOf(0)?.metricsAnswer, "failed");
    await poller.stop();
  });

  it("is what its metrics say while only its health page is bad", async () => {
    let running = 50;
    let health: string | number = "";
    const answers = () => ({ ...(busyVllm({ running, generated: running }) as object), "/health": health });
    const { time, table, poller, run } = start(answers, { poller: { lastTrafficAtMs: () => time.nowMs } });
    await run(12_000);
    running = 3;
    health = 500;
    await run(40_000);
    assert.equal(table.isUnhealthy[0], 0, "requests pass");
    assert.equal(table.foreign[0], 3);
    await poller.stop();
  });
});

describe("measured speeds", () => {
  it("never show what no node can give, whatever a counter says", async () => {
    let generated = 0;
    const { table, poller, run } = start(() => busyVllm({ running: 8, generated }));
    await run(12_000);
    generated = 9e14;
    await run(30_000);
    const capacity = table.measuredTokensPerSecond[0] as number;
    assert.ok(!(capacity > 1e7), `${capacity} tokens/s`);
    await poller.stop();
  });

  it("of one engine go when another one speaks behind the address", async () => {
    let second = 0;
    let behaviour = (): Behaviour => busyVllm({ running: 8, generated: 4_000 * second });
    const { time, table, poller, run } = start(() => behaviour(), { spec: () => ({ engine: null }) });
    for (; second < 30; second++) await run(time.nowMs + 1_000);
    assert.ok((table.measuredTokensPerSecond[0] as number) > 3_000);
    behaviour = () => ({
      "/health": "",
      "/metrics": "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:tokens_predicted_total 9\n",
      "/v1/models": '{"data":[{"id":"m","owned_by":"llamacpp"}]}',
    });
    await run(time.nowMs + 40_000);
    assert.equal(poller.factsOf(0)?.engine, "llamacpp");
    assert.ok(Number.isNaN(table.measuredTokensPerSecond[0] as number));
    await poller.stop();
  });
});

describe("what polls tell beside the row", () => {
  it("says when each source was last heard, and why the metrics are unknown", async () => {
    let metrics: string | number = "vllm:num_requests_running 1\n";
    const answers = () => ({ "/health": "", "/metrics": metrics, "/v1/models": '{"data":[{"id":"m"}]}' });
    const { time, poller, run } = start(() => answers());
    await run(2_000);
    const first = poller.factsOf(0);
    assert.equal(first?.metricsAnswer, "ok");
    assert.ok((first?.heardAt.modelsMs ?? 0) > 0);
    metrics = 401;
    await run(12_000);
    const later = poller.factsOf(0);
    assert.equal(later?.metricsAnswer, "refused");
    assert.ok((later?.heardAt.metricsMs ?? Number.NaN) < 2_000);
    assert.ok(time.nowMs - (later?.heardAt.healthMs ?? Number.NaN) < 5_000);
    await poller.stop();
  });

  it("keeps the last failed poll in words that show no path or query of the node's URL", async () => {
    const url = "http://node-0/llm?key=secret";
    const { poller, run } = start(() => "timeout", { spec: () => ({ url }) });
    await run(20_000);
    assert.match(poller.factsOf(0)?.lastError?.words ?? "", /^no answer within 4000 ms$/);
    await poller.stop();
  });

  it("tells the token rates between two looks, and none across a restart", async () => {
    let generated = 0;
    const { poller, run } = start((_, time) => {
      generated = Math.round(time.nowMs / 10);
      return busyVllm({ running: 1, generated });
    });
    await run(2_000);
    assert.ok(Number.isNaN(poller.factsOf(0)?.rates.generation), "one look is no rate");
    await run(12_000);
    const rate = poller.factsOf(0)?.rates.generation ?? Number.NaN;
    assert.ok(Math.abs(rate - 100) < 5, `${rate} tokens/s`);
    await poller.stop();
  });

  it("finds out that another engine runs behind the address, without a new configuration", async () => {
    let behaviour: Behaviour = busyVllm({ running: 1, generated: 5 });
    const { poller, events, run, table } = start(() => behaviour, { spec: () => ({ engine: null }) });
    await run(12_000);
    assert.deepEqual(events, ["engine 0 vllm"]);
    behaviour = {
      "/health": "",
      "/metrics": "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:tokens_predicted_total 9\n",
      "/v1/models": '{"data":[{"id":"m","owned_by":"llamacpp"}]}',
      "/props": '{"total_slots":4,"default_generation_settings":{"n_ctx":2048}}',
    };
    await run(30_000);
    assert.deepEqual(events, ["engine 0 vllm", "engine 0 llamacpp"]);
    assert.equal(table.running[0], 2);
    assert.equal(table.isUnhealthy[0], 0);
    assert.ok((poller.factsOf(0)?.redetectedAtMs ?? Number.NaN) > 12_000);
    await poller.stop();
  });
});

describe("traffic that is not ours", () => {
  it("fills the error rate and the last success while we have none of our own, and no longer than that", async () => {
    let successes = 0;
    let errors = 0;
    const { time, table, poller, run } = start(() => {
      successes += 3;
      errors += 1;
      return busyVllm({ running: 1, generated: successes, successes, errors });
    });
    await run(120_000);
    const rate = table.errorRate[0] as number;
    assert.ok(Math.abs(rate - 0.25) < 0.01, `${rate}`);
    assert.ok(time.nowMs - (table.lastSuccessAtMs[0] as number) < 5_000);
    const own = { row: 0, placement: 0, model: 0, outputTokens: 1, promptTokens: 1, durationMs: 1, firstTokenMs: 1 };
    for (let attempt = 0; attempt < 100; attempt++) {
      poller.takeSamples([{ ...own, atMs: time.nowMs, outcome: "success" }]);
    }
    const ownRate = table.errorRate[0] as number;
    assert.ok(ownRate < 0.01);
    await run(time.nowMs + 30_000);
    assert.equal(table.errorRate[0], ownRate, "what we see ourselves counts");
    await poller.stop();
  });
});

describe("a node that refuses", () => {
  it("is asked again within 300 ms, and out then: requests hang on it", async () => {
    let behaviour: Behaviour = busyVllm({ running: 0, generated: 0 });
    const asked: number[] = [];
    const { time, table, poller, run } = start(() => {
      if (behaviour === "refused") asked.push(time.nowMs);
      return behaviour;
    });
    await run(12_000);
    behaviour = "refused";
    while (table.isUnhealthy[0] === 0 && time.nowMs < 30_000) await run(time.nowMs + 50);
    const [first = Number.NaN] = asked;
    assert.ok(time.nowMs - first <= 300, `${time.nowMs - first} ms after the first refusal`);
    await poller.stop();
  });
});

describe("a node that is silent", () => {
  it("is asked one path at a time, and is seen at most an interval and a time-out after it returns", async () => {
    let isSilent = false;
    const asked: { atMs: number; path: string }[] = [];
    const time = new VirtualTime();
    const inner = nodesOf(time, () => (isSilent ? "timeout" : busyVllm({ running: 0, generated: 0 })));
    const client: PollClient = {
      fetch: (request) => {
        asked.push({ atMs: time.nowMs, path: request.path });
        return inner.fetch(request);
      },
      close: async () => {},
    };
    const { table, poller } = fleetOf(time, { nodes: 1, client, random: () => 0.999 });
    await time.run(12_000, () => {});
    isSilent = true;
    await time.run(60_000, () => {});
    const late = asked.filter(({ atMs }) => atMs > 30_000);
    const moments = new Set(late.map(({ atMs }) => atMs));
    assert.equal(late.length, moments.size, "one path each time");
    assert.ok(new Set(late.map(({ path }) => path)).size > 1, "another path each time");
    assert.equal(table.isUnhealthy[0], 1);
    isSilent = false;
    const returnedAtMs = time.nowMs;
    while (table.isUnhealthy[0] === 1) await time.run(time.nowMs + 100, () => {});
    assert.ok(time.nowMs - returnedAtMs <= 9_000, `${time.nowMs - returnedAtMs} ms`);
    await poller.stop();
  });
});
