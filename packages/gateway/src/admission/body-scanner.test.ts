import { strict as assert } from "node:assert";
import { test } from "node:test";
import type { BodyScan } from "./body-scan.ts";
import { BodyScanner, type BodyScanOptions } from "./body-scanner.ts";

function scan(body: string | Buffer, options?: BodyScanOptions): BodyScan {
  const scanner = new BodyScanner(options);
  scanner.push(Buffer.from(body));
  return scanner.end();
}

function codeOf(body: string | Buffer, options?: BodyScanOptions): string {
  const result = scan(body, options);
  return result.ok ? "ok" : result.field === null ? result.code : `${result.code} ${result.field}`;
}

const bad: [name: string, body: string | Buffer, code: string][] = [
  ["an empty body", "", "body_empty"],
  ["white space", " \r\n\t", "body_empty"],
  ["an array", "[1]", "body_not_object"],
  ["a string", '"model"', "body_not_object"],
  ["a number", "-1.5e3", "body_not_object"],
  ["null", "null", "body_not_object"],
  ["prose", "hello", "invalid_json"],
  ["an unclosed object", '{"model":"m"', "invalid_json"],
  ["an unclosed string", '{"model":"m', "invalid_json"],
  ["an unclosed array", '{"model":"m","a":[1', "invalid_json"],
  ["single quotes", "{'model':'m'}", "invalid_json"],
  ["a trailing comma", '{"model":"m",}', "invalid_json"],
  ["a trailing comma in an array", '{"model":"m","a":[1,]}', "invalid_json"],
  ["a missing colon", '{"model" "m"}', "invalid_json"],
  ["a mixed-up bracket", '{"model":"m","a":[1}}', "invalid_json"],
  ["a byte order mark", '\ufeff{"model":"m"}', "invalid_json"],
  ["UTF-16", Buffer.from('{"model":"m"}', "utf16le"), "invalid_json"],
  ["trailing garbage", '{"model":"m"}x', "invalid_json"],
  ["a second object", '{"model":"m"}{"model":"n"}', "invalid_json"],
  ["a trailing zero byte", '{"model":"m"}\0', "invalid_json"],
  ["a leading zero", '{"model":"m","n":01}', "invalid_json"],
  ["NaN", '{"model":"m","n":NaN}', "invalid_json"],
  ["a comment", '{"model":"m"/**/}', "invalid_json"],
  ["a raw line break in a string", '{"model":"m","a":"\n"}', "invalid_json"],
  ["a bad escape", '{"model":"m","a":"\\x"}', "invalid_json"],
  ["invalid UTF-8", Buffer.from('{"model":"m","a":"\xff"}', "latin1"), "invalid_json"],
  ["an overlong character", Buffer.from('{"model":"m","a":"\xc0\xaf"}', "latin1"), "invalid_json"],
  ["a character cut at the end", Buffer.from('{"model":"m","a":"\xe2\x82', "latin1"), "invalid_json"],
  ["a form body", "model=m&stream=true", "invalid_json"],
  ["no model", '{"messages":[]}', "missing_model model"],
  ["a nested model only", '{"a":{"model":"m"}}', "missing_model model"],
  ["another case", '{"Model":"m","MODEL":"m"}', "missing_model model"],
  ["a null model", '{"model":null}', "invalid_model model"],
  ["a numeric model", '{"model":7}', "invalid_model model"],
  ["a model list", '{"model":["m"]}', "invalid_model model"],
  ["an object as model", '{"model":{"model":"m"}}', "invalid_model model"],
  ["an empty model", '{"model":""}', "invalid_model model"],
  ["a control character in the model", '{"model":"a\\nb"}', "invalid_model model"],
  ["half a surrogate pair in the model", '{"model":"\\ud800"}', "invalid_model model"],
  ["a model of 257 bytes", `{"model":"${"é".repeat(128)}x"}`, "invalid_model model"],
  ["a very long model", `{"model":"${"x".repeat(100_000)}"}`, "invalid_model model"],
  ["two models", '{"model":"a","model":"a"}', "duplicate_field model"],
  ["two models, one escaped", '{"model":"a","\\u006dodel":"b"}', "duplicate_field model"],
  ["two models far apart", `{"model":"a","x":"${"y".repeat(100_000)}","model":"b"}`, "duplicate_field model"],
  ["two streams", '{"model":"a","stream":true,"stream":false}', "duplicate_field stream"],
  ["two nulls", '{"model":"a","n":null,"n":null}', "duplicate_field n"],
  ["stream as text", '{"model":"a","stream":"true"}', "invalid_field stream"],
  ["stream as a number", '{"model":"a","stream":1}', "invalid_field stream"],
  ["a limit as text", '{"model":"a","max_tokens":"10"}', "invalid_field max_tokens"],
  ["a fraction of a token", '{"model":"a","max_output_tokens":1.5}', "invalid_field max_output_tokens"],
  ["an endless limit", '{"model":"a","max_completion_tokens":1e400}', "invalid_field max_completion_tokens"],
  ["no answers", '{"model":"a","n":0}', "invalid_field n"],
  ["more answers than anybody means", '{"model":"a","n":1025}', "invalid_field n"],
  ["answers beyond counting", '{"model":"a","n":9007199254740991}', "invalid_field n"],
  ["a policy that is no text", '{"model":"a","policy":{}}', "invalid_field policy"],
  ["an accelerator that is no text", '{"model":"a","accelerator":["H100"]}', "invalid_field accelerator"],
  ["broken JSON behind a duplicate", '{"model":"a","model":"a"', "invalid_json"],
];

