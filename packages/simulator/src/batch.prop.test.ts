import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { BatchEvent, BatchOptions } from "./batch.ts";
import { Batch } from "./batch.ts";
import { nodeConstants } from "./node-constants.ts";
import { decodeRunMs } from "./step-model.ts";

const CONSTANTS = nodeConstants("H100-SXM-80GB/llama-3-8b/bf16/1");

type Arrival = { readonly gapMs: number; readonly promptTokens: number; readonly outputTokens: number };

const arrival: fc.Arbitrary<Arrival> = fc.record({
  gapMs: fc.double({ min: 0, max: 200, noNaN: true }),
  promptTokens: fc.integer({ min: 1, max: 6000 }),
  outputTokens: fc.integer({ min: 0, max: 60 }),
});
const arrivals = fc.array(arrival, { minLength: 1, maxLength: 20 });
const limits: fc.Arbitrary<BatchOptions> = fc.record({
  constants: fc.constant(CONSTANTS),
  maxSequences: fc.integer({ min: 1, max: 8 }),
  stepTokenBudget: fc.integer({ min: 1, max: 2048 }),
  kvCapacityTokens: fc.integer({ min: 6100, max: 20_000 }),
});

function run(options: BatchOptions, list: readonly Arrival[], check?: (batch: Batch) => void) {
  const batch = new Batch(options);
  const events: BatchEvent[] = [];
  let nowMs = 0;
  for (const [id, { gapMs, promptTokens, outputTokens }] of list.entries()) {
    nowMs += gapMs;
    batch.advance(nowMs, (event) => events.push(event));
    batch.enqueue({ id, promptTokens, outputTokens }, nowMs);
    check?.(batch);
  }
  while (batch.nextEventMs < Infinity) {
    batch.advance(batch.nextEventMs, (event) => events.push(event));
    check?.(batch);
  }
  return { batch, events };
}

function tokenTimes(events: readonly BatchEvent[], id: number): number[] {
  return events.flatMap((event) => (event.kind === "token" && event.id === id ? [event.atMs] : []));
}

test("every sequence gets exactly its tokens, in order, and finishes once", () => {
  fc.assert(
    fc.property(limits, arrivals, (options, list) => {
      const { batch, events } = run(options, list);
      for (const [id, { outputTokens }] of list.entries()) {
        const own = events.filter((event) => event.id === id);
        const indexes = own.flatMap((event) => (event.kind === "token" ? [event.index] : []));
        assert.deepEqual(
          indexes,
          Array.from({ length: outputTokens }, (_, index) => index),
        );
        assert.equal(own.filter((event) => event.kind === "started").length, 1);
        assert.equal(own.filter((event) => event.kind === "finished").length, 1);
        assert.equal(own.at(-1)?.kind, "finished");
      }
      assert.equal(
        batch.totals.outputTokens,
        list.reduce((sum, { outputTokens }) => sum + outputTokens, 0),
      );
      assert.ok(batch.totals.promptTokens >= list.reduce((sum, { promptTokens }) => sum + promptTokens, 0));
      assert.deepEqual([batch.runningCount, batch.waitingCount, batch.kvTokens], [0, 0, 0]);
    }),
    { numRuns: 60 },
  );
});

test("without preemption each prompt token is computed once", () => {
  fc.assert(
    fc.property(limits, arrivals, (options, list) => {
      const { batch } = run({ ...options, kvCapacityTokens: Infinity }, list);
      assert.equal(batch.totals.preemptions, 0);
      assert.equal(
        batch.totals.promptTokens,
        list.reduce((sum, { promptTokens }) => sum + promptTokens, 0),
      );
    }),
    { numRuns: 60 },
  );
});

test("the batch never holds more sequences, nor (beside a lone one) more tokens, than its limits", () => {
  fc.assert(
    fc.property(limits, arrivals, (options, list) => {
      run(options, list, (batch) => {
        assert.ok(batch.runningCount <= options.maxSequences);
        if (batch.runningCount > 1) assert.ok(batch.kvTokens <= options.kvCapacityTokens);
      });
    }),
    { numRuns: 60 },
  );
});

