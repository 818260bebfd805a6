import { asObject, decodeSseText, isErrorValue, parseObject, SseParser } from "./sse-events.ts";

/** Tokens that the node says it used; NaN for what it did not say. */
export interface TokenUsage {
  promptTokens: number;
  completionTokens: number;
  /** Prompt tokens found in the node's prefix cache. */
  cachedTokens: number;
}

/** An event as its stream spelled it. `event` is its name, null where it has none. */
export interface DataEvent {
  readonly data: string;
  readonly event: string | null;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

type Json = Readonly<Record<string, unknown>>;

/**
 * Reads along a streamed answer: what was the first event, did it end well, what did it use. Speaks the dialects of
 * OpenAI (chat, completions, Responses) and Anthropic. It never changes a byte, never throws on what a node sends, and
 * its memory is bounded. Fields are current after each `push`.
 *
 * Events after the first are parsed only when their bytes can matter; telling by substring is safe, because inside a
 * JSON string a quote is escaped, so `"usage"` with plain quotes is a key or a whole value.
 */
export class StreamInspector {
  /** First event with data that isn't empty, null until it is complete. */
  firstDataEvent: DataEvent | null = null;
  /** Events with data that isn't empty, the end marker included. */
  dataEvents = 0;
  /** The stream said that it is complete: `[DONE]`, `message_stop`, `response.completed` or `response.incomplete`. */
  sawDone = false;
  sawErrorEvent = false;
  /** Last reason given. `abort` means that the node gave up, not that the answer is complete. */
  finishReason: string | null = null;
  /** Any choice was finished with `abort`, also where another choice ended later. */
  sawAbort = false;
  readonly usage: TokenUsage = {
    promptTokens: Number.NaN,
    completionTokens: Number.NaN,
    cachedTokens: Number.NaN,
  };
  /** Events that carried content: close to the tokens for engines that send one event per token. */
  tokensSeen = 0;
  /** An event was too large and was left out: what it said is not known here. */
  gaveUp = false;

  /** Choices that have their reason. */
  #finished: Set<number> | null = null;
  readonly #parser: SseParser;
  /** What stands before and behind the text of the last plain chunk. */
  #beforeText = "";
  #afterText = "";

  /** `maxEventBytes`: larger events are left out; 1 MiB by default. */
  constructor(maxEventBytes?: number) {
    const handler = {
      onEvent: (data: string, eventName: string | null) => this.#read(data, eventName),
      onOversized: () => {
        this.gaveUp = true;
      },
    };
    this.#parser = new SseParser(handler, maxEventBytes);
  }

  /** What came so far ends between two events. */
  get isBetweenEvents(): boolean {
    return this.#parser.isBetweenEvents;
  }

  /** How many choices have their reason; of more than `FINISHED_MAX` so many. */
  get finishedChoices(): number {
    return this.#finished?.size ?? 0;
  }

  /** @param chunk bytes, or a Latin-1 view of them. */
  push(chunk: Buffer | string): void {
    this.#parser.push(chunk);
  }

  /** The body ended. An event that was cut off stays unread, except for an end marker that lacks its blank line. */
  end(): void {
    if (this.#parser.unfinishedData === "[DONE]") this.#read("[DONE]", null);
  }

  #read(data: string, eventName: string | null): void {
    if (data === "") return;
    this.dataEvents++;
    if (this.firstDataEvent === null) {
      this.firstDataEvent = {
        data: decodeSseText(data),
        event: eventName === null ? null : decodeSseText(eventName),
      };
    }
    if (data === "[DONE]") {
      this.sawDone = true;
      return;
    }
    if (eventName !== null || data.startsWith('{"type"')) this.#readNamed(data, eventName);
    else this.#readChunk(data);
  }

  /** An event of the OpenAI kind, which has no name. */
  #readChunk(data: string): void {
    if (this.#isLikeLast(data)) {
      this.tokensSeen++;
      return;
    }
    const isPlain = !(hasValue(data, 'finish_reason"') || hasValue(data, 'usage"') || hasValue(data, 'error"'));
    if (!isPlain) this.#readParsed(data, null);
    const start = contentStart(data);
    if (start < 0) return;
    this.tokensSeen++;
    const end = data.indexOf('"', start);
    if (isPlain && end > start && data.charCodeAt(end - 1) !== BACKSLASH) {
      this.#beforeText = data.slice(0, start);
      this.#afterText = data.slice(end);
    }
  }

