import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatProblems } from "./config-problem.ts";
import { readConfig } from "./read-config.ts";

const SECRET = "Tr0ub4dor&3";

const VALID = `data: { listen: "127.0.0.1:0" }
timeouts: &limits { connect_ms: 2000, total_ms: null }
keys:
  - { name: app, value_env: APP_KEY, scopes: [infer, admin] }
accounts: [{ name: team, default_policy: p }]
nodes:
  - id: a
    url: http://10.0.0.1:8000/serve
    family: MI300X
    engine: custom
    custom: { health_path: /up }
    cost: { usd_per_gpu_hour: 1.99 }
    models: [m, { name: big, upstream_model: org/big }]
    timeouts: *limits
  - { id: b, url: "http://10.0.0.2:8000", family: H100, account: team, api_key_env: NODE_KEY }
policies:
  - name: p
    account: team
    accelerator_preference:
      - { family: H100, priority: 1 }
    latency_target_ms: 2000
models:
  - { name: m }
`;

const options = { fileName: "zml.yaml", env: { APP_KEY: SECRET, NODE_KEY: `${SECRET}x` }, cores: 2 };

function check(text: string): void {
  const result = readConfig(text, options);
  const lineCount = text.split("\n").length + 1;
  assert.equal(
    result.config === undefined,
    result.errors.length > 0,
    "a configuration or errors, never both or neither",
  );
  for (const problem of [...result.errors, ...result.warnings]) {
    assert.ok(problem.line >= 1 && problem.line <= lineCount, `line ${problem.line}`);
    assert.ok(problem.column >= 1);
    assert.ok(problem.message !== "");
  }
  const lines = result.errors.map((problem) => problem.line);
  assert.deepEqual(
    lines,
    lines.toSorted((left, right) => left - right),
  );
  assert.ok(!formatProblems([...result.errors, ...result.warnings]).includes(SECRET));
  assert.ok(!JSON.stringify(result).includes(SECRET));
}

test("the file that is damaged below is a valid one", () => {
  assert.equal(formatProblems(readConfig(VALID, options).errors), "");
});

const fragment = fc.oneof(
  fc.string({ maxLength: 4, unit: "binary" }),
  fc.constantFrom(
    "\n",
    "\t",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "&a ",
    "*limits",
    "*a",
    "!x ",
    "---\n",
    "...",
    "? ",
    "| ",
    "#",
    "null",
    "-1",
    ".nan",
    ".inf",
    "1e999",
    "0x10",
    "__proto__: 1",
    "<<: *limits",
    "%YAML 1.1\n",
    "\ufeff",
    "\u0000",
  ),
);
const edit = fc.record({ at: fc.nat(VALID.length), cut: fc.nat(12), insert: fragment });

test("a damaged file gives a configuration or errors and never throws", () => {
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 6 }), (edits) => {
      let text = VALID;
      for (const { at, cut, insert } of edits) text = text.slice(0, at) + insert + text.slice(at + cut);
      check(text);
    }),
    { numRuns: 300 },
  );
});

test("values of any kind in any place give a configuration or errors and never throw", () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  const paths = [
    "data",
    "timeouts",
    "keys",
    "accounts",
    "nodes",
    "policies",
    "models",
    "limits",
    "evidence",
    "__proto__",
  ];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...paths), fc.oneof(value, fc.array(value))), (file) => {
      check(JSON.stringify(file));
    }),
    { numRuns: 200 },
  );
});
