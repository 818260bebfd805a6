/**
 * The node behind the streams: an answer is numbered tokens, one each 50 ms until the caller goes. Whatever is asked by
 * GET is answered as well, so that it stands for any number of nodes. Prints its port.
 */

import { createServer } from "node:http";

/** 200 streams at this pace are 4,000 tokens a second. */
const PACE_MS = 50;

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  request.resume();
  if (request.method === "GET") {
    response.end("ok");
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  let sent = 0;
  const timer = setInterval(() => {
    const choices = [{ index: 0, delta: { content: `token${sent} ` }, logprobs: null, finish_reason: null }];
    response.write(
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "bench", choices })}\n\n`,
    );
    sent += 1;
  }, PACE_MS);
  response.on("close", () => clearInterval(timer));
});

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
