/** J: what is tried again, and what a failure does to its node. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chat } from "../plane-fixture.ts";
import { chatBody, post } from "../raw-client.ts";
import {
  answering,
  chunk,
  ERROR_EVENT,
  healthy,
  LAST_CHUNK,
  type NodeCall,
  type NodeScript,
  STREAM_HEAD,
  streaming,
  token,
} from "../scripted-node.ts";
import { isLong, longForm, pause, routingOf, startField } from "./field-fixture.ts";

const OVERLOAD = '{"error":{"message":"server overloaded: queue is full","code":503}}';
const MANY = 100;

describe("nothing is repeated that was begun", () => {
  for (const events of [0, 1, 5]) {
    test(`J01: a reset after ${events} events`, async (t) => {
      const { plane, nodes } = await startField(t, [
        (call) => {
          call.write(STREAM_HEAD);
          for (let event = 0; event < events; event++) call.write(chunk(token(`a${event}`)));
          setTimeout(() => call.rst(), 30);
        },
        healthy("b"),
      ]);
      const text = await (await chat(plane.url, { stream: true })).text();
      assert.equal(text.match(/"content":"a/g)?.length ?? 0, events);
      assert.equal(nodes[1]?.calls.length, events === 0 ? 1 : 0);
      if (events === 0) assert.match(text, /"content":"b"/);
      else assert.match(text, /stream_interrupted/);
    });
  }

  test("J01: a caller who hung up on half an answer gets no second one, and a node's late bytes reach nobody else", async (t) => {
    const { plane, nodes, caller } = await startField(t, [
      (call) => call.write(STREAM_HEAD + chunk(token("a"))),
      healthy("b"),
    ]);
    const client = await caller();
    client.send(post(chatBody({ stream: true })));
    await client.waitFor('"a"');
    client.kill();
    nodes[0]?.calls[0]?.write(chunk(token("late")));
    await plane.settled();
    const node = nodes[0];
    assert.ok(node !== undefined);
    node.script = healthy("fresh");
    const text = await (await chat(plane.url, { stream: true })).text();
    assert.doesNotMatch(text, /late/);
    assert.equal(nodes[1]?.calls.length, 0);
  });
});

describe("what is no failure of the node", () => {
  for (const [name, script, status] of [
    ["requests that it refuses", answering(400, '{"error":{"message":"maximum context length is 10 tokens"}}'), 400],
    ["requests that it can't parse", answering(422, "{}"), 422],
    ["429s", answering(429, '{"error":{"message":"slow down"}}'), 429],
    ["503s that say overload", answering(503, OVERLOAD), 503],
    [
      "overloads inside a 200",
      streaming('data: {"error":{"message":"server overloaded: queue is full","code":503}}\n\n'),
      null,
    ],
  ] as [string, NodeScript, number | null][]) {
    test(`J03: after ${MANY} ${name} the same node serves the next request at once`, async (t) => {
      const { plane, nodes } = await startField(t, [script]);
      const node = nodes[0];
      assert.ok(node !== undefined);
      for (let each = 0; each < MANY; each++) {
        const response = await chat(plane.url, status === null ? { stream: true } : {});
        if (status !== null) assert.equal(response.status, status);
        await response.text();
      }
      assert.equal(node.calls.length, MANY);
      assert.equal(plane.table.cooldownUntil[0], 0);
      node.script = healthy("a");
      assert.equal((await chat(plane.url)).status, 200);
    });
  }

  test("J03: a 401 takes the model out on that node, not the node's other models, nor other nodes", async (t) => {
    const { plane, nodes } = await startField(t, [answering(401, "{}"), healthy("b")]);
    for (let each = 0; each < 5; each++) {
      assert.equal(routingOf((await chat(plane.url)).headers)?.node, "n1");
    }
    assert.equal(nodes[0]?.calls.length, 1);
    assert.equal(plane.table.cooldownUntil[0], 0);
    assert.notEqual(plane.table.misconfiguredUntil[0], 0);
  });
});

describe("a node that is down is left alone", () => {
  for (const [name, end] of [
    ["whose port is closed", null],
    ["that resets", (call: NodeCall) => call.rst()],
    ["that answers 500", answering(500, "{}")],
    ["that answers an error event", streaming(ERROR_EVENT)],
  ] as [string, NodeScript | null][]) {
    test(`J04: of ${MANY} requests a node ${name} gets one within its cooldown`, async (t) => {
      const { plane, nodes } = await startField(t, [end ?? healthy("a"), healthy("b")], {
        file: { failover: { cooldown_ms: 60_000 } },
      });
      if (end === null) await nodes[0]?.stop();
      for (let each = 0; each < MANY; each++) {
        const response = await chat(plane.url, { stream: true });
        assert.equal(routingOf(response.headers)?.node, "n1");
        await response.text();
      }
      assert.equal(nodes[0]?.calls.length, end === null ? 0 : 1);
      assert.equal(nodes[0]?.connections, end === null ? 0 : 1);
    });
  }

  test("J04: requests at one moment at a closed port are all served elsewhere", async (t) => {
    const { plane, nodes } = await startField(t, [healthy("a"), healthy("b")]);
    await nodes[0]?.stop();
    const responses = await Promise.all(Array.from({ length: 50 }, () => chat(plane.url)));
    for (const response of responses) assert.equal(routingOf(response.headers)?.node, "n1");
  });

  test(
    "J06: a failing node of 200 times the weight is asked once in each cooldown, and once again after it",
    longForm,
    async (t) => {
      const cooldownMs = isLong ? 15_000 : 600;
      const asked: number[] = [];
      const { plane } = await startField(
        t,
        [
          {
            script: (call, index) => {
              asked.push(performance.now());
              answering(500, "{}")(call, index);
            },
            family: "F",
            tokensPerSecond: 20_000,
          },
          { script: healthy("b"), family: "F", tokensPerSecond: 100 },
        ],
        { file: { failover: { cooldown_ms: cooldownMs, cooldown_max_ms: cooldownMs } } },
      );
      const endMs = performance.now() + cooldownMs * 3.5;
      while (performance.now() < endMs) {
        const response = await chat(plane.url);
        assert.equal(response.status, 200);
        await response.text();
        await pause(cooldownMs / 60);
      }
      assert.ok(asked.length >= 2, "it was tried again");
      for (let each = 1; each < asked.length; each++) {
        const gapMs = (asked[each] as number) - (asked[each - 1] as number);
        // ticks of the table are some ms long
        assert.ok(gapMs > cooldownMs - 50, `asked again after ${gapMs} ms of ${cooldownMs}`);
      }
    },
  );
});

describe("how often a request runs", () => {
  const logThenReset: NodeScript = (call) => void setTimeout(() => call.rst(), 30);
  test("F02: one that a node read and reset without a word runs once there, once elsewhere, and is counted", async (t) => {
    const { plane, nodes } = await startField(t, [logThenReset, healthy("b")]);
    const response = await chat(plane.url, { user: "u" });
    assert.equal(response.status, 200);
    assert.equal(nodes[0]?.calls.length, 1);
    assert.equal(nodes[1]?.calls.length, 1);
    assert.equal(routingOf(response.headers)?.attempt, 2);
  });

  test("F02: on a connection that was used before, too", async (t) => {
    const { plane, nodes } = await startField(t, [healthy("a"), healthy("b")]);
    await (await chat(plane.url)).text();
    const node = nodes[0];
    assert.ok(node !== undefined);
    node.script = (call) => void setTimeout(() => call.rst(), 300);
    const response = await chat(plane.url);
    assert.equal(routingOf(response.headers)?.node, "n1");
    assert.equal(node.calls.length, 2);
    assert.equal(nodes[1]?.calls.length, 1);
  });

  test("F02: at most one attempt is made where the policy says one", async (t) => {
    const { plane, nodes } = await startField(t, [logThenReset, healthy("b")], {
      file: { failover: { max_attempts: 1 } },
    });
    const response = await chat(plane.url);
    assert.equal(response.status, 502);
    assert.equal(nodes[0]?.calls.length, 1);
    assert.equal(nodes[1]?.calls.length, 0);
  });

  test("F02: one whose answer was cut at its last byte is not run again", async (t) => {
    const { plane, nodes } = await startField(t, [
      (call) => {
        call.write(STREAM_HEAD + chunk(token("a", "stop")));
        call.write(LAST_CHUNK.slice(0, -1));
        setTimeout(() => call.fin(), 20);
      },
      healthy("b"),
    ]);
    await (await chat(plane.url, { stream: true })).text().catch(() => "");
    assert.equal(nodes[1]?.calls.length, 0);
  });
});
