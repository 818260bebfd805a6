import assert from "node:assert/strict";
import { test } from "node:test";
import { drawTraceContext } from "./trace-ids.ts";

test("drawn trace contexts are valid and all different, also over several draws of digits", () => {
  const seen = new Set<string>();
  for (let count = 0; count < 2000; count++) {
    const { traceId, traceparent } = drawTraceContext();
    assert.match(traceparent, new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
    assert.match(traceId, /^[0-9a-f]{32}$/);
    seen.add(traceId);
  }
  assert.equal(seen.size, 2000);
});
