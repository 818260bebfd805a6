/** The vectors themselves: what must hold before any of them is played. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { gunzipSync } from "node:zlib";
import { ERROR_CODES, ERRORS, isErrorCode } from "@zml/protocol";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { exampleOf, matchersIn, mismatch } from "./conformance-match.ts";
import { bodyBytes } from "./conformance-node.ts";
import { readVectors, SCHEMA_PATH, schemaText, type Vector, vectorFiles } from "./conformance-vectors.ts";

const vectors = vectorFiles().flatMap((file) => readVectors(file));

/** Codes that no single call from outside can bring about, with what tests them instead. */
const OUT_OF_REACH: Readonly<Record<string, string>> = {
  shutting_down: "needs the end of the process while the call runs: robustness.test.ts",
  internal_error: "a fault that the gateway does not know can't be brought about from outside",
  context_length_exceeded: "needs a prompt of at least 64 KiB: capabilities.test.ts",
};

/** The error code that the gateway answers with, or tells in a last event. */
function codeOf({ answers }: Vector): string | null {
  const { body, chunks } = answers[0] ?? {};
  const told = body ?? lastData(chunks?.at(-1));
  const { error } = (told ?? {}) as { error?: { code?: unknown } };
  return typeof error?.code === "string" ? error.code : null;
}

function lastData(chunk: unknown): unknown {
  const data = typeof chunk === "string" ? /^data: (\{.*\})$/m.exec(chunk)?.[1] : undefined;
  return data === undefined ? undefined : JSON.parse(data);
}

/** A routing with the names of the wire. */
function asOnTheWire(header: string): unknown {
  const routing = decodeRoutingHeader(header);
  if (routing === null) return null;
  const { queueDepth, ...others } = routing;
  return queueDepth === undefined ? others : { ...others, queue_depth: queueDepth };
}

test("vectors.schema.json is what the schema here says", () => {
  assert.deepEqual(
    JSON.parse(readFileSync(SCHEMA_PATH, "utf8")),
    JSON.parse(schemaText()),
    "run: node packages/gateway/test/conformance-vectors.ts",
  );
});

test("there are at least sixty vectors for the gateway and as many for the SDKs, and no name stands twice", () => {
  assert.equal(new Set(vectors.map(({ name }) => name)).size, vectors.length);
  for (const runner of ["gateway", "sdk"] as const) {
    assert.ok(vectors.filter(({ runs }) => runs.includes(runner)).length >= 60, runner);
  }
});

test("the page about vectors shows one as it is, and names every file", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/conformance.md"), "utf8");
  const shown: unknown = JSON.parse(/^```json\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? "null");
  assert.ok(vectors.some((vector) => isDeepStrictEqual(vector, shown)));
  for (const file of vectorFiles()) assert.ok(page.includes(`| \`${file}\` |`), file);
});

test("every error code that one call can bring about has a vector that brings it about", () => {
  const played = new Set(vectors.filter(({ runs }) => runs.includes("gateway")).map(codeOf));
  const missing = ERROR_CODES.filter((code) => !played.has(code) && OUT_OF_REACH[code] === undefined);
  assert.deepEqual(missing, []);
  const needless = ERROR_CODES.filter((code) => played.has(code) && OUT_OF_REACH[code] !== undefined);
  assert.deepEqual(needless, []);
});

test("every error code has a vector that says what an SDK makes of it, if an SDK can meet it", () => {
  // an SDK always sends one JSON object in UTF-8, on paths, with methods and headers that exist
  const NOT_MET = ["invalid_json", "body_empty", "body_not_object", "invalid_encoding", "duplicate_field"];
  const ALSO_NOT_MET = ["method_not_allowed", "bad_request", "expectation_failed", "missing_model"];
  const met = new Set(vectors.filter(({ runs }) => runs.includes("sdk")).map(codeOf));
  const missing = ERROR_CODES.filter((code) => !met.has(code) && ![...NOT_MET, ...ALSO_NOT_MET].includes(code));
  assert.deepEqual(missing, []);
});

function everyVector(claim: string, check: (vector: Vector) => void): void {
  test(claim, () => {
    for (const vector of vectors) {
      try {
        check(vector);
      } catch (error) {
        throw new Error(vector.name, { cause: error });
      }
    }
  });
}

everyVector("every vector has the hops that its runners need", (vector) => {
  if (vector.runs.includes("gateway")) {
    assert.ok(vector.wire !== undefined && vector.node !== undefined && vector.answers.length === 1);
  }
  if (vector.runs.includes("sdk")) {
    assert.ok(vector.call !== undefined && vector.result !== undefined);
    assert.ok(vector.wire !== undefined || vector.answers.length === 0, "requests that arrive look like wire");
    assert.ok(vector.wire?.raw_text === undefined && vector.wire?.end === undefined);
    assert.deepEqual(matchersIn(vector.wire?.body), [], "what an SDK sends is fixed");
  }
});

everyVector("every vector gives an example that matches wherever a runner has to send something", (vector) => {
  const sends = vector.runs.includes("sdk") ? vector.answers : (vector.node ?? []).map(({ answer }) => answer);
  for (const { path, matcher } of matchersIn(sends)) {
    if (Object.hasOwn(matcher, "$absent")) continue;
    assert.notEqual(matcher["example"], undefined, path);
    assert.equal(mismatch(matcher, matcher["example"]), null, path);
  }
});

everyVector("every vector states an error of the table as the table does", (vector) => {
  const code = codeOf(vector);
  const { status, body, headers } = vector.answers[0] ?? {};
  if (code === null || !isErrorCode(code) || body === undefined) return;
  const row = ERRORS[code];
  const { error } = body as { error: { type: string } };
  assert.equal(status, row.status);
  const type = (body as { type?: string }).type === "error" ? row.anthropicType : row.type;
  // as OpenAI's: the type of this one says which limit it was
  assert.ok(error.type === type || (code === "rate_limit_exceeded" && error.type === "tokens"), error.type);
  const retry = headers?.["x-should-retry"];
  if (row.side === "upstream") assert.equal(retry, "false");
  if (row.type === "saturation") assert.notEqual(retry, "false");
});

everyVector("every vector expects the routing that its last answer carries", (vector) => {
  const expected = vector.result?.routing;
  const last = vector.answers.at(-1);
  if (expected === undefined || last === undefined) return;
  const given = exampleOf(last.headers?.["x-zml-routing"]);
  const header = Array.isArray(given) ? given.join(", ") : given;
  assert.deepEqual(typeof header === "string" ? asOnTheWire(header.trim()) : null, expected);
});

everyVector("every vector expects the text that its last answer carries", (vector) => {
  const { text } = vector.result ?? {};
  const last = vector.answers.at(-1);
  if (text === undefined || last === undefined) return;
  const bytes = bodyBytes(last);
  const body = last.headers?.["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes;
  const choice = JSON.parse(body.toString().replace(/^\ufeff/, "")).choices[0];
  assert.equal(choice?.message?.content ?? choice?.text ?? "", text);
});
