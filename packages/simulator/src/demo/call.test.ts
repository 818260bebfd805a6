import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { CallEnd, ChatCall } from "./call.ts";
import { call } from "./call.ts";

const chat: ChatCall = { model: "m", policy: "batch", isStream: true, prompt: "hello", maxTokens: 5 };

/** Makes one call to a server that answers like this. */
async function answered(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
  changes: Partial<ChatCall> = {},
  signal = new AbortController().signal,
): Promise<CallEnd> {
  const server = createServer((request, response) => answer(response, request));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const dataUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const agent = new Agent();
  try {
    return await call({ ...chat, ...changes }, { agent, dataUrl, signal, onHead: () => {} });
  } finally {
    agent.destroy();
    server.closeAllConnections();
    server.close();
  }
}

test("a stream that ends with [DONE] is good, with or without a blank after the colon", async () => {
  for (const data of ["data: ", "data:"]) {
    const end = await answered((response) => {
      response.writeHead(200, { "x-zml-routing": 'node="a", family="H100", attempt=2' });
      // A line may come in two parts.
      response.write(`${data}{"choices":[]}\n\n${data}{"usage":{"completion_`);
      response.end(`tokens":5}}\n\n${data}[DONE]\n\n`);
    });
    const routing = { node: "a", family: "H100", attempt: 2 };
    assert.deepEqual(end, { isGood: true, error: "", routing, outputTokens: 5 });
  }
});

test("a stream is bad when an event is an error, when it ends without [DONE], and when it breaks off", async () => {
  const cases: [string, boolean, RegExp][] = [
    ['data: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n', true, /^error event: \{"error"/],
    ["event: error\ndata: {}\n\ndata: [DONE]\n\n", true, /^error event: error/],
    ['data: {"choices":[]}\n\n', true, /^stream ended without \[DONE\]/],
    ['data: {"choices":[]}\n\n', false, /^answer broke off: /],
  ];
  for (const [text, isComplete, expected] of cases) {
    const end = await answered((response) => {
      if (isComplete) response.end(text);
      else response.write(text, () => response.destroy());
    });
    assert.equal(end.isGood, false, text);
    assert.match(end.error, expected);
  }
});

test("a plain answer is good with 200, else its status and text are the error", async () => {
  const plain = { isStream: false };
  const good = await answered((response) => response.end('{"usage":{"completion_tokens": 7}}'), plain);
  assert.deepEqual(good, { isGood: true, error: "", routing: {}, outputTokens: 7 });
  const bad = await answered((response) => response.writeHead(503).end("saturated"), plain);
  assert.equal(bad.error, "status 503: saturated");
  const refusedStream = await answered((response) => response.writeHead(400).end("no"));
  assert.equal(refusedStream.error, "status 400: no");
});

test("policy and accelerator go out as headers, the limit in the body", async () => {
  let headers: IncomingMessage["headers"] = {};
  let text = "";
  const changes = { isStream: false, accelerator: "H100" };
  await answered((response, request) => {
    headers = request.headers;
    request.on("data", (part: Buffer) => {
      text += part;
    });
    request.on("end", () => response.end("{}"));
  }, changes);
  assert.equal(headers["x-zml-policy"], "batch");
  assert.equal(headers["x-zml-accelerator"], "H100");
  const body = JSON.parse(text) as Record<string, unknown>;
  assert.equal(body["max_tokens"], 5);
  assert.equal(body["stream"], undefined);
});

test("a call that is broken off by the demo ends and never rejects", async () => {
  const abort = new AbortController();
  const end = await answered(() => abort.abort(), {}, abort.signal);
  assert.match(end.error, /^call failed: /);
});