  /**
   * Whether the event is the last plain one but for its text: most of a stream is, and this is the cheapest way to
   * know that it says nothing else. A text with a quote in it is left to the full look.
   */
  #isLikeLast(data: string): boolean {
    const start = this.#beforeText.length;
    const end = data.length - this.#afterText.length;
    if (start === 0 || end <= start || data.charCodeAt(end - 1) === BACKSLASH) return false;
    if (data.indexOf('"', start) !== end) return false;
    // Comparing slices runs in words, startsWith and endsWith by the character.
    return data.slice(end) === this.#afterText && data.slice(0, start) === this.#beforeText;
  }

  /** An event of the Anthropic or Responses kind. */
  #readNamed(data: string, eventName: string | null): void {
    const name = eventName ?? typeOf(data);
    switch (name) {
      case "content_block_delta":
        this.tokensSeen++;
        return;
      case "ping":
      case "content_block_start":
      case "content_block_stop":
        return;
      case "message_stop":
        this.sawDone = true;
        return;
      case "message_start":
      case "message_delta":
      case "error":
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        this.#readParsed(data, name);
        return;
      default:
        if (name?.startsWith("response.") === true) {
          if (name.endsWith(".delta")) this.tokensSeen++;
        } else this.#readChunk(data);
    }
  }

  #readParsed(data: string, name: string | null): void {
    const value = parseObject(data);
    if (name === "error" || name === "response.failed" || (value !== null && isErrorValue(value))) {
      this.sawErrorEvent = true;
    }
    if (name === "response.completed" || name === "response.incomplete") this.sawDone = true;
    if (value === null) return;
    const facts = factsOf(value);
    if (!Number.isNaN(facts.promptTokens)) this.usage.promptTokens = facts.promptTokens;
    if (!Number.isNaN(facts.completionTokens)) this.usage.completionTokens = facts.completionTokens;
    if (!Number.isNaN(facts.cachedTokens)) this.usage.cachedTokens = facts.cachedTokens;
    if (Array.isArray(value["choices"])) this.#noteFinished(value["choices"]);
    for (const reason of facts.finishReasons) {
      this.finishReason = reason;
      if (reason === "abort") this.sawAbort = true;
    }
  }

  #noteFinished(choices: readonly unknown[]): void {
    for (let position = 0; position < choices.length; position++) {
      const choice = asObject(choices[position]);
      const reason = choice?.["finish_reason"];
      if (typeof reason !== "string" || reason === "") continue;
      this.#finished ??= new Set();
      const index = choice?.["index"];
      if (this.#finished.size < FINISHED_MAX) this.#finished.add(typeof index === "number" ? index : position);
    }
  }
}

/** Bounds what is remembered of a node that numbers its choices without end. */
export const FINISHED_MAX = 1024;

/** What a plain (not streamed) answer says of itself. */
export interface JsonAnswer extends TokenUsage {
  /** One per finished choice, in order. */
  readonly finishReasons: readonly string[];
  /** A choice was finished with `abort`: the node gave up. */
  readonly isAborted: boolean;
  /** The body is an error in spite of its status. */
  readonly isError: boolean;
  /** False when the body was too large or not JSON: then only what its last bytes say is known. */
  readonly isRead: boolean;
}

/** Last bytes of a large answer that are searched for its usage; the object stands at the end there. */
const USAGE_TAIL_BYTES = 4096;

/**
 * Usage of a plain answer, and whether a choice in it was aborted, without parsing the answer: one look at its text for
 * the rare word, one at its end for the usage. For answers that are relayed by the thousand.
 */
export function skimJsonAnswer(body: Buffer): TokenUsage & { readonly isAborted: boolean } {
  const text = body.toString("latin1");
  if (text.includes('abort"')) return inspectJsonAnswer(body);
  return usageNearEnd(text);
}

function usageNearEnd(text: string): TokenUsage & { readonly isAborted: false } {
  const at = text.lastIndexOf('usage"');
  if (at < 0) return NO_USAGE;
  const usage = text.slice(at);
  const plain = PLAIN_USAGE.exec(usage);
  if (plain !== null) {
    const cached = CACHED.exec(usage)?.[1] ?? Number.NaN;
    return {
      promptTokens: Number(plain[1]),
      completionTokens: Number(plain[2]),
      cachedTokens: Number(cached),
      isAborted: false,
    };
  }
  const object = USAGE_OBJECT.exec(usage)?.[1];
  return { ...usageOf(object === undefined ? null : parseObject(object)), isAborted: false };
}

const NO_USAGE = {
  promptTokens: Number.NaN,
  completionTokens: Number.NaN,
  cachedTokens: Number.NaN,
  isAborted: false,
} as const;

/** What a prefix cache held of the prompt, in OpenAI's words, or in those of llama.cpp behind its usage. */
const CACHED = /"cache(?:d_tokens|_n)"\s*:\s*(\d{1,9})[,}\s]/;

/** The usual spellings of the usage, read without parsing: both counts side by side, in one of two orders. */
const PLAIN_USAGE =
  /^usage"\s*:\s*\{\s*"prompt_tokens"\s*:\s*(\d{1,9}),\s*(?:"total_tokens"\s*:\s*\d{1,9},\s*)?"completion_tokens"\s*:\s*(\d{1,9})[,}\s]/;

const USAGE_OBJECT = /^usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/;

/**
 * Usage and finish reasons of a plain answer of any of the dialects. Bodies over `limitBytes` (default 1 MiB: about
 * 5 ms of parsing) are not parsed; of those only the usage is looked up, near the end. Never throws.
 */