test("more in flight never makes a token of an earlier sequence come sooner", () => {
  fc.assert(
    fc.property(limits, arrivals, fc.array(arrival, { minLength: 1, maxLength: 8 }), (options, list, later) => {
      const alone = run(options, list).events;
      const crowded = run(options, [...list, ...later]).events;
      for (const id of list.keys()) {
        const before = tokenTimes(alone, id);
        for (const [index, atMs] of tokenTimes(crowded, id).entries()) {
          assert.ok(atMs >= (before[index] ?? 0) - 1e-6, `token ${index} of ${id}: ${atMs} before ${before[index]}`);
        }
      }
    }),
    { numRuns: 60 },
  );
});

test("time advanced in any pieces gives the same events", () => {
  fc.assert(
    fc.property(limits, arrivals, fc.double({ min: 0.5, max: 50, noNaN: true }), (options, list, pieceMs) => {
      const whole = run(options, list).events;
      const batch = new Batch(options);
      const pieces: BatchEvent[] = [];
      let nowMs = 0;
      for (const [id, { gapMs, ...tokens }] of list.entries()) {
        const atMs = nowMs + gapMs;
        for (let at = nowMs; at < atMs; at += pieceMs) batch.advance(at, (event) => pieces.push(event));
        nowMs = atMs;
        batch.advance(nowMs, (event) => pieces.push(event));
        batch.enqueue({ id, ...tokens }, nowMs);
      }
      while (batch.nextEventMs < Infinity) batch.advance(batch.nextEventMs + pieceMs, (event) => pieces.push(event));
      assert.deepEqual(pieces, whole);
    }),
    { numRuns: 40 },
  );
});

test("sequences that decode together take the time of the closed form", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 2, max: 100 }), (sequences, outputTokens) => {
      const promptTokens = 20;
      const options = { constants: CONSTANTS, maxSequences: 64, stepTokenBudget: 2048, kvCapacityTokens: 1e9 };
      const list = Array.from({ length: sequences }, () => ({ gapMs: 0, promptTokens, outputTokens }));
      // The first is alone in its first step: only what all decode together is compared.
      const { events } = run(options, list);
      const times = tokenTimes(events, sequences - 1);
      const firstOfFirst = tokenTimes(events, 0)[0] ?? Number.NaN;
      const others = sequences === 1 ? 0 : 1;
      assert.ok((times[0] ?? 0) >= firstOfFirst);
      const steps = outputTokens - 1 - others;
      const cachedTokens = sequences * (promptTokens + 1) + others;
      const spanMs = (tokenTimes(events, 0).at(-1) ?? 0) - (times[0] ?? 0);
      const closedMs = decodeRunMs(CONSTANTS, { sequences, cachedTokens, steps });
      assert.ok(Math.abs(spanMs - closedMs) < 1e-6, `${spanMs} against ${closedMs}`);
    }),
    { numRuns: 60 },
  );
});

test("a cancelled sequence gets no more tokens and leaves its place and its cache", () => {
  fc.assert(
    fc.property(limits, arrivals, fc.double({ min: 0, max: 400, noNaN: true }), (options, list, atMs) => {
      const batch = new Batch(options);
      const events: BatchEvent[] = [];
      for (const [id, { promptTokens, outputTokens }] of list.entries()) {
        batch.enqueue({ id, promptTokens, outputTokens }, 0);
      }
      batch.advance(atMs, (event) => events.push(event));
      const finished = new Set(events.flatMap((event) => (event.kind === "finished" ? [event.id] : [])));
      for (const id of list.keys()) assert.equal(batch.cancel(id), !finished.has(id));
      assert.deepEqual([batch.runningCount, batch.waitingCount, batch.kvTokens], [0, 0, 0]);
      const count = events.length;
      batch.advance(Infinity, (event) => events.push(event));
      assert.equal(events.length, count);
    }),
    { numRuns: 60 },
  );
});
