/** curl: raw bodies, streams, large uploads that ask first, and each version of HTTP. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { arm, MESSAGES, routingOf, run, stage, statuses, test, testFault } from "./cases.ts";

/** Bytes of a body for which curl asks with `Expect: 100-continue`: above 1 MiB. */
const LARGE_BYTES = 2 << 20;

const { stdout: about } = await promisify(execFile)("curl", ["--version"]);
const hasHttp2 = /^Features:.*\bHTTP2\b/m.test(about);

interface Answer {
  /** Heads of interim answers too. */
  readonly heads: string;
  readonly body: string;
  /** What `--verbose` says. */
  readonly trace: string;
}

/** Runs curl on the chat route. */
async function curl(flags: readonly string[], body: string, key = stage.api_key): Promise<Answer> {
  const always = ["--silent", "--show-error", "--include", "--max-time", "20", "--data-binary", "@-"];
  const headers = ["-H", `authorization: Bearer ${key}`, "-H", "content-type: application/json"];
  const run = promisify(execFile)("curl", [...always, ...headers, ...flags, `${stage.base_url}/v1/chat/completions`]);
  run.child.stdin?.end(body);
  const { stdout, stderr } = await run;
  const parts = stdout.split("\r\n\r\n");
  const end = parts.findIndex((part) => !/^HTTP\/\S+ 1\d\d/.test(part));
  return { heads: parts.slice(0, end + 1).join("\n"), body: parts.slice(end + 1).join("\r\n\r\n"), trace: stderr };
}

function bodyOf(model: string, rest: object = {}): string {
  return JSON.stringify({ model, messages: MESSAGES, max_tokens: 4, ...rest });
}

test("chat, with routing from -i", async (model) => {
  const { heads, body } = await curl([], bodyOf(model));
  assert.match(heads, /^HTTP\/1\.1 200/);
  assert.ok(routingOf(/^x-zml-routing: (.+)$/im.exec(heads)?.[1])["node"]);
  assert.ok(JSON.parse(body).choices[0].message.content);
});

test("stream with --no-buffer", async (model) => {
  const { heads, body } = await curl(["--no-buffer"], bodyOf(model, { stream: true }));
  assert.match(heads, /content-type: text\/event-stream/i);
  assert.match(body, /data: \[DONE\]\n\n$/);
});

test(
  "a large body asks with Expect: 100-continue, and goes",
  async (model) => {
    const content = `data:image/png;base64,${"A".repeat(LARGE_BYTES)}`;
    const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: content } }] }];
    const { trace, body } = await curl(["--verbose"], bodyOf(model, { messages: image }));
    assert.match(trace, /^> expect: 100-continue/im);
    assert.match(trace, /^< HTTP\/1\.1 100 Continue/m);
    assert.ok(JSON.parse(body).choices[0].message.content);
  },
  ["vllm"],
);

test(
  "HTTP/1.0 with a length, plain and stream",
  async (model) => {
    const plain = await curl(["--http1.0"], bodyOf(model));
    assert.ok(JSON.parse(plain.body).choices[0].message.content);
    const stream = await curl(["--http1.0", "--no-buffer"], bodyOf(model, { stream: true }));
    assert.doesNotMatch(stream.heads, /transfer-encoding/i);
    assert.match(stream.body, /^data: \{.*data: \[DONE\]\n\n$/s);
  },
  ["vllm", "llamacpp"],
);

if (hasHttp2) {
  test("HTTP/2 with prior knowledge, plain and stream", async (model) => {
    const plain = await curl(["--http2-prior-knowledge"], bodyOf(model));
    assert.match(plain.heads, /^HTTP\/2 200/);
    assert.ok(JSON.parse(plain.body).choices[0].message.content);
    const stream = await curl(["--http2-prior-knowledge", "--no-buffer"], bodyOf(model, { stream: true }));
    assert.match(stream.body, /data: \[DONE\]\n\n$/);
  });
}

test(
  "a chunked body",
  async (model) => {
    const chunked = await curl(["-H", "transfer-encoding: chunked"], bodyOf(model));
    assert.match(chunked.heads, /^HTTP\/1\.1 200/);
  },
  ["vllm"],
);

test(
  "errors: the body says what to do, and -f makes an exit code of it",
  async (model) => {
    const missing = await curl([], bodyOf("nothing"));
    assert.match(missing.heads, /^HTTP\/1\.1 404/);
    assert.equal(JSON.parse(missing.body).error.code, "model_not_found");
    await assert.rejects(curl(["--fail"], bodyOf("nothing")), { code: 22 });
    const wrong = await curl([], bodyOf(model), "sk-wrong");
    assert.match(wrong.heads, /^HTTP\/1\.1 401/);
  },
  ["vllm"],
);

testFault("saturation: --retry waits for Retry-After and is served", async (model) => {
  await arm("full");
  const { body } = await curl(["--retry", "2"], bodyOf(model));
  assert.match(body, /"choices"/);
  assert.deepEqual(await statuses(), [503, 200]);
});

testFault("a stream that breaks ends with an error event", async (model) => {
  await arm("cut");
  const { body } = await curl(["--no-buffer"], bodyOf(model, { stream: true, max_tokens: 50 }));
  const last = body.trimEnd().split("\n").at(-1) ?? "";
  assert.equal(JSON.parse(last.slice("data: ".length)).error.code, "stream_interrupted");
});

await run("curl", "curl", /^curl (\S+)/.exec(about)?.[1] ?? "unknown");