for (const [name, body, code] of bad) {
  test(`${name} is ${code}`, () => {
    assert.equal(codeOf(body), code);
  });
}

test("a model name of 256 bytes, with slashes, colons, spaces or escapes is taken as it is", () => {
  for (const model of ["a", "org/name", "a/b/c:latest@v1", "with space", "é".repeat(128), "漢字🙂", 'q"\\']) {
    const result = scan(JSON.stringify({ model }));
    assert(result.ok);
    assert.equal(result.model, model);
  }
  const escaped = scan('{"\\u006d\\u006Fdel":"\\ud83d\\ude42\\/x"}');
  assert(escaped.ok);
  assert.equal(escaped.model, "🙂/x");
});

test("the smallest positive limit counts, and a negative one is none", () => {
  const limits: [string, number][] = [
    ['"max_tokens":100,"max_completion_tokens":20,"max_output_tokens":30', 20],
    ['"max_tokens":null,"n_predict":-1', Number.NaN],
    ['"max_tokens":1e2', 100],
    ['"max_tokens":10.0,"n_predict":0', 10],
  ];
  for (const [members, expected] of limits) {
    const result = scan(`{"model":"m",${members}}`);
    assert(result.ok);
    assert.equal(result.maxTokens, expected);
  }
});

test("policy and accelerator that a header has decided are somebody else's members", () => {
  const body = '{"model":"m","policy":{},"policy":"p","accelerator":7}';
  assert.equal(codeOf(body), "invalid_field policy");
  const result = scan(body, { checkHints: false });
  assert(result.ok);
  assert.equal(result.policy, "p");
  assert.equal(result.accelerator, null);
  assert.equal(result.spans.filter((span) => span.field === "policy").length, 2);
  assert.equal(codeOf('{"model":"m","model":"m"}', { checkHints: false }), "duplicate_field model");
});

test("nesting is bounded, and deeper than the bound is refused without harm", () => {
  const nested = (levels: number) => `{"model":"m","a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
  assert.equal(codeOf(nested(512)), "ok");
  assert.equal(codeOf(nested(513)), "invalid_json");
  assert.equal(codeOf(nested(4), { maxDepth: 4 }), "ok");
  assert.equal(codeOf(nested(5), { maxDepth: 4 }), "invalid_json");
  assert.equal(codeOf("[".repeat(1_000_000)), "invalid_json");
  assert.equal(codeOf('{"a":'.repeat(1_000_000)), "invalid_json");
});

test("a refusal says where and what was expected, and nothing of the body", () => {
  const secret = "TOPSECRET";
  for (const body of [
    `{"model":"m","a":"${secret}" ${secret}`,
    `{"model":"m","${secret}":${secret}}`,
    `{"model":"${secret}\\n"}`,
    `{"model":"m","policy":["${secret}"]}`,
    `${secret}`,
  ]) {
    const result = scan(body);
    assert(!result.ok);
    assert.doesNotMatch(JSON.stringify(result), /TOPSECRET|SECRET/);
  }
  const result = scan('{"model": flase}');
  assert(!result.ok);
  assert.equal(result.offset, 11);
  assert.equal(result.message, "the body is not valid JSON: expected true, false or null at byte 11");
});
