/** Requests through OpenAI's own client, and how they end as its user sees it. */

import { decodeRoutingHeader, type ReceivedRouting, ROUTING_HEADER } from "@zml/protocol/wire";
import type OpenAI from "openai";
import { MODEL } from "./e2e-fleet.ts";

export interface Ask {
  /** What the answer will have, exactly: the model never ends by itself. */
  readonly words: number;
  readonly isStream: boolean;
  /** The family that the caller asks for. */
  readonly accelerator?: string;
  /** Called at the first word of a stream. */
  onFirstWord?(routing: ReceivedRouting): void;
}

/** How a request ended. `startedAtMs` and `endedAtMs` are readings of `performance.now()`. */
export type Ending = {
  readonly ask: Ask;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
} & (
  | { readonly kind: "whole"; readonly routing: ReceivedRouting; readonly model: string }
  /** The client's user was told that the answer is over before its end. */
  | { readonly kind: "broken"; readonly routing: ReceivedRouting; readonly words: number; readonly error: unknown }
  /** The worst case: the client's user takes half an answer for a whole one. */
  | { readonly kind: "truncated"; readonly routing: ReceivedRouting; readonly words: number }
  /** No answer began. */
  | { readonly kind: "failed"; readonly error: unknown }
);

/** Sends one chat request and reads its answer to the end. Never rejects. */
export async function ask(client: OpenAI, options: Ask): Promise<Ending> {
  const startedAtMs = performance.now();
  const end = await (options.isStream ? askForStream : askPlain)(client, options);
  return { ask: options, startedAtMs, endedAtMs: performance.now(), ...end };
}

type End = Ending extends infer One
  ? One extends Ending
    ? Omit<One, "ask" | "startedAtMs" | "endedAtMs">
    : never
  : never;

async function askPlain(client: OpenAI, options: Ask): Promise<End> {
  try {
    const call = client.chat.completions.create({ ...bodyOf(options), stream: false }, headersOf(options));
    const { data, response } = await call.withResponse();
    const routing = routingOf(response);
    const words = countWords(data.choices[0]?.message.content);
    const isWhole = data.choices[0]?.finish_reason === "length" && words === options.words;
    return isWhole ? { kind: "whole", routing, model: data.model } : { kind: "truncated", routing, words };
  } catch (error) {
    return { kind: "failed", error };
  }
}

async function askForStream(client: OpenAI, options: Ask): Promise<End> {
  let routing: ReceivedRouting | null = null;
  let words = 0;
  try {
    const call = client.chat.completions.create({ ...bodyOf(options), stream: true }, headersOf(options));
    const { data, response } = await call.withResponse();
    routing = routingOf(response);
    let finish: string | null = null;
    let model = "";
    for await (const chunk of data) {
      const found = countWords(chunk.choices[0]?.delta.content);
      if (found > 0 && words === 0) options.onFirstWord?.(routing);
      words += found;
      finish = chunk.choices[0]?.finish_reason ?? finish;
      model = chunk.model;
    }
    const isWhole = finish === "length" && words === options.words;
    return isWhole ? { kind: "whole", routing, model } : { kind: "truncated", routing, words };
  } catch (error) {
    return routing === null ? { kind: "failed", error } : { kind: "broken", routing, words, error };
  }
}

function bodyOf({ words }: Ask) {
  return { model: MODEL, max_tokens: words, messages: [{ role: "user" as const, content: "tell a short story" }] };
}

function headersOf({ accelerator }: Ask) {
  return accelerator === undefined ? {} : { headers: { "x-zml-accelerator": accelerator } };
}

export function routingOf(response: Response): ReceivedRouting {
  return decodeRoutingHeader(response.headers.get(ROUTING_HEADER) ?? "") ?? {};
}

function countWords(text: string | null | undefined): number {
  return text?.match(/\S+/g)?.length ?? 0;
}

/** Keeps a number of requests in flight until it is told to stop; mixed plain and streamed, of mixed length. */
export class Load {
  readonly endings: Ending[] = [];
  readonly #client: OpenAI;
  readonly #running: Promise<void>[];
  readonly #waiting: { count: number; resolve: () => void }[] = [];
  #sent = 0;
  #isStopped = false;

  constructor(client: OpenAI, { inFlight, words }: { inFlight: number; words: readonly number[] }) {
    this.#client = client;
    this.#running = Array.from({ length: inFlight }, () => this.#run(words));
  }

  async #run(words: readonly number[]): Promise<void> {
    while (!this.#isStopped) {
      const index = this.#sent++;
      const request = { words: words[index % words.length] ?? 8, isStream: index % 2 === 0 };
      this.endings.push(await ask(this.#client, request));
      for (const { count, resolve } of this.#waiting) if (this.endings.length >= count) resolve();
    }
  }

  /** Resolves when so many requests have ended since the start. */
  ended(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count, resolve }));
  }

  /** Sends no more, and waits for what is in flight. */
  async stop(): Promise<readonly Ending[]> {
    this.#isStopped = true;
    await Promise.all(this.#running);
    return this.endings;
  }
}
