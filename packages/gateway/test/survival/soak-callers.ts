/** Callers of a soak run: each asks, looks at what it got, and asks again, over both versions of HTTP. */

import { Agent, request as http1Request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import { Seeded } from "./seeded.ts";

/** What became of a request. `lost`: nothing that happened explains it. */
export type End = "answered" | "aborted" | "interrupted" | "killed" | "lost";

export interface Asked {
  readonly kind: string;
  readonly end: End;
  readonly ms: number;
  /** Of a lost one: what came instead. */
  readonly what: string;
}

/** An answer that has not ended after this long is lost, ms. */
const ANSWER_MS_MAX = 30_000;
/** Error code of HTTP/2: nothing of the request was looked at. */
const REFUSED_STREAM = 7;

export interface CallersOptions {
  readonly port: number;
  readonly count: number;
  readonly seed: number;
  /** True while connections may break because a thread was told to die. */
  readonly mayBreak: () => boolean;
  readonly onAsked: (asked: Asked) => void;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** Null: the answer came to its end. */
  readonly fault: string | null;
}

export class Callers {
  readonly #options: CallersOptions;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 256 });
  readonly #fresh = new Agent({ keepAlive: false });
  #session: ClientHttp2Session | null = null;
  /** The highest stream that a session was told it may be served. */
  readonly #served = new WeakMap<ClientHttp2Session, number>();
  #isStopping = false;
  #running: Promise<unknown> = Promise.resolve();
  #asked = 0;

  constructor(options: CallersOptions) {
    this.#options = options;
  }

  start(): void {
    const { count, seed } = this.#options;
    this.#running = Promise.all(Array.from({ length: count }, (_, number) => this.#loop(new Seeded(seed, number, 9))));
  }

  /** Lets what runs end, and closes the connections. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
    this.#agent.destroy();
    this.#fresh.destroy();
    this.#session?.destroy();
  }

  async #loop(random: Seeded): Promise<void> {
    while (!this.#isStopping) {
      await this.#ask(random);
      if (random.chance(0.2)) await new Promise((resolve) => setTimeout(resolve, random.below(100)));
    }
  }

  async #ask(random: Seeded): Promise<void> {
    const version = random.chance(0.3) ? "h2" : random.chance(0.1) ? "h1, new connection" : "h1";
    const what = random.pick(["stream", "stream", "plain", "plain", "embeddings"]);
    const id = `r-${++this.#asked}`;
    const isEmbedding = what === "embeddings";
    const body = JSON.stringify({
      model: "m",
      user: id,
      ...(isEmbedding
        ? { input: "hello" }
        : { messages: [{ role: "user", content: "x".repeat(random.below(2000)) }], max_tokens: 20 }),
      ...(what === "stream" ? { stream: true } : {}),
    });
    const abort = random.chance(0.05) ? AbortSignal.timeout(random.below(60)) : null;
    const path = isEmbedding ? "/v1/embeddings" : "/v1/chat/completions";
    const startMs = performance.now();
    const mightBreak = this.#options.mayBreak();
    const answer = await (version === "h2"
      ? this.#askHttp2(path, body, abort)
      : this.#askHttp1(path, body, abort, version === "h1"));
    const isWhole =
      answer.fault === null &&
      answer.status === 200 &&
      (what === "stream" ? answer.text.endsWith("data: [DONE]\n\n") : true) &&
      answer.text.includes(id);
    const end = isWhole
      ? "answered"
      : abort?.aborted === true
        ? "aborted"
        : answer.status === 200 && answer.text.includes("stream_interrupted")
          ? "interrupted"
          : answer.fault !== null && (mightBreak || this.#options.mayBreak())
            ? "killed"
            : "lost";
    const told =
      end === "lost"
        ? `${version} ${what} ${id}: ${answer.status} ${answer.fault ?? ""} ${answer.text.slice(-300)}`
        : "";
    this.#options.onAsked({ kind: `${what}, ${version}`, end, ms: performance.now() - startMs, what: told });
  }

  #askHttp1(path: string, body: string, abort: AbortSignal | null, isKept: boolean): Promise<Answer> {
    return new Promise((resolve) => {
      let text = "";
      let status = 0;
      const fail = (error: Error): void => resolve({ status, text, fault: error.message });
      const signal = AbortSignal.any([AbortSignal.timeout(ANSWER_MS_MAX), ...(abort === null ? [] : [abort])]);
      const { port } = this.#options;
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const request = http1Request({
        port,
        host: "127.0.0.1",
        path,
        method: "POST",
        headers,
        signal,
        agent: isKept ? this.#agent : this.#fresh,
      });
      request.on("error", fail);
      request.on("response", (response) => {
        status = response.statusCode ?? 0;
        response.setEncoding("utf8").on("data", (piece: string) => {
          text += piece;
        });
        response.on("end", () => resolve({ status, text, fault: null }));
        response.on("error", fail);
        response.on("close", () => fail(new Error("the connection closed in the answer")));
      });
      request.end(body);
    });
  }

  #askHttp2(path: string, body: string, abort: AbortSignal | null): Promise<Answer> {
    return new Promise((resolve) => {
      let text = "";
      let status = 0;
      const fail = (why: string): void => resolve({ status, text, fault: why });
      const session = this.#connection();
      const stream = session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/json",
      });
      const cancel = (): void => stream.close(8);
      const timer = setTimeout(cancel, ANSWER_MS_MAX);
      abort?.addEventListener("abort", cancel);
      stream.on("response", (fields) => {
        status = fields[":status"] ?? 0;
      });
      stream.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
      });
      let hasEnded = false;
      stream.on("end", () => {
        hasEnded = true;
      });
      stream.on("error", (error: Error) => {
        // nghttp2 sends no request once it has read a GOAWAY; of one with a higher id, that was this side's choice
        const isUnsent = stream.rstCode === REFUSED_STREAM && (this.#served.get(session) ?? 0) >= (stream.id ?? 0);
        if (isUnsent && abort?.aborted !== true) resolve(this.#askHttp2(path, body, abort));
        else fail(error.message);
      });
      stream.on("close", () => {
        clearTimeout(timer);
        if (hasEnded && stream.rstCode === 0) resolve({ status, text, fault: null });
        else fail(`reset with ${stream.rstCode}`);
      });
      stream.end(body);
    });
  }

  #connection(): ClientHttp2Session {
    if (this.#session === null || this.#session.closed || this.#session.destroyed) {
      const session = connect(`http://127.0.0.1:${this.#options.port}`);
      session.on("error", () => undefined);
      session.on("goaway", (_code, lastStream) => {
        this.#served.set(session, lastStream);
        if (this.#session === session) this.#session = null;
      });
      this.#session = session;
    }
    return this.#session;
  }
}
