/** The whole path with real serving engines and OpenAI's own client: what a user sees while nodes die and return. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import { APIError, BadRequestError, NotFoundError } from "openai";
import { ensureLlamaServer, type LlamaServer, writeTinyGguf } from "../../simulator/real/index.ts";
import { until } from "./control-fixture.ts";
import { ask, type Ending, Load, routingOf } from "./e2e-client.ts";
import {
  COOLDOWN_MS,
  FAMILIES,
  type Fleet,
  MODEL,
  type NodeId,
  POLL_INTERVAL_MS,
  SLOTS,
  startFleet,
  untilIdle,
  upstreamModel,
} from "./e2e-fleet.ts";

const limits = { timeout: 90_000 };
const IN_FLIGHT = 12;
/** For a request to reach a node that may serve, and to be answered behind the others there, on a busy machine. */
const SLACK_MS = 10_000;

let directory = "";
let model = "";

before(
  async () => {
    directory = await mkdtemp(join(tmpdir(), "zml-e2e-"));
    model = join(directory, "story.gguf");
    // wide enough that answers take as long as it takes to break them
    await Promise.all([writeTinyGguf(model, { dim: 512, layers: 4, heads: 8 }), ensureLlamaServer()]);
  },
  { timeout: 150_000 },
);

after(() => rm(directory, { recursive: true, force: true }));

test(
  "every answer is whole and from the node that its routing header names, and a drain ends with 0",
  limits,
  async (t) => {
    const fleet = await startFleet(t, { model });
    const startedAtMs = performance.now();
    const load = new Load(fleet.client, { inFlight: IN_FLIGHT, words: [4, 8, 12] });
    await load.ended(200);
    const endings = await load.stop();
    report(t, endings, { together: performance.now() - startedAtMs });
    assert.deepEqual(endings.filter(isNotWhole), []);
    assertNamedNodeAnswered(endings);
    assertBothAnswered(endings);
    await untilIdle(fleet);

    // the drain: what runs is served to its end
    const begun = Promise.withResolvers<void>();
    const last = ask(fleet.client, { words: 200, isStream: true, onFirstWord: () => begun.resolve() });
    await Promise.race([begun.promise, last]);
    const exit = await fleet.gateway.terminate();
    assert.deepEqual(exit, { code: 0, signal: null }, fleet.gateway.log());
    assert.equal((await last).kind, "whole");
    for (const id of ["h100", "mi300x"] as const) assert.equal(fleet.server(id).kill("SIGTERM"), true, `${id} lives`);
  },
);

test(
  "a server that is killed under load costs only answers that had begun, and serves again after its cooldown",
  limits,
  async (t) => {
    const fleet = await startFleet(t, { model });
    const load = new Load(fleet.client, { inFlight: IN_FLIGHT, words: [4, 8, 32] });
    await load.ended(40);
    // so that the kill meets at least one request that is not the caller's yet
    await until("a request waits for a slot", async () => (await fleet.node("h100")).in_flight > SLOTS);
    const killedAtMs = performance.now();
    fleet.server("h100").kill("SIGKILL");
    await fleet.server("h100").exited;
    await until("the node gets no traffic", async () => (await fleet.node("h100")).state !== "healthy");

    await fleet.restart("h100");
    const readyAtMs = performance.now();
    const isServedAgain = (ending: Ending) => ending.startedAtMs > readyAtMs && nodeOf(ending) === "h100";
    await until("the node that came back has answered", () => load.endings.some(isServedAgain));
    const servedAtMs = load.endings.find(isServedAgain)?.endedAtMs ?? Number.NaN;
    await until("the fleet is whole", async () => (await fleet.node("h100")).state === "healthy");
    await load.ended(load.endings.length + 40);
    const endings = await load.stop();

    assertBrokenVisibly(endings, "h100");
    assertNamedNodeAnswered(endings);
    assertBothAnswered(endings);
    const sinceKillMs = servedAtMs - killedAtMs;
    const sinceReadyMs = servedAtMs - readyAtMs;
    assert.ok(sinceKillMs >= COOLDOWN_MS, `it was spared for its cooldown: ${sinceKillMs} ms`);
    const mostMs = COOLDOWN_MS + 2 * POLL_INTERVAL_MS + SLACK_MS;
    assert.ok(sinceReadyMs <= mostMs, `served ${sinceReadyMs} ms after it was ready again`);
    // one that was just being sent on a kept connection can't be told from one that the server never saw
    await assertTold(fleet, endings, "(failure, |unsent, reset)");
    await untilIdle(fleet);
    report(t, endings, { "since the kill": sinceKillMs, "since it was ready again": sinceReadyMs });
  },
);

