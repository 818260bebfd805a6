/**
 * The node behind the bench: answers at once, or streams 64 events as fast as possible or one each 20 ms, or one each
 * 100 ms until the caller goes, or ten, one a second, as the first word of the prompt says: routers drop
 * other members, or move them. Prints its port.
 */

import { createServer, type ServerResponse } from "node:http";

const EVENTS = 64;
const PACE_MS = 20;
/** Of a slow stream: one event a second, ten of them. */
const SLOW_PACE_MS = 1000;
const SLOW_EVENTS = 10;
/** A thousand open streams at this pace are 10,000 events a second: busy, and no more than a small machine can do. */
const HELD_PACE_MS = 100;

/** 703 bytes, like the answer that peers were measured with. */
const ANSWER = Buffer.from(
  JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion",
    created: 1_764_000_000,
    model: "bench",
    choices: [
      { index: 0, message: { role: "assistant", content: "x".repeat(456) }, logprobs: null, finish_reason: "stop" },
    ],
    usage: { prompt_tokens: 200, completion_tokens: 100, total_tokens: 300 },
  }).padEnd(703),
);

/** A body of the bench is 1 KB; of larger ones the start will do. */
const LOOKED_AT_BYTES = 4096;
const KIND = /"content":\s*"(fast|paced|slow|held) /;

const MODELS = JSON.stringify({
  object: "list",
  data: [{ id: "bench", object: "model", created: 0, owned_by: "bench" }],
});

const EVENT = (token: number): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_764_000_000,
    model: "bench",
    choices: [{ index: 0, delta: { content: `token${token} ` }, logprobs: null, finish_reason: null }],
  })}\n\n`;
const STREAM = Array.from({ length: EVENTS }, (_, token) => Buffer.from(EVENT(token)));
const LAST = Buffer.from(
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_764_000_000,
    model: "bench",
    choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }],
  })}\n\ndata: [DONE]\n\n`,
);

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  if (request.method === "GET") {
    request.resume();
    // a router may ask which models there are before it routes to them
    response.end(request.url === "/v1/models" ? MODELS : "ok");
    return;
  }
  let body = "";
  request.on("data", (chunk: Buffer) => {
    if (body.length < LOOKED_AT_BYTES) body += chunk.toString("latin1", 0, LOOKED_AT_BYTES);
  });
  request.on("end", () => {
    const kind = KIND.exec(body)?.[1];
    if (kind === "fast") stream(response, 0, EVENTS);
    else if (kind === "paced") stream(response, PACE_MS, EVENTS);
    else if (kind === "slow") stream(response, SLOW_PACE_MS, SLOW_EVENTS);
    else if (kind === "held") stream(response, HELD_PACE_MS, Number.POSITIVE_INFINITY);
    else response.writeHead(200, { "content-type": "application/json", "content-length": ANSWER.length }).end(ANSWER);
  });
});

function stream(response: ServerResponse, paceMs: number, events: number): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  let sent = 0;
  const next = (): void => {
    if (response.destroyed) return;
    if (sent === events) {
      response.end(LAST);
      return;
    }
    response.write(STREAM[sent % EVENTS]);
    sent += 1;
    // one event per turn of the loop: each is a write and a read of its own, as with a real engine
    if (paceMs > 0) setTimeout(next, paceMs);
    else setImmediate(next);
  };
  next();
}

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
