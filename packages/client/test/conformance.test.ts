/** Every vector of conformance/ that an SDK runs, against a scripted server on a raw socket. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { until } from "../../gateway/test/plane-fixture.ts";
import { chunk, head, LAST_CHUNK, type NodeCall, startScriptedNode } from "../../gateway/test/scripted-node.ts";
import * as sdk from "../src/index.ts";
import { SYSTEM_TIMING } from "../src/timing.ts";

type Json = Record<string, unknown>;
type Chunk = string | { readonly base64: string };

interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly body_text?: string;
  readonly body_base64?: string;
  readonly chunks?: readonly Chunk[];
  readonly end?: "complete" | "cut" | "hang";
}

interface Vector {
  readonly name: string;
  readonly runs: readonly string[];
  readonly client?: Json & { readonly environment?: Record<string, string>; readonly now?: string };
  readonly call: { readonly method: string; readonly arguments: Json; readonly take?: number };
  readonly wire?: { readonly method: string; readonly path: string; readonly headers?: Json; readonly body?: unknown };
  readonly answers: readonly Answer[];
  readonly result: {
    readonly object?: unknown;
    readonly text?: string;
    readonly events?: readonly unknown[];
    readonly error?: Json & { readonly name: string };
    readonly routing?: Json | null;
    readonly request_id?: unknown;
    readonly requests?: number;
    readonly waits_ms?: readonly unknown[];
    readonly closed?: boolean;
  };
}

const folder = join(import.meta.dirname, "..", "..", "..", "conformance");
const files = readdirSync(folder).filter((file) => file.endsWith(".json") && file !== "vectors.schema.json");

for (const file of files) {
  const { vectors } = JSON.parse(readFileSync(join(folder, file), "utf8")) as { vectors: Vector[] };
  for (const vector of vectors.filter(({ runs }) => runs.includes("sdk"))) {
    test(`${file}: ${vector.name}`, (t) => run(t, vector));
  }
}

const classes: Readonly<Record<string, unknown>> = { ...sdk };

/** What a call came to. */
interface Outcome {
  answer?: sdk.AnswerFacts;
  stream?: sdk.InferStream<unknown>;
  events?: unknown[];
  error?: unknown;
}

async function run(t: TestContext, vector: Vector): Promise<void> {
  const isTlsTo = String(vector.client?.["base_url"]).startsWith("https://{address}");
  const server = isTlsTo
    ? await startPlainServer()
    : await startScriptedNode((call, index) => play(call, vector.answers[index]));
  t.after(() => server.stop());
  const waits: number[] = [];
  let sleptMs = 0;
  const startMs = vector.client?.now === undefined ? Date.now() : Date.parse(vector.client.now);
  const timing: sdk.Timing = {
    ...SYSTEM_TIMING,
    nowMs: () => performance.now() + sleptMs,
    dateMs: () => startMs + sleptMs,
    random: () => 0.5,
    async sleep(ms) {
      waits.push(ms);
      sleptMs += ms;
    },
  };
  const outcome = await perform(vector, server.url, await closedUrl(), timing);
  checkResult(vector, outcome);
  const { result } = vector;
  assert.equal(server.calls.length, result.requests ?? vector.answers.length, "requests");
  for (const call of server.calls) checkWire(vector, call);
  if (result.waits_ms !== undefined) match(waits, result.waits_ms, "waits_ms");
  if (result.closed === true) await until(() => server.calls.at(-1)?.isClosed === true, "the close of the connection");
}

async function perform(vector: Vector, origin: string, closed: string, timing: sdk.Timing): Promise<Outcome> {
  const fill = (text: string): string =>
    text.replaceAll("{origin}", origin).replaceAll("{closed}", closed).replaceAll("{address}", origin.slice(7));
  const outcome: Outcome = {};
  try {
    const client = makeClient(vector, fill, timing);
    const { take } = vector.call;
    const answer = await invoke(client, vector.call);
    if (!(Symbol.asyncIterator in answer)) return { answer };
    outcome.stream = answer;
    outcome.events = [];
    if (take === 0) answer.close();
    for await (const event of answer) {
      outcome.events.push(event);
      if (outcome.events.length === take) break;
    }
  } catch (error) {
    outcome.error = error;
  }
  return outcome;
}

