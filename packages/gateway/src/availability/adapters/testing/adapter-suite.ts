/** What every adapter is tested with: its captured answers, its errors, and what none of them may do. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type AdapterVerdict, classifyStatus } from "@zml/engine";
import fc from "fast-check";
import type { Adapter, Answer, NodeReading, PollResponse, PollResponses } from "../adapter.ts";

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

    it("survives any bytes", () => {
      const text = fc.oneof(fc.string({ unit: "binary" }), fc.json(), fc.constant('{"error":null}'));
      const anyResponse = fc.option(
        fc.record({ status: fc.integer({ min: 0, max: 599 }), body: text, contentType: fc.constant(null) }),
      );
      fc.assert(
        fc.property(anyResponse, anyResponse, anyResponse, anyResponse, (health, metrics, models, fact) => {
          const facts = Object.fromEntries(adapter.probes.facts.map(({ path }) => [path, fact]));
          const reading = adapter.read({ health, metrics, models, facts }, null);
          assert.ok(!(reading.running < 0) && !(reading.kvUse < 0));
        }),
        { numRuns: 200 },
      );
      fc.assert(
        fc.property(fc.integer({ min: 100, max: 599 }), text, fc.boolean(), (status, body, isStream) => {
          const answer = isStream ? streamed(body) : plain(status, body);
          adapter.classify(answer);
        }),
        { numRuns: 200 },
      );
    });
  });
}
