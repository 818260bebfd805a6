/** Conversations on two real llama.cpp servers with their own prompt caches: where their turns go, and what that saves. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { decodeRoutingHeader, ROUTING_HEADER } from "@zml/protocol/wire";
import { ensureLlamaServer, writeTinyGguf } from "../../simulator/real/index.ts";
import { type Fleet, MODEL, startFleet } from "./e2e-fleet.ts";

const SESSIONS = 3;
const TURNS = 4;
const SENTENCE = "the quick brown fox jumps over the lazy dog. ";

let directory = "";
let model = "";

before(
  async () => {
    directory = await mkdtemp(join(tmpdir(), "zml-warm-"));
    model = join(directory, "story.gguf");
    // slow enough that computing a prompt is what a first token takes
    await Promise.all([writeTinyGguf(model, { dim: 384, layers: 4, heads: 6 }), ensureLlamaServer()]);
  },
  { timeout: 150_000 },
);

after(() => rm(directory, { recursive: true, force: true }));

interface Turn {
  node: string;
  decision: string;
  firstMs: number;
}

async function ask({ client }: Fleet, session: number, turn: number): Promise<Turn> {
  // the first message is long and the others short, as where a document is talked about
  const messages = Array.from({ length: 2 * turn - 1 }, (_, index) => ({
    role: index % 2 === 0 ? ("user" as const) : ("assistant" as const),
    content: `${session}/${index}: ${SENTENCE.repeat(index === 0 ? 40 : 3)}`,
  }));
  const startedAtMs = performance.now();
  const call = client.chat.completions.create({ model: MODEL, messages, max_tokens: 8, stream: true });
  const { data, response } = await call.withResponse();
  let firstMs = Number.NaN;
  for await (const chunk of data) {
    if (Number.isNaN(firstMs) && chunk.choices[0]?.delta.content) firstMs = performance.now() - startedAtMs;
  }
  const { node = "", decision = "" } = decodeRoutingHeader(response.headers.get(ROUTING_HEADER) ?? "") ?? {};
  return { node, decision, firstMs };
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

test("later turns go to the server that has the conversation, whose first tokens come sooner", {
  timeout: 120_000,
}, async (t) => {
  const fleet = await startFleet(t, { model });
  const turns: Turn[][] = [];
  for (let session = 0; session < SESSIONS; session++) turns[session] = [await ask(fleet, session, 1)];
  for (let turn = 2; turn <= TURNS; turn++) {
    for (const [session, known] of turns.entries()) known.push(await ask(fleet, session, turn));
  }
  const nodes = turns.map((of) => of.map(({ node }) => node).join(" "));
  t.diagnostic(`nodes: ${nodes.join(" | ")}`);
  // nobody knows these servers yet: what the first answers say of their speed may move a conversation once
  const stayed = turns.flatMap((of) => of.filter(({ node }, index) => index > 0 && node === of[index - 1]?.node));
  assert.ok(stayed.length >= SESSIONS * (TURNS - 1) - 2, nodes.join(" | "));
  const coldMs = median(turns.map(([first]) => first?.firstMs ?? Number.NaN));
  const warmMs = median(stayed.map(({ firstMs }) => firstMs));
  t.diagnostic(`first token: ${Math.round(coldMs)} ms cold, ${Math.round(warmMs)} ms warm`);
  assert.ok(warmMs < 0.6 * coldMs, `${warmMs} ms against ${coldMs} ms`);
  const explained = await fleet.gateway.explain(turns[0]?.at(-1)?.decision ?? "");
  assert.match(explained, /warm: ~[\d,]+ of [\d,]+ prompt tokens in its cache, counted as [\d,]+/);
  assert.match(explained, /[\d,]+ of its prompt's from the cache/);
});
