/** Plays every vector of `conformance/` that names the gateway: real sockets, scripted nodes. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { writeLimits } from "@zml/engine";
import { exampleOf, mismatch } from "./conformance-match.ts";
import { AttemptScript, bodyBytes, hasBody } from "./conformance-node.ts";
import { readVectors, type Vector, type VectorAnswer, vectorFiles } from "./conformance-vectors.ts";
import { endAfterEach } from "./pair-fixture.ts";
import { type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { type RawAnswer, RawClient } from "./raw-client.ts";
import { type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const toStop = endAfterEach();

const KEY = "sk-conformance";
const NODES: NonNullable<NonNullable<Vector["gateway"]>["nodes"]> = [
  { id: "a", family: "H100" },
  { id: "b", family: "MI300X" },
];

for (const file of vectorFiles()) {
  describe(file, () => {
    for (const vector of readVectors(file)) {
      if (vector.runs.includes("gateway")) test(vector.name, () => play(vector));
    }
  });
}

async function play(vector: Vector): Promise<void> {
  const bytes = requestBytes(vector);
  const script = new AttemptScript(vector, bytes.body);
  const { plane, release } = await startGateway(vector, script);
  const client = await RawClient.open(plane.port);
  client.send(bytes.sent);
  const expected = vector.answers[0];
  assert.ok(expected !== undefined, "a vector for the gateway has an answer");
  const got = await answerOf(client, expected);
  assert.deepEqual(script.problems, []);
  checkAnswer(expected, got);
  assert.equal(script.attempts, vector.node?.length, "attempts at nodes");
  const relayed = vector.node?.at(-1);
  if (relayed !== undefined && relayed.answer === undefined) {
    assert.ok(bodyBytes(expected).equals(got.body), `the answer's bytes changed on their way: ${got.body}`);
  }
  client.kill();
  release();
  await plane.settled();
}

/** The request as bytes, and its body decoded by nobody. */
function requestBytes({ wire }: Vector): { sent: Buffer; body: Buffer } {
  assert.ok(wire !== undefined, "a vector for the gateway has a wire");
  if (wire.raw_text !== undefined) return { sent: Buffer.from(wire.raw_text, "latin1"), body: Buffer.alloc(0) };
  const body = bodyBytes(wire);
  const framing = hasBody(wire) ? { "content-type": "application/json", "content-length": String(body.length) } : {};
  const given = { host: "gateway", authorization: `Bearer ${KEY}`, ...framing, ...wire.headers };
  const lines = Object.entries(exampleOf(given) as Record<string, string>).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const head = Buffer.from(`${wire.method} ${wire.path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  return { sent: Buffer.concat([head, wire.end === "hang" ? body.subarray(0, -1) : body]), body };
}

/** A gateway as the vector wants it. `release` gives back what was taken to make nodes full. */
async function startGateway(
  { gateway = {} }: Vector,
  script: AttemptScript,
): Promise<{ plane: PlaneFixture; release: () => void }> {
  const { policy = {}, keys = [{ name: "app", key: KEY, scopes: ["infer" as const] }] } = gateway;
  const specs = gateway.nodes ?? NODES;
  const nodes: ScriptedNode[] = [];
  for (const { id } of specs) nodes.push(await startScriptedNode((call) => script.play(id, call)));
  const families = [...new Set(specs.map(({ family }) => family))];
  const plane = await startPlane(
    specs.map((spec, row) => ({
      id: spec.id,
      family: spec.family,
      url: nodes[row]?.url ?? "",
      ...(spec.engine !== undefined && { engine: spec.engine }),
      ...(spec.api_key !== undefined && { apiKey: spec.api_key }),
      ...(spec.upstream_model !== undefined && { upstreamModel: spec.upstream_model }),
      ...(spec.context_tokens !== undefined && { contextTokens: spec.context_tokens }),
      ...(spec.reads_images !== undefined && { readsImages: spec.reads_images }),
      ...(spec.endpoints !== undefined && { endpoints: spec.endpoints }),
      ...(spec.usd_per_hour !== undefined && { priceUsdPerHour: spec.usd_per_hour }),
      ...(spec.tokens_per_second !== undefined && { tokensPerSecond: spec.tokens_per_second }),
      ...(spec.state === "full" && { maxInFlight: 1 }),
    })),
    {
      file: gateway.config ?? {},
      keys: keys.map(({ name, key, scopes, models, policies, expires_at, limits }, index) => ({
        name,
        value: key,
        scopes,
        ...(models !== undefined && { models }),
        ...(policies !== undefined && { policies }),
        ...(expires_at !== undefined && { expiresAtMs: Date.parse(expires_at) }),
        ...(limits !== undefined && { limitRow: 1 + index }),
      })),
      policy: {
        ...(policy.cost_priority !== undefined && { costPriority: policy.cost_priority }),
        ...(policy.latency_target_ms !== undefined && { latencyTargetMs: policy.latency_target_ms }),
        ...(policy.queue_on_saturation !== undefined && { queueOnSaturation: policy.queue_on_saturation }),
        ...(policy.max_queue_ms !== undefined && { maxQueueMs: policy.max_queue_ms }),
        ...(policy.accelerator_preference !== undefined && {
          chain: policy.accelerator_preference.map(({ family, priority }) => ({
            family: families.indexOf(family),
            priority,
          })),
        }),
      },
    },
  );
  toStop.push(plane, ...nodes);
  for (const [index, { limits }] of keys.entries()) {
    if (limits === undefined) continue;
    const { tokens_per_minute = null, budget_usd_per_day = null } = limits;
    writeLimits(plane.plane.limits, 1 + index, {
      requestsPerMinute: null,
      tokensPerMinute: tokens_per_minute,
      concurrentRequests: null,
      budgetUsdPerDay: budget_usd_per_day,
      budgetUsdPerMonth: null,
    });
  }
  const { table } = plane;
  for (const [row, { state }] of specs.entries()) {
    if (state === "full") table.total.inFlight[row] = 1;
    if (state === "cooling") {
      table.cooldownFrom[row] = 1;
      table.cooldownUntil[row] = 2 ** 30;
    }
    if (state === "down") table.isUnhealthy[row] = 1;
    if (state === "refusing") await nodes[row]?.stop();
  }
  return {
    plane,
    release: () => {
      for (const [row, { state }] of specs.entries()) if (state === "full") table.total.inFlight[row] = 0;
    },
  };
}

/** The answer; of one that is to break, what came of it. */
async function answerOf(client: RawClient, { end }: VectorAnswer): Promise<RawAnswer> {
  if (end !== "cut") return client.answer();
  await until(() => client.isClosed, "the break of the answer");
  assert.equal(client.answers().length, 0, "the answer was to break, and came whole");
  const at = client.received.indexOf("\r\n\r\n");
  const whole = Buffer.concat([client.received, Buffer.from("0\r\n\r\n")]);
  assert.ok(at > 0, "no head came");
  const copy = Object.create(client, { received: { value: whole } }) as RawClient;
  const [answer] = RawClient.prototype.answers.call(copy);
  assert.ok(answer !== undefined, `what came is no chunked answer: ${client.text}`);
  return answer;
}

function checkAnswer(expected: VectorAnswer, got: RawAnswer): void {
  assert.equal(got.status, expected.status, got.body.toString());
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    assert.equal(mismatch(value, got.headers[name], `header ${name}`), null);
  }
  if (expected.body !== undefined) {
    assert.equal(mismatch(expected.body, JSON.parse(got.body.toString()), "body"), null);
  } else if (hasBody(expected)) {
    assert.equal(got.body.toString(), bodyBytes(expected).toString());
    assert.ok(bodyBytes(expected).equals(got.body), "the bytes differ although their text does not");
  }
}
