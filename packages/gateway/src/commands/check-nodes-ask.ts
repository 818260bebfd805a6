/** One tiny request to a model on a node, over a connection as traffic has it, with its times. */

import { type AdapterVerdict, classifyStatus, type Endpoint } from "@zml/engine";
import type { Adapter } from "../availability/adapters/index.ts";
import type { NodeSpec } from "../availability/index.ts";
import { pathOf } from "../availability/url.ts";
import { decodeSseText, SseParser } from "../dispatch/sse-events.ts";
import { codeOf } from "../http1/error-code.ts";
import { NodeConnection, targetOf } from "../http1/node-connection.ts";

/** What came of it. Times in ms; NaN: unknown, or none. */
export interface Asked {
  readonly endpoint: Endpoint;
  readonly verdict: AdapterVerdict;
  /** NaN: no answer came. */
  readonly status: number;
  /** The node's own words, or why no answer came; null: all is well. */
  readonly problem: string | null;
  /** To the first token, or to the whole answer where nothing is streamed. */
  readonly firstMs: number;
  readonly tokens: number;
  /** Of this one stream, after its first token; NaN: too short to measure. */
  readonly tokensPerSecond: number;
  /** The model that the answer names; null: it names none. */
  readonly model: string | null;
}

/** Tokens that are asked for: enough to tell a speed, few enough to disturb nobody. */
const TOKENS = 64;
/** Fewer tokens, or a shorter time in ms, tell no speed: what came in one burst was not measured. */
const TOKENS_MEASURED_MIN = 8;
const MEASURED_MS_MIN = 10;
const PROMPT = "Write the numbers from one to thirty as words.";
/** What is kept of an answer: enough for an error, or for a whole embedding. */
const BODY_BYTES_MAX = 1 << 20;
/** The adapters read the beginning of an answer. */
const CLASSIFIED_BYTES = 16_384;

const REQUESTS: Readonly<Record<Endpoint, { path: string; isStreamed: boolean; body: (model: string) => object }>> = {
  chat_completions: {
    path: "/v1/chat/completions",
    isStreamed: true,
    body: (model) => ({ model, messages: MESSAGES, max_tokens: TOKENS, ...STREAMED }),
  },
  completions: {
    path: "/v1/completions",
    isStreamed: true,
    body: (model) => ({ model, prompt: PROMPT, max_tokens: TOKENS, ...STREAMED }),
  },
  embeddings: { path: "/v1/embeddings", isStreamed: false, body: (model) => ({ model, input: PROMPT }) },
  rerank: {
    path: "/v1/rerank",
    isStreamed: false,
    body: (model) => ({ model, query: PROMPT, documents: [PROMPT, "no"] }),
  },
  responses: {
    path: "/v1/responses",
    isStreamed: false,
    body: (model) => ({ model, input: PROMPT, max_output_tokens: TOKENS }),
  },
  messages: {
    path: "/v1/messages",
    isStreamed: false,
    body: (model) => ({ model, messages: MESSAGES, max_tokens: TOKENS }),
  },
};
const MESSAGES = [{ role: "user", content: PROMPT }];
const STREAMED = { stream: true, stream_options: { include_usage: true } };

/** In the order in which a model is asked whose endpoints are not known. */
const ORDER: readonly Endpoint[] = ["chat_completions", "completions", "embeddings", "rerank"];

/** Asks by the first endpoint that answers for the model. @param endpoints that it has; null: unknown. Never rejects. */
export async function askModel(
  spec: NodeSpec,
  { model, endpoints, adapter }: { model: string; endpoints: readonly Endpoint[] | null; adapter: Adapter },
  signal: AbortSignal,
): Promise<Asked> {
  const known = ORDER.filter((endpoint) => endpoints?.includes(endpoint) ?? true);
  const [start = "chat_completions", ...others] = known.length > 0 ? known : (endpoints ?? ORDER);
  const first = await askOnce(spec, { model, endpoint: start, adapter }, signal);
  let last = first;
  for (const endpoint of others) {
    if (!mayBeAnotherEndpoint(last)) break;
    last = await askOnce(spec, { model, endpoint, adapter }, signal);
  }
  // of all refusals the first says most: the others are of endpoints that nobody expected
  return last.verdict === "success" ? last : first;
}