function makeClient(vector: Vector, fill: (text: string) => string, timing: sdk.Timing): sdk.ZML {
  const { environment = {}, now: _, ...given } = vector.client ?? {};
  const members: Json = {
    base_url: "{origin}",
    api_key: "sk-conformance",
    admin_url: "{origin}",
    admin_key: "sk-admin",
    timeout: 600,
    max_retries: 2,
    ...given,
  };
  const names: Readonly<Record<string, string>> = {
    base_url: "baseUrl",
    api_key: "apiKey",
    admin_url: "adminUrl",
    admin_key: "adminKey",
    timeout: "timeoutMs",
    max_retries: "maxRetries",
    default_headers: "headers",
  };
  const options: Json = { timing };
  for (const [name, value] of Object.entries(members)) {
    if (value === null) continue;
    assert.ok(names[name] !== undefined, `the runner knows no member ${name} of client`);
    options[names[name]] = name === "timeout" ? Number(value) * 1000 : filled(value, fill);
  }
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (name.startsWith("ZML_")) delete process.env[name];
  for (const [name, value] of Object.entries(environment)) process.env[name] = fill(value);
  try {
    return new sdk.ZML(options);
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

function filled(value: unknown, fill: (text: string) => string): unknown {
  if (typeof value === "string") return fill(value);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, filled(each, fill)]));
}

async function invoke(client: sdk.ZML, call: Vector["call"]): Promise<sdk.AnswerFacts | sdk.InferStream<unknown>> {
  const { timeout, max_retries, extra_headers, ...rest } = call.arguments;
  const options: Json = {
    ...(timeout !== undefined && { timeoutMs: Number(timeout) * 1000 }),
    ...(max_retries !== undefined && { maxRetries: max_retries }),
    ...(extra_headers !== undefined && { extraHeaders: extra_headers }),
  };
  const parameters = { ...rest, ...options };
  switch (call.method) {
    case "infer":
      return client.infer(parameters as sdk.ChatParameters);
    case "embed":
      return client.embed(parameters as sdk.EmbedParameters);
    case "models.list":
      return client.models.list(options);
    case "models.get":
      return client.models.get(rest["id"] as string, options);
    case "decisions.explain":
      return client.decisions.explain(rest["id"] as string, options);
    default:
      throw new Error(`the runner knows no method ${call.method}`);
  }
}

function checkResult({ result }: Vector, outcome: Outcome): void {
  const { error } = outcome;
  if (result.error === undefined) {
    if (error !== undefined) throw error;
  } else {
    const { name, ...members } = result.error;
    assert.ok(error !== undefined, `${name} was not thrown`);
    const wanted = classes[name] as new () => Error;
    if (!(error instanceof wanted)) throw new Error(`no ${name} was thrown`, { cause: error });
    const words = { retry_after: "retryAfter", request_id: "requestId", should_retry: "shouldRetry" } as Json;
    for (const [member, value] of Object.entries(members)) {
      match(Reflect.get(error, String(words[member] ?? member)), value, `error.${member}`);
    }
  }
  const carrier = (outcome.answer ?? outcome.stream ?? error) as sdk.AnswerFacts;
  if (result.object !== undefined) match(outcome.answer, result.object, "object");
  if (result.text !== undefined) assert.equal((outcome.answer as sdk.ChatAnswer | undefined)?.text, result.text);
  if (result.events !== undefined) match(outcome.events, result.events, "events");
  if (result.request_id !== undefined) match(carrier.requestId, result.request_id, "request_id");
  if (result.routing !== undefined) checkRouting(carrier.routing, result.routing);
  // an error of the stream tells where it went, too
  if (result.routing !== undefined && error !== undefined) {
    checkRouting((error as sdk.APIStatusError).routing, result.routing);
  }
}

function checkRouting(actual: unknown, wanted: Json | null): void {
  if (wanted === null) return assert.equal(actual, null);
  assert.ok(actual !== null && actual !== undefined, "there is no routing");
  const { queueDepth, ...rest } = actual as sdk.ReceivedRouting;
  const known = { ...rest, ...(queueDepth !== undefined && { queue_depth: queueDepth }) };
  const stated = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== null));
  assert.deepEqual(Object.keys(known).sort(), Object.keys(stated).sort());
  match(known, stated, "routing");
}

