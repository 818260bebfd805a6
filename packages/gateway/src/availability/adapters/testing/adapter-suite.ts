/** What every adapter is tested with: its captured answers, its errors, and what none of them may do. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type AdapterVerdict, classifyStatus, ENDPOINTS } from "@zml/engine";
import fc from "fast-check";
import type { Adapter, Answer, NodeReading, PollResponse, PollResponses } from "../adapter.ts";
import { soundAdapter } from "../sound-reading.ts";

/** A round and what must be read out of it. */
export interface ReadingCase {
  readonly claim: string;
  readonly responses: Partial<PollResponses>;
  readonly previous?: NodeReading;
  readonly expected: Partial<NodeReading>;
}

/** An answer and its class. */
export interface VerdictCase {
  readonly claim: string;
  readonly answer: Answer;
  /** By its words, else by its status. */
  readonly expected: AdapterVerdict;
}

/** An answer to a poll. */
export function response(body: string | object, status = 200): PollResponse {
  return typeof body === "string"
    ? { status, contentType: "text/plain", body }
    : { status, contentType: "application/json", body: JSON.stringify(body) };
}

/** A captured metrics text of `../samples/`. */
export function sampleText(name: string): string {
  return readFileSync(new URL(`../samples/${name}`, import.meta.url), "utf8");
}

/** A plain answer. */
export function plain(status: number, body: string | object): Answer {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, contentType: "application/json", body: Buffer.from(text), firstEvent: null };
}

/** A streamed answer with its first event. */
export function streamed(data: string | object, event: string | null = null): Answer {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  return { status: 200, contentType: "text/event-stream", body: Buffer.alloc(0), firstEvent: { data: text, event } };
}

const NO_RESPONSES: PollResponses = { health: null, metrics: null, models: null, facts: {} };

/** Runs the suite for one adapter. */
export function testAdapter(adapter: Adapter, cases: { readings: ReadingCase[]; verdicts: VerdictCase[] }): void {
  describe(`adapter ${adapter.name}`, () => {
    for (const { claim, responses, previous, expected } of cases.readings) {
      it(`reads ${claim}`, () => {
        const reading = adapter.read({ ...NO_RESPONSES, ...responses }, previous ?? null);
        for (const [field, value] of Object.entries(expected)) {
          assert.deepEqual(reading[field as keyof NodeReading], value, field);
        }
      });
    }

    for (const { claim, answer, expected } of cases.verdicts) {
      it(`classes ${claim} as ${expected}`, () => {
        assert.equal(adapter.classify(answer) ?? classifyStatus(answer.status), expected);
      });
    }

    it("says nothing about an ordinary answer", () => {
      const chunk = { choices: [{ delta: { content: 'an "error" and {"error": 1}' }, finish_reason: null }] };
      const answer = { choices: [{ message: { content: '"finish_reason":"abort"' }, finish_reason: "stop" }] };
      assert.equal(adapter.classify(streamed(chunk)), null);
      assert.equal(adapter.classify(streamed("[DONE]")), null);
      assert.equal(adapter.classify(plain(200, answer)), null);
    });

    it("leaves what the status says to the one table of statuses", () => {
      const body = { error: { message: "temperature must be non-negative", type: "BadRequestError", code: 400 } };
      assert.equal(adapter.classify(plain(400, body)), null);
      assert.equal(adapter.classify(plain(401, { error: "Unauthorized" })), null);
      assert.equal(adapter.classify(plain(502, "<html>bad gateway</html>")), null);
      for (const status of [403, 405, 408, 413, 415, 424, 429, 500, 501, 503, 504]) {
        assert.equal(adapter.classify(plain(status, "")), null, `${status}`);
      }
    });

    it("classes an error without a code as first event as failure", () => {
      assert.equal(adapter.classify(streamed({ error: { message: "it broke" } })), "failure");
      assert.equal(adapter.classify(streamed("it broke", "error")), "failure");
    });

    it("classes an answer that the node aborted as failure", () => {
      const body = { choices: [{ message: { content: "wor" }, finish_reason: "abort" }] };
      assert.equal(adapter.classify(plain(200, body)), "failure");
    });

    it("leaves everything unknown when nothing was answered", () => {
      const { isReady, models, ...numbers } = adapter.read(NO_RESPONSES, null);
      assert.equal(isReady, false);
      assert.equal(models, null);
      for (const [name, value] of Object.entries(numbers)) assert.ok(value === null || Number.isNaN(value), name);
    });

    it("keeps what a round did not ask for", () => {
      const models = response({ data: [{ id: "a" }, { id: "b" }] });
      const before = adapter.read({ ...NO_RESPONSES, health: response(""), models }, null);
      const after = adapter.read({ ...NO_RESPONSES, health: response("") }, before);
      assert.deepEqual(
        after.models?.map((model) => model.id),
        ["a", "b"],
      );
    });

    it("makes of any bytes what can be, or nothing", () => {
      const sound = soundAdapter(adapter);
      const anyResponse = fc.option(fc.record({ status: fc.integer({ min: 0, max: 599 }), body, contentType: type }));
      const paths = [...adapter.probes.facts.map(({ path }) => path), ...adapter.detectionPaths];
      fc.assert(
        fc.property(anyResponse, anyResponse, anyResponse, anyResponse, (health, metrics, models, fact) => {
          const responses = { health, metrics, models, facts: Object.fromEntries(paths.map((path) => [path, fact])) };
          const first = sound.read(responses, null);
          assertPossible(first);
          assertPossible(sound.read({ ...responses, metrics: fact, models: health }, first));
          assert.ok([null, "certain", "likely"].includes(adapter.detect(responses)));
          const { endpoints } = adapter.capabilities(first);
          assert.ok(endpoints === null || endpoints.every((endpoint) => ENDPOINTS.includes(endpoint)));
          for (const path of adapter.loadPaths?.(first) ?? []) assert.match(path, /^[!-~]+$/);
        }),
        { numRuns: 400 },
      );
      fc.assert(
        fc.property(fc.integer({ min: 100, max: 599 }), body, fc.boolean(), (status, text, isStream) => {
          const verdict = adapter.classify(isStream ? streamed(text) : plain(status, text));
          assert.ok(verdict === null || VERDICTS.has(verdict));
        }),
        { numRuns: 300 },
      );
    });

    it("takes numbers of a node that lies for unknown wherever they stand", () => {
      const { health, metrics, models, facts } = lieOf(cases.readings);
      for (const lie of ["-3", "1e308", "NaN", "-1e308", "9223372036854775794", '"12"', "[]", "null"]) {
        const reading = soundAdapter(adapter).read(
          {
            health: withNumbers(health, lie),
            metrics: withNumbers(metrics, lie),
            models: withNumbers(models, lie),
            facts: Object.fromEntries(Object.entries(facts).map(([path, fact]) => [path, withNumbers(fact, lie)])),
          },
          null,
        );
        assertPossible(reading);
        const {
          isReady: _ready,
          byModel: _byModel,
          version: _version,
          platform: _platform,
          models: _models,
          ...rest
        } = reading;
        for (const [name, value] of Object.entries(rest))
          assert.ok(Number.isNaN(value) || value === 0, `${name} ${value}`);
      }
    });
  });
}

