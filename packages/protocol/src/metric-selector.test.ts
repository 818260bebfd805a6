import assert from "node:assert/strict";
import { test } from "node:test";
import { parseMetricSelector } from "./metric-selector.ts";

test("a name stands alone, or with labels in any spacing", () => {
  assert.deepEqual(parseMetricSelector("my_queue"), { name: "my_queue", labels: {} });
  assert.deepEqual(parseMetricSelector("a:b{}"), { name: "a:b", labels: {} });
  assert.deepEqual(parseMetricSelector(' q { model = "x" , gpu="0", } '), {
    name: "q",
    labels: { model: "x", gpu: "0" },
  });
});

test("a value may hold what a metrics text escapes", () => {
  assert.deepEqual(parseMetricSelector('q{a="x, y} \\"z\\" \\\\ \\n"}')?.labels, { a: 'x, y} "z" \\ \n' });
});

test("anything else is refused", () => {
  for (const text of ["", "9q", "q{", "q}", 'q{a="x}', "q{a=x}", 'q{a!="x"}', 'q{a=~"x"}', 'q{a="x" b="y"}', "q r"]) {
    assert.equal(parseMetricSelector(text), null, text);
  }
  for (const text of ['q{a="x",a="y"}', 'q{="x"}', 'q{a="\\x"}', "sum(q)", "q + r", 'q{a="x"} 5']) {
    assert.equal(parseMetricSelector(text), null, text);
  }
});
