import assert from "node:assert/strict";
import { it } from "node:test";
import { requestClasses } from "../request-classes.ts";
import { requestOf, type ViewNode, viewOf } from "../testing/view.ts";
import type { VirtualNode } from "../virtual-node.ts";
import type { Workload } from "../workload.ts";
import { clairvoyant } from "./clairvoyant.ts";

/** Request 0 is interactive (25 ms a token), 1 standard (60 ms), 2 batch (200 ms): 100 tokens of output each. */
function routerOf(nodes: readonly ViewNode[]) {
  const view = viewOf(nodes);
  const workload = {
    promptTokens: Int32Array.of(1_000, 1_000, 1_000),
    outputTokens: Int32Array.of(100, 100, 100),
    classes: Uint8Array.of(0, 1, 2),
  } as unknown as Workload;
  const idle = { usedTokens: 0 } as unknown as VirtualNode;
  const classes = requestClasses("T1");
  const router = clairvoyant({ constants: view.believed, nodes: nodes.map(() => idle), workload, classes });
  const ask = (index: number) => {
    const { ttftMs, tokenMs } = classes[index] ?? { ttftMs: Number.NaN, tokenMs: Number.NaN };
    const row = router.pick(view, requestOf({ index, klass: index, ttftTargetMs: ttftMs, tokenTargetMs: tokenMs }));
    view.inFlight[row] = (view.inFlight[row] as number) + 1;
    return row;
  };
  const end = (row: number, index: number) => {
    router.noteEnd?.(row, requestOf({ index }));
    view.inFlight[row] = (view.inFlight[row] as number) - 1;
  };
  return { ask, end, view };
}

it("ORA-1 takes the cheapest node on which the request meets its targets", () => {
  const slow = { constants: { baseMs: 40 } };
  const { ask, view } = routerOf([{}, slow]);
  view.usdPerHour[1] = 0.1;
  assert.equal(ask(1), 1, "41 ms a token is within 60, for a tenth of the money");
  assert.equal(ask(0), 0, "and not within 25");
});

it("ORA-1 keeps off a node whose residents would miss theirs, until they have gone", () => {
  // 22 ms with two, a prompt of 100 ms per 100 tokens beside: 10 + 2 + 2.1 + … stays under 22.5; a third does not
  const { ask, end, view } = routerOf([{ constants: { baseMs: 18 } }, { constants: { baseMs: 21 } }]);
  view.usdPerHour[1] = 10;
  assert.equal(ask(0), 0);
  assert.equal(ask(2), 1, "the batch request itself would do with 200 ms");
  end(0, 0);
  assert.equal(ask(2), 0);
});

it("ORA-1 puts what meets its targets nowhere where it harms nobody more", () => {
  const { ask, view } = routerOf([{ constants: { baseMs: 20 } }, { constants: { baseMs: 50 } }]);
  assert.equal(ask(0), 0, "just fits");
  assert.equal(ask(0), 1, "a second would harm the first");
  assert.equal(view.inFlight[0], 1);
});
