/**
 * Fake nodes that answer polls as real engines do, one port each: the metrics text is the one captured from the engine,
 * with counters that move. Speaks just enough HTTP to cost little, since it shares the machine with what is measured.
 * Arguments: how many. Prints one line of JSON, the engine and port of each; answers each line on standard input with
 * the bytes of metrics sent so far and the connections taken so far.
 */

import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** uvicorn and llama.cpp close a connection that is idle for this long. */
const KEEP_ALIVE_MS = 5_000;

/** Engines of a fleet of ten, in turn. */
const MIX = ["vllm", "llamacpp", "vllm", "tgi", "vllm", "custom", "vllm", "llamacpp", "vllm", "tgi"] as const;
type Engine = (typeof MIX)[number];

/** Digits that stand in for a counter: they are counted up with every answer, so that a busy node makes progress. */
const COUNTER = "1000000000";

const sample = (file: string): string => readFileSync(new URL(`../../packages/${file}`, import.meta.url), "utf8");

function metricsOf(text: string, counter: string): string {
  const line = new RegExp(`^(${counter}(?:\\{.*\\})?) \\S+$`, "m");
  if (!line.test(text)) throw new Error(`the sample has no ${counter}`);
  return text.replace(line, `$1 ${COUNTER}`);
}

const METRICS: Readonly<Record<Engine, string | null>> = {
  vllm: metricsOf(sample("simulator/src/fake/fixtures/vllm-0.32.0.prom"), "vllm:generation_tokens_total"),
  llamacpp: metricsOf(sample("simulator/src/fake/fixtures/llamacpp-b10434.prom"), "llamacpp:tokens_predicted_total"),
  tgi: metricsOf(sample("gateway/src/availability/adapters/samples/tgi-load.prom"), "tgi_request_generated_tokens_sum"),
  custom: null,
};

const MODELS = JSON.stringify({
  object: "list",
  data: [{ id: "fleet-model", object: "model", created: 0, owned_by: "fleet", max_model_len: 131_072 }],
});

const OTHERS: Readonly<Record<string, string>> = {
  "/health": "",
  "/v1/models": MODELS,
  "/props": JSON.stringify({ total_slots: 8, default_generation_settings: { n_ctx: 8_192 } }),
  "/info": JSON.stringify({ model_id: "fleet-model", max_concurrent_requests: 128, max_total_tokens: 8_192 }),
};

let metricsBytes = 0;
let connections = 0;

class Node {
  readonly #engine: Engine;
  #answers = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  serve(socket: Socket): void {
    connections += 1;
    let pending = "";
    socket.setNoDelay(true);
    socket.setTimeout(KEEP_ALIVE_MS, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      pending += bytes.toString("latin1");
      for (let end = pending.indexOf("\r\n\r\n"); end !== -1; end = pending.indexOf("\r\n\r\n")) {
        const head = pending.slice(0, end);
        pending = pending.slice(end + 4);
        this.#answer(socket, head);
      }
    });
  }

  #answer(socket: Socket, head: string): void {
    const path = head.slice(head.indexOf(" ") + 1, head.indexOf(" HTTP/1.1"));
    const isLast = /\r\nconnection: close/i.test(head);
    const body = this.#bodyOf(path);
    const status = body === null ? "404 Not Found" : "200 OK";
    const closing = isLast ? "connection: close\r\n" : "";
    const text = `HTTP/1.1 ${status}\r\nserver: uvicorn\r\ncontent-length: ${body?.length ?? 0}\r\n${closing}\r\n${body ?? ""}`;
    if (isLast) socket.end(text, "latin1");
    else socket.write(text, "latin1");
  }

  #bodyOf(path: string): string | null {
    if (path !== "/metrics") return OTHERS[path] ?? null;
    const text = METRICS[this.#engine];
    if (text === null) return null;
    this.#answers += 1;
    metricsBytes += text.length;
    return text.replace(COUNTER, String(Number(COUNTER) + this.#answers * 500));
  }
}

const count = Number(process.argv[2]);
const nodes = await Promise.all(
  Array.from({ length: count }, async (_, index) => {
    const engine = MIX[index % MIX.length] as Engine;
    const node = new Node(engine);
    const server = createServer((socket) => node.serve(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { engine, port: (server.address() as AddressInfo).port };
  }),
);
process.stdout.write(`${JSON.stringify(nodes)}\n`);
process.stdin.on("data", () => process.stdout.write(`${JSON.stringify({ metricsBytes, connections })}\n`));
process.stdin.on("end", () => process.exit(0));
