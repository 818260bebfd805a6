import { nextWord } from "../readable-words.ts";
import type { NodeContext } from "./engine-behaviour.ts";
import type { Exchange } from "./exchange.ts";
import type { StreamFault } from "./faults.ts";
import type { InferenceRequest } from "./inference-request.ts";

export type FinishReason = "stop" | "length" | "abort";

/** What the run tells the engine. `reason` is null but on the last token of a choice. */
export type GenerationSink = {
  onToken(token: { choice: number; index: number; text: string; reason: FinishReason | null }): void;
  /** All choices are done, in full or aborted by the engine. Not called after the caller left. */
  onDone(run: GenerationRun): void;
  /** The caller left; the sequences are out of the batch already, unless `keepsRunningWhenLeft`. */
  onLeft?(run: GenerationRun): void;
  onFailed?(run: GenerationRun): void;
};

type Choice = { sequence: number; texts: string[]; reason: FinishReason | null };

/** Times are model ms on the driver's clock, NaN while not reached. */
export type RunTimes = { arrivedMs: number; startedMs: number; firstTokenMs: number; lastTokenMs: number };

/** One request in the batch: `choiceCount` sequences that share a prompt. */
export class GenerationRun {
  readonly request: InferenceRequest;
  readonly exchange: Exchange;
  readonly choices: Choice[] = [];
  readonly times: RunTimes;
  readonly #context: NodeContext;
  readonly #sink: GenerationSink;
  #openChoices = 0;
  #isOver = false;

  constructor(context: NodeContext, exchange: Exchange, request: InferenceRequest, sink: GenerationSink) {
    this.#context = context;
    this.exchange = exchange;
    this.request = request;
    this.#sink = sink;
    this.times = { arrivedMs: context.driver.nowMs, startedMs: NaN, firstTokenMs: NaN, lastTokenMs: NaN };
  }

  get completionTokens(): number {
    return this.choices.reduce((sum, choice) => sum + choice.texts.length, 0);
  }

  text(choice: number): string {
    return this.choices[choice]?.texts.join("") ?? "";
  }

  reason(choice: number): FinishReason {
    return this.choices[choice]?.reason ?? "stop";
  }

  /** Ends all choices at once with this reason, as the engine itself does. */
  finishAll(reason: FinishReason): void {
    if (this.#isOver) return;
    this.#stopSequences();
    for (let i = 0; i < this.choices.length; i += 1) {
      const choice = this.choices[i];
      if (choice === undefined || choice.reason !== null) continue;
      choice.reason = reason;
      this.#sink.onToken({ choice: i, index: choice.texts.length, text: "", reason });
    }
    this.#over();
    this.#sink.onDone(this);
  }

  /** The engine fails under the run. */
  fail(): void {
    if (this.#isOver) return;
    this.#stopSequences();
    this.#over();
    this.#sink.onFailed?.(this);
  }

  /** Leaves the batch; nothing more is reported. */
  leave(): void {
    if (this.#isOver) return;
    this.#stopSequences();
    this.#over();
    this.#sink.onLeft?.(this);
  }

  start(fault: StreamFault | undefined, keepsRunningWhenLeft: () => boolean): void {
    const { settings, driver, random, runs } = this.#context;
    runs.add(this);
    this.exchange.onOver(() => {
      if (!keepsRunningWhenLeft()) this.leave();
    });
    const limit = Number.isNaN(this.request.maxTokens) ? Infinity : this.request.maxTokens;
    const room = Math.min(limit, Math.max(1, settings.maxModelLen - this.request.promptTokens));
    this.#openChoices = this.request.choiceCount;
    const { forced } = this.request;
    const pieces = forced === null ? null : (forced.text.match(PIECE) ?? []);
    for (let index = 0; index < this.request.choiceCount; index += 1) {
      const wanted =
        pieces?.length ?? Math.round(settings.outputTokens({ promptTokens: this.request.promptTokens, limit, random }));
      // a grammar lets nothing but the end follow, so that it also ends what would go on
      const ignoresEos = this.request.ignoreEos && pieces === null;
      const isLimited = ignoresEos || (pieces === null ? wanted >= room : wanted > room);
      const outputTokens = ignoresEos ? room : Math.max(Math.min(wanted, room), Math.min(1, room));
      const choice: Choice = { sequence: -1, texts: [], reason: null };
      this.choices.push(choice);
      choice.sequence = driver.submit(this.request.promptTokens, outputTokens, {
        onStarted: (atMs) => {
          if (Number.isNaN(this.times.startedMs)) this.times.startedMs = atMs;
        },
        onToken: (tokenIndex, atMs) => {
          const text = pieces?.[tokenIndex] ?? nextWord(random, tokenIndex);
          choice.texts.push(text);
          if (Number.isNaN(this.times.firstTokenMs)) this.times.firstTokenMs = atMs;
          this.times.lastTokenMs = atMs;
          const isLast = tokenIndex + 1 >= outputTokens;
          if (isLast) choice.reason = isLimited ? "length" : "stop";
          this.#sink.onToken({ choice: index, index: tokenIndex, text, reason: choice.reason });
          if (fault?.kind === "abort-finish" && !isLast && tokenIndex + 1 >= fault.afterEvents) this.finishAll("abort");
        },
        onFinished: () => {
          choice.reason ??= isLimited ? "length" : "stop";
          this.#openChoices -= 1;
          if (this.#openChoices > 0 || this.#isOver) return;
          this.#over();
          this.#sink.onDone(this);
        },
      });
    }
  }

  #over(): void {
    this.#isOver = true;
    this.#context.runs.delete(this);
  }

  #stopSequences(): void {
    for (const choice of this.choices) this.#context.driver.cancel(choice.sequence);
  }
}

/** One token of a text that is forced: four UTF-16 units, as they are counted. */
const PIECE = /[\s\S]{1,4}/g;

/** Sends a whole answer, or spoils it when the fault says so. */
export function sendPlain(exchange: Exchange, fault: StreamFault | undefined, value: unknown): void {
  if (fault?.kind === "cut" || fault?.kind === "bad-chunk") {
    exchange.sendPart(200, JSON.stringify(value), fault.kind === "cut" ? fault.how : "bad-chunk");
    return;
  }
  if (fault?.kind === "stall") {
    if (fault.ms === Infinity) return;
    const timer = setTimeout(() => exchange.json(200, value), fault.ms);
    exchange.onOver(() => clearTimeout(timer));
    return;
  }
  exchange.json(200, value);
}
