import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type PollClient, PollError } from "./poll-fetch.ts";
import { fleetOf, VirtualTime } from "./testing/virtual-time.ts";

/** Answers 200 after `answerMs(origin)`; Infinity: never. */
function clientOf(time: VirtualTime, answerMs: (origin: string) => number): PollClient {
  return {
    fetch: ({ origin, signal }) =>
      new Promise((resolve, reject) => {
        const delayMs = answerMs(origin);
        const body = { status: 200, contentType: null, body: "" };
        const cancel = delayMs === Infinity ? () => {} : time.after(delayMs, () => resolve(body));
        signal.addEventListener("abort", () => {
          cancel();
          reject(new PollError("timeout", "late"));
        });
      }),
    close: async () => {},
  };
}

/** A busy vLLM that generates at a steady rate; its answers take `answerMs(turn)`. */
function steadyNode(
  time: VirtualTime,
  node: { tokensPerSecond: number; answerMs: (turn: number) => number; countsWhen: "asked" | "answered" },
): PollClient {
  let turns = 0;
  const metrics = () => {
    const total = Math.round((node.tokensPerSecond * time.nowMs) / 1000);
    const body = `vllm:num_requests_running 8\nvllm:generation_tokens_total ${total}\n`;
    return { status: 200, contentType: null, body };
  };
  return {
    fetch: ({ path }) => {
      if (path !== "/metrics") return Promise.resolve({ status: 200, contentType: null, body: "" });
      turns += 1;
      const asked = metrics();
      return new Promise((resolve) => {
        time.after(node.answerMs(turns), () => resolve(node.countsWhen === "asked" ? asked : metrics()));
      });
    },
    close: async () => {},
  };
}

describe("capacity learned by the poller in virtual time", () => {
  for (const countsWhen of ["asked", "answered"] as const) {
    for (const [pollIntervalMs, lateMs] of [
      [250, 180],
      [1_000, 900],
      [5_000, 3_500],
    ] as const) {
      it(`is the node's, polled every ${pollIntervalMs} ms, by turns ${lateMs} ms late, counted when ${countsWhen}`, async () => {
        const time = new VirtualTime();
        const { table, poller } = fleetOf(time, {
          nodes: 1,
          pollIntervalMs,
          random: () => 0.5,
          client: steadyNode(time, {
            tokensPerSecond: 3_500,
            answerMs: (turn) => (turn % 2 === 0 ? lateMs : 3),
            countsWhen,
          }),
        });
        let least = Infinity;
        let most = 0;
        let looks = 0;
        await time.run(240_000, () => {
          const learned = table.measuredTokensPerSecond[0] as number;
          if (Number.isNaN(learned)) return;
          looks += 1;
          least = Math.min(least, learned);
          most = Math.max(most, learned);
        });
        await poller.stop();
        assert.ok(looks > 20, "something was learned");
        assert.ok(least > 3_150 && most < 3_850, `${least} to ${most} tokens/s`);
      });
    }
  }
});

describe("the poller in virtual time", () => {
  for (const random of [0, 0.999_999]) {
    it(`lets no row grow older than 5 s while its node answers within 500 ms (draw ${random})`, async () => {
      const time = new VirtualTime();
      const { table, poller } = fleetOf(time, { nodes: 1, client: clientOf(time, () => 500), random: () => random });
      await time.run(2_000, () => {});
      let oldestMs = 0;
      await time.run(200_000, () => {
        oldestMs = Math.max(oldestMs, time.nowMs - (table.polledAtMs[0] as number));
      });
      assert.ok(oldestMs > 4_000 && oldestMs <= 5_000, `${oldestMs} ms`);
      await poller.stop();
      assert.equal(time.pending, 0);
    });
  }

  it("keeps living rows fresh while more nodes are silent than may be asked at once", async () => {
    const time = new VirtualTime();
    const isSilent = (origin: string) => Number(origin.slice("http://node-".length)) >= 4;
    const { table, poller } = fleetOf(time, {
      nodes: 604,
      client: clientOf(time, (origin) => (isSilent(origin) ? Infinity : 20)),
      random: () => 0.5,
    });
    poller.configure({ maxEjectedShare: 1, maxPollsAtOnce: 64 });
    // the first rounds have to find out who is silent
    await time.run(150_000, () => {});
    let oldestMs = 0;
    await time.run(190_000, () => {
      for (let row = 0; row < 4; row++) oldestMs = Math.max(oldestMs, time.nowMs - (table.polledAtMs[row] as number));
    });
    assert.ok(oldestMs < 5_000, `${oldestMs} ms`);
    assert.equal(table.isUnhealthy[4], 1);
    assert.equal(table.isUnhealthy[603], 1);
    await poller.stop();
  });
});
