/**
 * The gateway of the bench of clients: answers each request with bytes that are ready, so that what is measured is the
 * client. A body with `"stream":true` gets a stream, each event as a chunk of its own, as a gateway relays them: at once,
 * so that a read brings many, or with the user `paced` one each millisecond, so that each is a read. Any other body gets
 * the whole answer. Argument: events per stream. Prints its port.
 */

import { createServer, type Socket } from "node:net";

const EVENTS = Number(process.argv[2]);

const routing =
  'node="h100-a", policy="chat", family="H100", decision="01-00000000001f", queue_depth=3, attempt=1, reason=cheapest';
const head = (rest: string): string =>
  `HTTP/1.1 200 OK\r\nx-zml-routing: ${routing}\r\nx-request-id: 4bf92f3577b34da6\r\n${rest}\r\n\r\n`;

const chat = JSON.stringify({
  id: "chatcmpl-bench",
  object: "chat.completion",
  created: 1_764_000_000,
  model: "bench",
  choices: [
    { index: 0, message: { role: "assistant", content: "word ".repeat(90) }, logprobs: null, finish_reason: "stop" },
  ],
  usage: { prompt_tokens: 200, completion_tokens: 90, total_tokens: 290 },
});
const ANSWER = Buffer.from(`${head(`content-type: application/json\r\ncontent-length: ${chat.length}`)}${chat}`);

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const event = (index: number): string =>
  `data: ${JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion.chunk",
    created: 1_764_000_000,
    model: "bench",
    choices: [
      {
        index: 0,
        delta: { content: ` word${index}` },
        logprobs: null,
        finish_reason: index === EVENTS - 1 ? "stop" : null,
      },
    ],
  })}\n\n`;
const PIECES = [
  head("content-type: text/event-stream\r\ntransfer-encoding: chunked"),
  ...Array.from({ length: EVENTS }, (_, index) => chunk(event(index))),
  chunk("data: [DONE]\n\n") + chunk(""),
].map((text) => Buffer.from(text));
const STREAM = Buffer.concat(PIECES);
const PACE_MS = 1;

/** Requests come one after the other, in any pieces. */
function serve(socket: Socket): void {
  let text = "";
  socket.setNoDelay(true);
  socket.on("data", (piece: Buffer) => {
    text += piece.toString("latin1");
    const end = text.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/^content-length: *(\d+)/im.exec(text)?.[1] ?? 0);
    if (text.length < end + 4 + length) return;
    if (!/"stream": ?true/.test(text)) socket.write(ANSWER);
    else if (text.includes('"paced"')) pace(socket, 0);
    else socket.write(STREAM);
    text = "";
  });
  socket.on("error", () => socket.destroy());
}

function pace(socket: Socket, index: number): void {
  const piece = PIECES[index];
  if (piece === undefined || socket.destroyed) return;
  socket.write(piece);
  setTimeout(pace, PACE_MS, socket, index + 1);
}

const server = createServer(serve).listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