function mayBeAnotherEndpoint({ verdict, status }: Asked): boolean {
  if (verdict === "endpoint_unsupported") return true;
  return verdict !== "success" && verdict !== "misconfigured" && (status === 400 || status === 422 || status === 500);
}

function askOnce(
  spec: NodeSpec,
  { model, endpoint, adapter }: { model: string; endpoint: Endpoint; adapter: Adapter },
  signal: AbortSignal,
): Promise<Asked> {
  const { path, isStreamed, body } = REQUESTS[endpoint];
  const { promise, resolve } = Promise.withResolvers<Asked>();
  const { serverName = null, allowsLinkLocal = false, tls = null } = spec;
  const limits = { connectMs: spec.health.timeoutMs, headerBytes: 65_536, serverName, allowsLinkLocal, tls };
  const connection = new NodeConnection(targetOf(spec.url, limits));
  const startedAtMs = performance.now();
  const answer = new AnswerReader(isStreamed, startedAtMs);
  const finish = (failure: string | null): void => {
    signal.removeEventListener("abort", onAbort);
    connection.abort();
    resolve({ endpoint, ...answer.result(adapter, failure) });
  };
  const onAbort = (): void => finish("no answer in time");
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) {
    onAbort();
    return promise;
  }
  const bytes = Buffer.from(JSON.stringify(body(model)));
  const key = spec.apiKey === null ? [] : ["authorization", `Bearer ${spec.apiKey}`];
  const fields = ["connection", "close", "content-type", "application/json", "accept", "*/*", "user-agent", "zml"];
  connection.send(
    {
      method: "POST",
      path: pathOf(spec.url, path),
      headers: [...fields, ...key, "content-length", String(bytes.length)],
      body: bytes,
    },
    {
      onStart() {},
      onHead: (status, headers) => answer.head(status, headers["content-type"] ?? null),
      onBody: (chunk) => answer.body(chunk),
      onEnd: () => finish(null),
      onError: (error) => finish(`the connection broke: ${codeOf(error)}`),
    },
  );
  return promise;
}

