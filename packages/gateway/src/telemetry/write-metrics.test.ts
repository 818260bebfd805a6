import assert from "node:assert/strict";
import { test } from "node:test";
import { writeMetrics } from "./write-metrics.ts";

test("quotes, line ends and backslashes of a label stay inside it", () => {
  const page = writeMetrics([
    { name: "a", help: "one\nline \\ of help", type: "gauge", values: [{ labels: { model: 'x"} 1\n\\' }, value: 2 }] },
  ]);
  assert.equal(page, '# HELP a one\\nline \\\\ of help\n# TYPE a gauge\na{model="x\\"} 1\\n\\\\"} 2\n');
});

test("a family without a series is left out, and infinities have Prometheus's spelling", () => {
  const page = writeMetrics([
    { name: "none", help: "", type: "gauge", values: [] },
    { name: "a", help: "h", type: "gauge", values: [{ labels: {}, value: Number.NEGATIVE_INFINITY }] },
  ]);
  assert.equal(page, "# HELP a h\n# TYPE a gauge\na -Inf\n");
});
