import assert from "node:assert/strict";
import { it } from "node:test";
import { afterLook, FRESH_PROGRESS, type ProgressLook } from "./progress-watch.ts";

const STILL: ProgressLook = { running: 3, generationTokensTotal: 500, promptTokensTotal: 90, relayed: 7 };

function stillAfter(...looks: readonly Partial<ProgressLook>[]): number {
  return looks.reduce((watch, look) => afterLook(watch, { ...STILL, ...look }), FRESH_PROGRESS).stillLooks;
}

it("a node whose requests run while nothing moves is still, from the second look on", () => {
  assert.equal(stillAfter({}), 0);
  assert.equal(stillAfter({}, {}), 1);
  assert.equal(stillAfter({}, {}, {}, {}), 3);
});

it("any token that moves is progress: generated, read, or come to us", () => {
  assert.equal(stillAfter({}, {}, { generationTokensTotal: 501 }), 0);
  assert.equal(stillAfter({}, {}, { promptTokensTotal: 91 }), 0);
  assert.equal(stillAfter({}, {}, { relayed: 8 }), 0);
  assert.equal(stillAfter({}, {}, { generationTokensTotal: 3 }), 0, "a restart");
});

it("a node where nothing runs, or that does not tell what runs or its tokens, is never still", () => {
  assert.equal(stillAfter({ running: 0 }, { running: 0 }), 0);
  assert.equal(stillAfter({}, {}, { running: 0 }), 0);
  assert.equal(stillAfter({ running: 0 }, {}), 0);
  assert.equal(stillAfter({ running: Number.NaN }, { running: Number.NaN }), 0);
  const untold = { generationTokensTotal: Number.NaN };
  assert.equal(stillAfter(untold, untold), 0);
});

it("a node that tells no prompt tokens can still be found still", () => {
  const untold = { promptTokensTotal: Number.NaN };
  assert.equal(stillAfter(untold, untold, untold), 2);
});