const VERDICTS: ReadonlySet<AdapterVerdict> = new Set<AdapterVerdict>([
  "success",
  "failure",
  "overloaded",
  "misconfigured",
  "endpoint_unsupported",
  "too_large",
  "caller_error",
]);
const type = fc.constant(null);
/** What comes instead of an answer: other servers' pages, halves, and values that no field can have. */
const body = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.json(),
  fc.constantFrom(
    '{"error":null}',
    "<!DOCTYPE html><html><title>502</title></html>",
    '{"data":[{"id":"m","max_model_len":1e308},{"id":"\\u0000"},{"id":"x","meta":{"n_ctx":-1}}]}',
    '{"loads":[{"num_running_reqs":1e308,"num_waiting_reqs":-1,"token_usage":"1"}],"version":"\\u001b[31m"}',
    '{"total_slots":-4,"default_generation_settings":{"n_ctx":1e308},"role":"router","build_info":7}',
    '{"data":[{"id":"a","status":{"value":"loaded"}},{"id":"a","status":{"value":"loaded"}}]}',
    '{"max_concurrent_requests":1e300,"max_total_tokens":null,"model_id":{}}',
    '[{"is_processing":true},null,7]',
    "vllm:num_requests_running 1e308\nsglang:num_running_reqs -4\ntgi_batch_current_size NaN\nllamacpp:requests_deferred",
  ),
);

/** Every number in its range or unknown, every text one that can be shown. */
function assertPossible(reading: NodeReading): void {
  const { isReady, byModel, version, platform, models, ...numbers } = reading;
  assert.equal(typeof isReady, "boolean");
  for (const [name, value] of Object.entries(numbers)) {
    assert.ok(typeof value === "number", name);
    assert.ok(Number.isNaN(value) || (value >= 0 && value <= 1e15), `${name} ${value}`);
  }
  assert.ok(!(reading.kvUse > 1), `kvUse ${reading.kvUse}`);
  for (const text of [version, platform]) assert.ok(text === null || /^[ -~]{1,128}$/.test(text));
  for (const { id } of [...(models ?? []), ...(byModel ?? [])]) {
    assert.ok(id.length > 0 && Buffer.byteLength(id) <= 256 && !/\p{Cc}/u.test(id), JSON.stringify(id));
  }
  for (const { contextTokens } of models ?? []) assert.ok(!(contextTokens < 0) && !(contextTokens > 1e9));
}

/** The fullest round among the cases. */
function lieOf(readings: readonly ReadingCase[]): PollResponses {
  const all = readings.map(({ responses }) => ({ ...NO_RESPONSES, ...responses }));
  const longest = (of: (responses: PollResponses) => PollResponse | null) =>
    all.map(of).reduce((best, one) => ((one?.body.length ?? 0) > (best?.body.length ?? 0) ? one : best), null);
  return {
    health: longest(({ health }) => health),
    metrics: longest(({ metrics }) => metrics),
    models: longest(({ models }) => models),
    facts: Object.assign({}, ...all.map(({ facts }) => facts)),
  };
}

/** The answer with another value in place of each number: of samples, and of members of JSON. */
function withNumbers(answer: PollResponse | null, lie: string): PollResponse | null {
  if (answer === null) return null;
  const isJson = /^\s*[[{]/.test(answer.body);
  const replaced = isJson
    ? answer.body.replaceAll(/(?<=[:[,]\s*)-?\d+(\.\d+)?(e[+-]?\d+)?(?=\s*[,}\]])/gi, lie === "NaN" ? "null" : lie)
    : answer.body.replaceAll(/ \S+$/gm, (value) => (value.startsWith(" #") ? value : ` ${lie}`));
  return { ...answer, body: replaced };
}
