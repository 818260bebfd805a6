import type { EventStream, Exchange, HeaderMap } from "./exchange.ts";
import type { StreamFault } from "./faults.ts";
import type { GenerationRun } from "./generation.ts";
import { sendPlain } from "./generation.ts";
import type { AnswerHead, StreamWriter, TokenPart } from "./stream-writer.ts";

/** How one run leaves its node: as the events of a stream while its tokens come, or as a whole at its end. */
export class RunAnswer {
  readonly #exchange: Exchange;
  readonly #writer: StreamWriter;
  readonly #head: AnswerHead;
  readonly #fault: StreamFault | undefined;
  #stream: EventStream | undefined;
  #hasBegun = false;

  constructor(exchange: Exchange, writer: StreamWriter, head: AnswerHead, fault: StreamFault | undefined) {
    this.#exchange = exchange;
    this.#writer = writer;
    this.#head = head;
    this.#fault = fault;
  }

  /** Absent until `open`: the answer is a whole one. */
  get stream(): EventStream | undefined {
    return this.#stream;
  }

  /** Sends the head of a stream. */
  open(headers: HeaderMap): EventStream {
    this.#stream = this.#exchange.openStream(headers, this.#fault);
    return this.#stream;
  }

  token(token: TokenPart, run: GenerationRun): void {
    const stream = this.#stream;
    if (stream === undefined) return;
    // the first events come with the first token; the head of the response was sent before
    if (!this.#hasBegun) for (const event of this.#writer.begin(this.#head, run)) stream.event(event);
    this.#hasBegun = true;
    for (const event of this.#writer.token(this.#head, token, run)) stream.event(event);
  }

  /** All tokens are there. */
  finish(run: GenerationRun): void {
    const stream = this.#stream;
    if (stream === undefined) {
      sendPlain(this.#exchange, this.#fault, this.#writer.whole(this.#head, run));
      return;
    }
    for (const event of this.#writer.end(this.#head, run)) stream.event(event);
    stream.end();
  }
}
