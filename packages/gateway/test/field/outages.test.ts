/** J: trials, and fleets that are down. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { watchDeadlines } from "../../src/control/deadline-watch.ts";
import { chat, errorOf, until } from "../plane-fixture.ts";
import { chatBody, post } from "../raw-client.ts";
import { answering, chunk, healthy, type NodeCall, type NodeScript, STREAM_HEAD } from "../scripted-node.ts";
import { isLong, longForm, pause, startField } from "./field-fixture.ts";

const OVERLOAD = '{"error":{"message":"server overloaded: queue is full","code":503}}';

const callsOf = (nodes: readonly { calls: readonly NodeCall[] }[]): number =>
  nodes.reduce((sum, node) => sum + node.calls.length, 0);

describe("a trial gives its lease back", () => {
  const outcomes: [
    name: string,
    run: (trial: { script(script: NodeScript): void; ask(): Promise<void>; cancel(): Promise<void> }) => Promise<void>,
    isNeutral: boolean,
  ][] = [
    [
      "its caller leaves",
      async ({ script, cancel }) => {
        script(() => {});
        await cancel();
      },
      true,
    ],
    [
      "a 400",
      async ({ script, ask }) => {
        script(answering(400, "{}"));
        await ask();
      },
      true,
    ],
    [
      "an overload",
      async ({ script, ask }) => {
        script(answering(429, "{}"));
        await ask();
      },
      true,
    ],
    [
      "a failure",
      async ({ script, ask }) => {
        script(answering(500, "{}"));
        await ask();
      },
      false,
    ],
    [
      "a time-out",
      async ({ script, ask }) => {
        script(() => {});
        await ask();
      },
      false,
    ],
    [
      "a reset in its answer",
      async ({ script, ask }) => {
        script((call) => {
          call.write(STREAM_HEAD + chunk('data: {"x'));
          setTimeout(() => call.rst(), 10);
        });
        await ask();
      },
      false,
    ],
  ];
  for (const [name, run] of outcomes) {
    test(`J08: whose outcome is ${name}: the next request is tried`, async (t) => {
      const { plane, nodes, caller } = await startField(t, [answering(500, "{}")], {
        file: { failover: { cooldown_ms: 150, cooldown_max_ms: 150 }, timeouts: { first_byte_ms: 100 } },
      });
      const node = nodes[0];
      assert.ok(node !== undefined);
      await (await chat(plane.url)).text();
      assert.notEqual(plane.table.cooldownUntil[0], 0);
      // until the cooldown is over every request is refused without asking the node
      const untilAsked = async (ask: () => Promise<unknown>): Promise<void> => {
        const before = node.calls.length;
        const deadline = performance.now() + 4000;
        while (node.calls.length === before) {
          assert.ok(performance.now() < deadline, "no trial came");
          await ask();
        }
      };
      await run({
        script: (script) => {
          node.script = script;
        },
        ask: () => untilAsked(async () => (await chat(plane.url, { stream: true })).text().catch(() => "")),
        cancel: () =>
          untilAsked(async () => {
            const client = await caller();
            client.send(post(chatBody()));
            const before = node.calls.length;
            await until(() => node.calls.length > before || client.answers().length > 0);
            client.kill();
          }),
      });
      await plane.settled();
      assert.equal(plane.table.trialUntil[0], 0, "the lease is back");
      node.script = healthy("a");
      await untilAsked(async () => (await chat(plane.url)).text());
      assert.equal((await chat(plane.url)).status, 200);
      assert.equal(plane.table.cooldownUntil[0], 0);
    });
  }
});

describe("an outage", () => {
  // ten re-dispatches a second are always allowed, 100 per window: more traffic than that shows the share
  const requests = 1000;
  for (const [name, script] of [
    ["503s that say overload", answering(503, OVERLOAD)],
    ["503s that say nothing", answering(503, "{}")],
    ["resets", (call: NodeCall) => call.rst()],
  ] as [string, NodeScript][]) {
    test(`J10: of ${name} at every node costs at most 1.2 times the requests`, async (t) => {
      const { plane, nodes } = await startField(t, [script, script, script]);
      const some = async (): Promise<void> => {
        for (let each = 0; each < requests / 20; each++) {
          const response = await chat(plane.url);
          assert.ok(response.status >= 500, String(response.status));
          await response.text();
        }
      };
      const startMs = performance.now();
      await Promise.all(Array.from({ length: 20 }, some));
      // a machine so slow that a second half-window begins gives what is always allowed once more
      const always = performance.now() - startMs > 5_000 ? 100 : 0;
      assert.ok(callsOf(nodes) <= 1.2 * requests + always, `${callsOf(nodes)} for ${requests}`);
    });
  }

  test("J10: what the caller is told lets no client add its own retries to ours", async (t) => {
    const { plane } = await startField(t, [answering(500, "{}"), answering(500, "{}")]);
    assert.equal((await chat(plane.url)).headers.get("x-should-retry"), "false");
    const refused = await chat(plane.url);
    assert.equal(refused.status, 503);
    assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/, "when all cool it is told when to come back");
    assert.equal((await errorOf(refused)).code, "no_node_available");
  });

  const CLIENTS = isLong ? 500 : 120;
  for (const [name, policy] of [
    ["callers who try again", {}],
    ["callers who wait in the queue", { queueOnSaturation: true, maxQueueMs: 10_000 }],
  ] as const) {
    test(`J12: nodes that come up under the load of ${CLIENTS} ${name} serve all of them`, longForm, async (t) => {
      const downMs = isLong ? 5000 : 700;
      const patienceMs = isLong ? 30_000 : 8000;
      const startedAtMs = performance.now();
      const loading: NodeScript = (call, index) =>
        performance.now() - startedAtMs < downMs
          ? answering(503, '{"error":{"message":"model is loading"}}')(call, index)
          : healthy("a")(call, index);
      const { plane } = await startField(t, [loading, loading, loading], {
        file: { failover: { cooldown_ms: 300 } },
        policy,
      });
      // the control thread's part: without it nobody who is parked hears of a cooldown's end
      const rows = [0, 1, 2].map((row) => ({ row, placements: new Map<string, number>() }));
      t.after(watchDeadlines(plane.table, () => rows, plane.plane.clock));
      const one = async (): Promise<boolean> => {
        while (performance.now() - startedAtMs < patienceMs) {
          const response = await chat(plane.url);
          await response.text();
          if (response.status === 200) return true;
          await pause(200 + Math.random() * 200);
        }
        return false;
      };
      const served = (await Promise.all(Array.from({ length: CLIENTS }, one))).filter(Boolean).length;
      assert.ok(served >= 0.95 * CLIENTS, `${served} of ${CLIENTS}`);
    });
  }
});
