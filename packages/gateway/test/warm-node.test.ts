/** Turns of a conversation go to the node that has its beginning in the cache: two nodes on sockets, the gateway between. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { readRecord } from "@zml/engine";
import { SAMPLE_FIELDS } from "../src/thread-messages.ts";
import { FIXTURE_MODEL, startPlane } from "./plane-fixture.ts";
import { startScriptedNode } from "./scripted-node.ts";

const SENTENCE = "the quick brown fox jumps over the lazy dog and then it goes on. ";

function conversation(session: number, turns: number): { role: string; content: string }[] {
  return Array.from({ length: 2 * turns - 1 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `${session}/${index} ${SENTENCE.repeat(80)}`,
  }));
}

/** A node that says how much of a prompt its cache held. */
function startNode(cachedTokens: number) {
  return startScriptedNode((call) => {
    const usage = {
      ...{ prompt_tokens: 1_500, completion_tokens: 2, total_tokens: 1_502 },
      prompt_tokens_details: { cached_tokens: cachedTokens },
    };
    const body = JSON.stringify({
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
      usage,
    });
    call.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  });
}

async function startPair(file: Record<string, unknown> = {}) {
  const nodes = [await startNode(1_000), await startNode(1_000)];
  const fixture = await startPlane(
    nodes.map(({ url }, index) => ({ id: `n${index}`, url })),
    { policy: { estimator: "predictive", costPriority: "latency" }, file },
  );
  const ask = async (messages: unknown): Promise<string> => {
    const response = await fetch(`${fixture.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: FIXTURE_MODEL, messages }),
    });
    assert.equal(response.status, 200);
    await response.text();
    await fixture.settled();
    return (
      /node="(n\d)"/.exec(response.headers.get("x-zml-routing") ?? "")?.[1] ?? assert.fail("the header names a node")
    );
  };
  const stop = async () => {
    await fixture.stop();
    await Promise.all(nodes.map((node) => node.stop()));
  };
  return { ...fixture, ask, stop, nodes };
}

test("each further turn goes to the node of the turn before, and the record says how much is warm there", async (t) => {
  const { ask, stop, plane, ring, samples } = await startPair();
  t.after(stop);
  const homes = new Map<number, string>();
  for (let session = 0; session < 12; session++) homes.set(session, await ask(conversation(session, 1)));
  assert.equal(new Set(homes.values()).size, 2, "first turns go to both");
  for (let turns = 2; turns < 5; turns++) {
    for (const [session, home] of homes) {
      assert.equal(await ask(conversation(session, turns)), home, `session ${session}, turn ${turns}`);
      const record = readRecord(ring, plane.lastSequence);
      assert.ok(record !== null);
      const share = record.warmTokens / record.estimatePromptTokens;
      assert.ok(share > 0.3 && share < 1, `${share} of turn ${turns}`);
      assert.equal(record.reportedCachedTokens, 1_000);
    }
  }
  plane.samples.flush();
  const at = (name: (typeof SAMPLE_FIELDS)[number]) =>
    samples.at(-1)?.at(SAMPLE_FIELDS.indexOf(name) - SAMPLE_FIELDS.length);
  assert.equal(at("cachedTokens"), 1_000);
  assert.ok((at("timing.warmTokens") as number) > 0);
});

test("a session whose node is gone goes on elsewhere, and stays there", async (t) => {
  const { ask, stop, table } = await startPair();
  t.after(stop);
  const home = await ask(conversation(0, 1));
  const row = Number(home.slice(1));
  table.isDraining[row] = 1;
  const other = await ask(conversation(0, 2));
  assert.notEqual(other, home);
  table.isDraining[row] = 0;
  assert.equal(await ask(conversation(0, 3)), other);
});

test("`limits.prefixes: 0` prefers no node, and no prompt is hashed", async (t) => {
  const { ask, stop, plane, ring } = await startPair({ limits: { prefixes: 0 } });
  t.after(stop);
  assert.equal(plane.decider.prefixes, null);
  for (let turns = 1; turns < 4; turns++) {
    await ask(conversation(0, turns));
    assert.equal(readRecord(ring, plane.lastSequence)?.warmTokens, 0);
  }
});

test("nothing of a prompt stands in the memory that is shared", async (t) => {
  const { ask, stop, plane } = await startPair();
  t.after(stop);
  await ask(conversation(0, 3));
  const { prefixes } = plane.decider;
  assert.ok(prefixes !== null);
  assert.ok(prefixes.words.some((word, index) => index >= 16 && word !== 0));
  const bytes = Buffer.from(prefixes.buffer);
  for (const word of ["quick", "brown", "lazy", "user"]) assert.equal(bytes.includes(word), false, word);
});