test("a server that is stopped in mid-answer leaves nobody hanging", limits, async (t) => {
  const fleet = await startFleet(t, { model, idleMs: 4000 });
  // two streams that are the caller's already; two plain answers and a stream without a slot, which are not
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const accelerator = FAMILIES.h100;
  const streams = begun.map(({ resolve }) =>
    ask(fleet.client, { words: 6000, isStream: true, accelerator, onFirstWord: () => resolve() }),
  );
  await Promise.all(begun.map(({ promise }, index) => Promise.race([promise, streams[index]])));
  const plain = [0, 1].map(() => ask(fleet.client, { words: 400, isStream: false, accelerator }));
  // asked of the server itself: what ZML has sent may still be on its way there, and be overtaken
  await until("every slot is at work", async () => (await busySlots(fleet.server("h100"))) === SLOTS);
  const waiting = ask(fleet.client, { words: 50, isStream: true, accelerator });
  await until("one waits for a slot", async () => (await fleet.node("h100")).in_flight === SLOTS + 1);
  const stoppedAtMs = performance.now();
  fleet.server("h100").kill("SIGTERM");

  const movedEndings = await Promise.all([...plain, waiting]);
  const brokenEndings = await Promise.all(streams);
  const endings = [...movedEndings, ...brokenEndings];
  assert.deepEqual(movedEndings.filter(isNotWhole), []);
  assert.deepEqual(movedEndings.map(nodeOf), ["mi300x", "mi300x", "mi300x"], "the node that answered");
  assertNamedNodeAnswered(movedEndings);
  assert.deepEqual(
    brokenEndings.map(({ kind }) => kind),
    ["broken", "broken"],
  );
  assertBrokenVisibly(endings, "h100");
  await assertTold(fleet, movedEndings, "failure, node_down");
  await untilIdle(fleet);
  report(t, endings, {
    "moved and answered after": Math.max(...movedEndings.map(({ endedAtMs }) => endedAtMs)) - stoppedAtMs,
    "broken after": Math.max(...brokenEndings.map(({ endedAtMs }) => endedAtMs)) - stoppedAtMs,
  });
});

test("what the client sent wrongly comes back as the client's own errors, with what to do", limits, async (t) => {
  const fleet = await startFleet(t, { model });
  const { client } = fleet;
  const create = (name: string, headers: Record<string, string>) =>
    client.chat.completions.create({ model: name, messages: [{ role: "user", content: "hi" }] }, { headers });
  await assert.rejects(create("stori", {}), (error) => {
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.code, "model_not_found");
    assert.match(error.message, /there is no model "stori": .*\bstory\b/);
    return true;
  });
  await assert.rejects(create(MODEL, { "x-zml-policy": "impatient" }), (error) => {
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.code, "policy_not_found");
    assert.match(error.message, /there is no policy "impatient": .*\bpatient\b/);
    return true;
  });
  const { data, response } = await client.models.list().withResponse();
  assert.deepEqual(
    data.data.map(({ id }) => id),
    [MODEL],
  );
  assert.deepEqual(routingOf(response), {}, "a list is routed to no node");
  for (const id of ["h100", "mi300x"] as const) {
    const metrics = await (await fetch(`${fleet.server(id).url}/metrics`)).text();
    assert.match(metrics, /^llamacpp:prompt_tokens_total 0$/m, `${id} was asked nothing`);
  }
});

async function busySlots({ url }: LlamaServer): Promise<number> {
  const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
  return slots.filter((slot) => slot.is_processing).length;
}

function isNotWhole({ kind }: Ending): boolean {
  return kind !== "whole";
}

function nodeOf(ending: Ending): string {
  return ending.kind === "failed" ? "" : (ending.routing.node ?? "");
}

/** The server itself says who it is: each has the model under its own name. */
function assertNamedNodeAnswered(endings: readonly Ending[]): void {
  for (const ending of endings) {
    if (ending.kind === "whole") assert.equal(ending.model, upstreamModel(nodeOf(ending) as NodeId));
  }
}

function assertBothAnswered(endings: readonly Ending[]): void {
  const answered = new Set(endings.filter(({ kind }) => kind === "whole").map(nodeOf));
  assert.deepEqual([...answered].sort(), Object.keys(FAMILIES));
}

/** Nothing failed before its answer began; answers that broke are the dead node's, and the client's user was told. */
function assertBrokenVisibly(endings: readonly Ending[], deadNode: NodeId): void {
  for (const ending of endings) {
    if (ending.kind === "whole") continue;
    if (ending.kind !== "broken") assert.fail(`an answer was ${ending.kind}: ${JSON.stringify(ending)}`);
    assert.equal(nodeOf(ending), deadNode);
    assert.ok(ending.words < ending.ask.words);
    // an error event where it fits between two events, else the cut connection
    const isTold = ending.error instanceof APIError && ending.error.code === "stream_interrupted";
    assert.ok(isTold || /terminated/.test(String(ending.error)), String(ending.error));
  }
}

/** The story of a request that went elsewhere names the node that failed it and the one that answered. */
async function assertTold({ gateway }: Fleet, endings: readonly Ending[], before: string): Promise<void> {
  // the living server closes connections too, every 100 answers: what was just being sent on one may go the other way
  const isMoved = (ending: Ending) =>
    ending.kind === "whole" && nodeOf(ending) === "mi300x" && (ending.routing.attempt ?? 0) > 1;
  const moved = endings.find(isMoved);
  assert.ok(moved?.kind === "whole", "a request went elsewhere");
  const story = await gateway.explain(moved.routing.decision ?? "");
  assert.match(story, /^result {4}mi300x \(MI300X\).*, attempt 2: /m);
  assert.match(story, new RegExp(`^before {4}1\\. h100 \\(H100\\): ${before}`, "m"));
  assert.match(story, /^outcome {3}success, status 200, /m);
}

function report(t: TestContext, endings: readonly Ending[], times: Record<string, number>): void {
  const count = (kind: Ending["kind"]) => endings.filter((ending) => ending.kind === kind).length;
  const moved = endings.filter((ending) => ending.kind === "whole" && (ending.routing.attempt ?? 0) > 1).length;
  const ms = Object.entries(times).map(([name, value]) => `${name} ${Math.round(value)} ms`);
  const errors = new Set(endings.flatMap((ending) => (ending.kind === "broken" ? [String(ending.error)] : [])));
  t.diagnostic(`${count("whole")} whole (${moved} moved), ${count("broken")} broken; ${ms.join(", ")}`);
  for (const error of errors) t.diagnostic(`told as: ${error}`);
}