/** Reads one answer as it comes. */
class AnswerReader {
  readonly #isStreamed: boolean;
  readonly #startedAtMs: number;
  #status = Number.NaN;
  #contentType: string | null = null;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isStream = false;
  #firstEvent: { data: string; event: string | null } | null = null;
  #firstAtMs = Number.NaN;
  #lastAtMs = Number.NaN;
  #events = 0;
  #told = Number.NaN;
  #model: string | null = null;
  #errorWords: string | null = null;
  readonly #parser = new SseParser({
    onEvent: (data, event) => this.#event(decodeSseText(data), event),
    onOversized: () => undefined,
  });

  constructor(isStreamed: boolean, startedAtMs: number) {
    this.#isStreamed = isStreamed;
    this.#startedAtMs = startedAtMs;
  }

  head(status: number, contentType: string | null): void {
    this.#status = status;
    this.#contentType = contentType;
    this.#isStream = status < 300 && /^text\/event-stream/i.test(contentType ?? "");
  }

  body(chunk: Buffer): void {
    if (this.#isStream) {
      this.#parser.push(chunk);
      return;
    }
    this.#bytes += chunk.length;
    if (this.#bytes <= BODY_BYTES_MAX) this.#chunks.push(Buffer.from(chunk));
  }

  #event(data: string, event: string | null): void {
    this.#firstEvent ??= { data, event };
    if (data.trim() === "[DONE]") return;
    const value = parsed(data);
    if (value === null) return;
    if (value.error !== undefined) this.#errorWords ??= wordsOf(data);
    if (typeof value.model === "string") this.#model ??= value.model;
    if (typeof value.usage?.completion_tokens === "number") this.#told = value.usage.completion_tokens;
    if (!hasText(value)) return;
    this.#lastAtMs = performance.now();
    if (Number.isNaN(this.#firstAtMs)) this.#firstAtMs = this.#lastAtMs;
    this.#events += 1;
  }

  result(adapter: Adapter, failure: string | null): Omit<Asked, "endpoint"> {
    const status = this.#status;
    const text = Buffer.concat(this.#chunks).toString("utf8");
    const nothing = {
      status,
      firstMs: Number.NaN,
      tokens: Number.NaN,
      tokensPerSecond: Number.NaN,
      model: this.#model,
    };
    if (failure !== null) return { ...nothing, verdict: "failure", problem: failure };
    const answer = {
      status,
      contentType: this.#contentType,
      body: Buffer.from(text).subarray(0, CLASSIFIED_BYTES),
      firstEvent: this.#firstEvent,
    };
    const verdict = adapter.classify(answer) ?? classifyStatus(status);
    if (verdict !== "success") {
      return { ...nothing, verdict, problem: this.#errorWords ?? wordsOf(this.#firstEvent?.data ?? text) };
    }
    if (this.#errorWords !== null) return { ...nothing, verdict: "failure", problem: this.#errorWords };
    return this.#isStream ? this.#ofStream() : this.#ofBody(text);
  }

  #ofStream(): Omit<Asked, "endpoint"> {
    const tokens = Number.isNaN(this.#told) ? this.#events : this.#told;
    const tookMs = this.#lastAtMs - this.#firstAtMs;
    const isMeasured = tokens >= TOKENS_MEASURED_MIN && tookMs >= MEASURED_MS_MIN;
    return {
      verdict: "success",
      status: this.#status,
      problem: null,
      firstMs: this.#firstAtMs - this.#startedAtMs,
      tokens,
      tokensPerSecond: isMeasured ? ((tokens - 1) / tookMs) * 1000 : Number.NaN,
      model: this.#model,
    };
  }

  #ofBody(text: string): Omit<Asked, "endpoint"> {
    const value = parsed(text);
    const answer = { status: this.#status, tokensPerSecond: Number.NaN, model: textOf(value?.model) };
    const isAnswer = value !== null && ANSWER_MEMBERS.some((member) => Array.isArray(value[member]));
    if (!isAnswer || this.#isStreamed) {
      const words = isAnswer ? "a stream was asked for, and the answer is none" : wordsOf(text);
      return { ...answer, verdict: "failure", problem: words, firstMs: Number.NaN, tokens: Number.NaN };
    }
    const tokens = value.usage?.completion_tokens ?? value.usage?.output_tokens;
    return {
      ...answer,
      verdict: "success",
      problem: null,
      firstMs: performance.now() - this.#startedAtMs,
      tokens: typeof tokens === "number" && tokens > 0 ? tokens : Number.NaN,
    };
  }
}

/** A list that answers of each endpoint have. */
const ANSWER_MEMBERS = ["choices", "data", "results", "output", "content"] as const;

interface AnyAnswer extends Readonly<Partial<Record<(typeof ANSWER_MEMBERS)[number], unknown>>> {
  readonly error?: unknown;
  readonly model?: unknown;
  readonly usage?: { readonly completion_tokens?: unknown; readonly output_tokens?: unknown } | null;
}

function parsed(text: string): AnyAnswer | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** A choice of the event carries text: as answer, as reasoning, or as plain completion. */
function hasText({ choices }: AnyAnswer): boolean {
  if (!Array.isArray(choices)) return false;
  return choices.some((choice: { text?: unknown; delta?: Record<string, unknown> } | null) => {
    const parts = [
      choice?.text,
      choice?.delta?.["content"],
      choice?.delta?.["reasoning_content"],
      choice?.delta?.["reasoning"],
    ];
    return parts.some((part) => typeof part === "string" && part !== "");
  });
}

/** What an error says, in one text. */
function wordsOf(text: string): string {
  const trimmed = text.trim();
  if (/^<(!doctype|html)/i.test(trimmed)) return "an HTML page, no answer of a serving engine";
  const value = parsed(trimmed) as {
    error?: { message?: unknown } | string;
    message?: unknown;
    detail?: unknown;
  } | null;
  const { error } = value ?? {};
  const words = typeof error === "object" ? error?.message : (error ?? value?.message ?? value?.detail);
  if (typeof words === "string") return words;
  return trimmed === "" ? "an empty answer" : trimmed;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
