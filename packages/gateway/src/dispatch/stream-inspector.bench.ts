// Cost of reading along a stream: µs per event, beside JSON.parse of each. Run: node stream-inspector.bench.ts
import { StreamInspector } from "./stream-inspector.ts";

const head = '"id":"chatcmpl-8f2b6c1d4e5f4a3b9c8d7e6f5a4b3c2d","object":"chat.completion.chunk","created":1754000000';
const openai = (index: number) =>
  `data: {${head},"model":"llama3-70b","choices":[{"index":0,"delta":{"content":" token${index % 97}"},` +
  '"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n';
const anthropic = (index: number) =>
  'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",' +
  `"text":" token${index % 97}"}}\n\n`;
const continuousUsage = (index: number) =>
  openai(index).replace("}]}", '}],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}');

const EVENTS = 2000;

for (const [name, event] of [
  ["OpenAI", openai],
  ["OpenAI, CR LF", (index: number) => openai(index).replaceAll("\n", "\r\n")],
  ["Anthropic", anthropic],
  ["usage in each", continuousUsage],
] as const) {
  const texts = Array.from({ length: EVENTS }, (_, index) => event(index));
  const bytes = Math.round(texts.reduce((sum, text) => sum + text.length, 0) / EVENTS);
  for (const perChunk of [0.5, 1, 16]) {
    const stream = Buffer.from(texts.join(""));
    const size = Math.max(1, Math.round(bytes * perChunk));
    const chunks = Array.from({ length: Math.ceil(stream.length / size) }, (_, index) =>
      Buffer.from(stream.subarray(index * size, (index + 1) * size)),
    );
    let best = Number.POSITIVE_INFINITY;
    let bestParse = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 30; round++) {
      let startMs = performance.now();
      const inspector = new StreamInspector();
      for (const chunk of chunks) inspector.push(chunk);
      inspector.end();
      best = Math.min(best, performance.now() - startMs);
      if (inspector.tokensSeen !== EVENTS) throw new Error("the inspector lost an event");
      startMs = performance.now();
      for (const text of texts) JSON.parse(text.slice(text.indexOf("{")));
      bestParse = Math.min(bestParse, performance.now() - startMs);
    }
    const figure = ((best * 1000) / EVENTS).toFixed(2);
    const parse = ((bestParse * 1000) / EVENTS).toFixed(2);
    console.log(
      `${name.padEnd(14)} ${bytes} B/event, ${perChunk} events/chunk: ${figure} µs/event (JSON.parse ${parse})`,
    );
  }
}