function checkWire({ wire, call: { method } }: Vector, call: NodeCall): void {
  if (wire === undefined) return;
  assert.equal(call.requestLine, `${wire.method} ${wire.path} HTTP/1.1`);
  const hasBody = wire.body !== undefined;
  const always: Json = {
    authorization: method.startsWith("decisions.") ? "Bearer sk-admin" : "Bearer sk-conformance",
    "user-agent": { $match: "^zml-" },
    ...(hasBody && { "content-type": "application/json" }),
  };
  const headers = { ...always, ...wire.headers };
  for (const [name, value] of Object.entries(headers)) match(call.headers[name], value, `header ${name}`);
  for (const name of Object.keys(call.headers)) if (name.startsWith("x-zml-")) assert.ok(name in headers, name);
  assert.deepEqual(hasBody ? JSON.parse(call.body.toString()) : call.body.length, hasBody ? wire.body : 0);
}

/** Asserts that a value has what is stated: members as a subset, lists in full, matchers as they say. */
function match(actual: unknown, stated: unknown, at: string): void {
  if (stated === null) return assert.ok(actual === null || actual === undefined, `${at} is ${JSON.stringify(actual)}`);
  if (typeof stated !== "object") return assert.deepEqual(actual, stated, at);
  if (Array.isArray(stated)) {
    assert.ok(Array.isArray(actual), `${at} is no list`);
    assert.equal(actual.length, stated.length, `length of ${at}`);
    stated.forEach((each, index) => void match(actual[index], each, `${at}[${index}]`));
    return;
  }
  const members = stated as Json;
  if ("$match" in members) return assert.match(String(actual), new RegExp(String(members["$match"]), "u"), at);
  if ("$any" in members) return assert.notEqual(actual, undefined, at);
  if ("$absent" in members) return assert.equal(actual, undefined, at);
  if ("$between" in members) {
    const [least, most] = members["$between"] as [number, number];
    return assert.ok(Number(actual) >= least && Number(actual) <= most, `${at} is ${actual}, not ${least} to ${most}`);
  }
  assert.ok(typeof actual === "object" && actual !== null, `${at} is ${JSON.stringify(actual)}`);
  for (const [key, value] of Object.entries(members)) match((actual as Json)[key], value, `${at}.${key}`);
}

/** Serves an answer. */
async function play(call: NodeCall, answer: Answer | undefined): Promise<void> {
  if (answer === undefined) return call.rst();
  const { status, end = "complete" } = answer;
  if (status !== undefined) {
    const isChunked = answer.chunks !== undefined;
    const body = bodyOf(answer);
    const type = isChunked ? "text/event-stream" : answer.body === undefined ? undefined : "application/json";
    const headers: Json = {
      ...(type !== undefined && { "content-type": type }),
      // a length that is never reached is how a body is cut
      ...(isChunked
        ? { "transfer-encoding": "chunked" }
        : { "content-length": body.length + (end === "complete" ? 0 : 1) }),
      ...answer.headers,
    };
    call.write(headOf(status, headers));
    if (!isChunked) call.write(body);
    for (const each of answer.chunks ?? []) {
      const bytes = bytesOf(each);
      if (bytes.length > 0) call.write(chunk(bytes));
      // alone on its way
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (isChunked && end === "complete") call.write(LAST_CHUNK);
  }
  if (end === "cut") call.fin();
}

function headOf(status: number, headers: Json): string {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => `${name}: ${exampleOf(each)}\r\n`),
  );
  return head(status).replace("\r\n\r\n", `\r\n${lines.join("")}\r\n`);
}

function exampleOf(value: unknown): string {
  return String(typeof value === "object" && value !== null ? (value as Json)["example"] : value);
}

function bodyOf(answer: Answer): Buffer {
  if (answer.body_base64 !== undefined) return Buffer.from(answer.body_base64, "base64");
  if (answer.body_text !== undefined) return Buffer.from(answer.body_text);
  return Buffer.from(answer.body === undefined ? "" : JSON.stringify(examples(answer.body)));
}

/** A body with the example of every matcher in its place. */
function examples(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(examples);
  const members = value as Json;
  if (Object.keys(members).some((key) => key.startsWith("$"))) return members["example"];
  return Object.fromEntries(Object.entries(members).map(([key, each]) => [key, examples(each)]));
}

function bytesOf(each: Chunk): Buffer {
  return typeof each === "string" ? Buffer.from(each) : Buffer.from(each.base64, "base64");
}

/** What a client that speaks TLS meets on a port without: an HTTP server that answers its hello with a 400. */
async function startPlainServer(): Promise<{ url: string; calls: NodeCall[]; stop(): void }> {
  const server = createHttpServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    calls: [],
    stop: () => void server.close(),
  };
}

/** An address where nobody listens: a port that the system gave and that was given back. */
async function closedUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}