export function inspectJsonAnswer(body: Buffer, limitBytes: number = 1 << 20): JsonAnswer {
  const value = body.length <= limitBytes ? parseObject(body.toString("latin1")) : null;
  if (value === null) {
    const tail = body.toString("latin1", Math.max(0, body.length - USAGE_TAIL_BYTES), body.length);
    const usage = /"usage"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/.exec(tail)?.[1];
    const found = usageOf(usage === undefined ? null : parseObject(usage));
    return { ...found, finishReasons: [], isAborted: false, isError: false, isRead: false };
  }
  const facts = factsOf(value);
  return {
    ...facts,
    isAborted: facts.finishReasons.includes("abort"),
    isError: isErrorValue(value),
    isRead: true,
  };
}

interface Facts extends TokenUsage {
  readonly finishReasons: readonly string[];
}

/** Usage and finish reasons of one parsed event or body. */
function factsOf(value: Json): Facts {
  const inner = asObject(value["response"]) ?? asObject(value["message"]);
  const usage = usageOf(asObject(value["usage"]) ?? asObject(inner?.["usage"]));
  const cacheN = asObject(value["timings"])?.["cache_n"];
  if (Number.isNaN(usage.cachedTokens) && typeof cacheN === "number" && cacheN >= 0) usage.cachedTokens = cacheN;
  const finishReasons: string[] = [];
  const take = (reason: unknown) => {
    if (typeof reason === "string" && reason !== "") finishReasons.push(reason);
  };
  if (Array.isArray(value["choices"])) for (const choice of value["choices"]) take(asObject(choice)?.["finish_reason"]);
  take(asObject(value["delta"])?.["stop_reason"]);
  take(inner?.["stop_reason"]);
  take(value["stop_reason"]);
  const response = value["object"] === "response" ? value : asObject(value["response"]);
  take(asObject(response?.["incomplete_details"])?.["reason"] ?? response?.["status"]);
  return { ...usage, finishReasons };
}

/** OpenAI's names, else those of the Responses API and Anthropic, whose cached prompt tokens are counted apart. */
function usageOf(usage: Json | null): TokenUsage {
  const count = (name: string) => {
    const value = usage?.[name];
    return typeof value === "number" && value >= 0 ? value : Number.NaN;
  };
  const cached = (name: string) => count(name) || 0;
  const details = asObject(usage?.["prompt_tokens_details"]) ?? asObject(usage?.["input_tokens_details"]);
  const found = details?.["cached_tokens"] ?? usage?.["cache_read_input_tokens"];
  const prompt = count("prompt_tokens");
  const completion = count("completion_tokens");
  return {
    promptTokens: Number.isNaN(prompt)
      ? count("input_tokens") + cached("cache_read_input_tokens") + cached("cache_creation_input_tokens")
      : prompt,
    completionTokens: Number.isNaN(completion) ? count("output_tokens") : completion,
    cachedTokens: typeof found === "number" && found >= 0 ? found : Number.NaN,
  };
}

/**
 * Whether a name stands anywhere in the text with something else behind it than null or "". `ending` is the name with
 * its closing quote only: a search for something that starts with a quote stops at each quote of the text, and takes
 * five times as long.
 */
function hasValue(text: string, ending: string): boolean {
  for (let at = text.indexOf(ending); at >= 0; at = text.indexOf(ending, at)) {
    const isWhole = text.charCodeAt(at - 1) === QUOTE;
    at += ending.length;
    if (!isWhole) continue;
    const value = skipColon(text, at);
    if (value < 0) return true;
    if (!text.startsWith("null", value) && !text.startsWith('""', value)) return true;
  }
  return false;
}

/** Members of a choice whose text means that the event carries content; `content` stands for `reasoning_content` too. */
const CONTENT_ENDINGS = ['content"', 'text"', 'reasoning"', 'arguments"', 'refusal"'] as const;

/** Where the text of a chunk's first content member that isn't empty starts; -1 for a chunk without content. */
function contentStart(text: string): number {
  for (const ending of CONTENT_ENDINGS) {
    for (let at = text.indexOf(ending); at >= 0; at = text.indexOf(ending, at)) {
      at += ending.length;
      const value = skipColon(text, at);
      if (value >= 0 && text.charCodeAt(value) === QUOTE && text.charCodeAt(value + 1) !== QUOTE) return value + 1;
    }
  }
  return -1;
}

/** Index of the value behind a colon that may stand between spaces; -1 where no colon follows. */
function skipColon(text: string, from: number): number {
  let at = from;
  while (text.charCodeAt(at) === 0x20) at++;
  if (text.charCodeAt(at) !== 0x3a) return -1;
  at++;
  while (text.charCodeAt(at) === 0x20) at++;
  return at;
}

/** Value of the `type` member that the data starts with. */
function typeOf(data: string): string | null {
  return /^\{"type"\s*:\s*"([^"\\]{1,64})"/.exec(data)?.[1] ?? null;
}
