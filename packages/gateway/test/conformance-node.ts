/** Nodes that play the attempts of a vector, in order over all of them, and check what they were asked. */

import { exampleOf, mismatch } from "./conformance-match.ts";
import type { Vector, VectorAnswer } from "./conformance-vectors.ts";
import { chunk, head, LAST_CHUNK, type NodeCall } from "./scripted-node.ts";

/** Headers that the gateway itself puts on an answer: a node that plays that answer leaves them out. */
const OF_THE_GATEWAY = ["x-zml-routing", "x-request-id", "traceparent", "x-should-retry", "x-accel-buffering"];

/** The exact bytes of a body; empty when it has none. */
export function bodyBytes(of: Pick<VectorAnswer, "body" | "body_text" | "body_base64" | "chunks">): Buffer {
  if (of.body !== undefined) return Buffer.from(JSON.stringify(exampleOf(of.body)));
  if (of.body_text !== undefined) return Buffer.from(of.body_text);
  if (of.body_base64 !== undefined) return Buffer.from(of.body_base64, "base64");
  return Buffer.concat((of.chunks ?? []).map(chunkBytes));
}

function chunkBytes(each: string | { base64: string }): Buffer {
  return typeof each === "string" ? Buffer.from(each) : Buffer.from(each.base64, "base64");
}

/** Whether a part of a vector states a body. */
export function hasBody(of: Pick<VectorAnswer, "body" | "body_text" | "body_base64" | "chunks">): boolean {
  return [of.body, of.body_text, of.body_base64, of.chunks].some((body) => body !== undefined);
}

export class AttemptScript {
  readonly #vector: Vector;
  /** Bytes that must reach a node where the vector states no others. */
  readonly #sent: Buffer;
  /** How many attempts were made. */
  attempts = 0;
  /** What was not as the vector says. */
  readonly problems: string[] = [];

  constructor(vector: Vector, sent: Buffer) {
    this.#vector = vector;
    this.#sent = sent;
  }

  /** One call on one node. */
  async play(node: string, call: NodeCall): Promise<void> {
    const index = this.attempts;
    this.attempts += 1;
    const attempt = this.#vector.node?.[index];
    if (attempt === undefined) {
      this.problems.push(`attempt ${index + 1} on node ${node} was not expected`);
      call.rst();
      return;
    }
    if (attempt.node !== node) {
      this.problems.push(`attempt ${index + 1}: expected node ${attempt.node}, got ${node}`);
    }
    this.#check(index, call);
    const relayed = this.#vector.answers[0] ?? {};
    await answer(call, attempt.answer ?? withoutOurs(relayed));
  }

  #check(index: number, call: NodeCall): void {
    const { path, headers, ...body } = this.#vector.node?.[index]?.request ?? {};
    const found: (string | null)[] = [];
    const line = call.requestLine.split(" ");
    found.push(mismatch(path ?? this.#vector.wire?.path.split("?")[0], line[1], "path"));
    found.push(mismatch("POST", line[0], "method"));
    for (const [name, value] of Object.entries(headers ?? {})) {
      found.push(mismatch(value, call.headers[name], `header ${name}`));
    }
    if (body.body !== undefined) found.push(mismatch(body.body, JSON.parse(call.body.toString()), "body"));
    else {
      const bytes = hasBody(body) ? bodyBytes(body) : this.#sent;
      if (!bytes.equals(call.body)) found.push(`body: expected ${bytes}, got ${call.body}`);
    }
    for (const problem of found) {
      if (problem !== null) this.problems.push(`attempt ${index + 1} at the node, ${problem}`);
    }
  }
}

function withoutOurs(relayed: VectorAnswer): VectorAnswer {
  const entries = Object.entries(relayed.headers ?? {}).filter(([name]) => !OF_THE_GATEWAY.includes(name));
  return { ...relayed, headers: Object.fromEntries(entries) };
}

async function answer(call: NodeCall, { status, headers, chunks, end, ...body }: VectorAnswer): Promise<void> {
  if (status === undefined) {
    if (end === "cut") call.fin();
    return;
  }
  const sent = exampleOf(headers ?? {}) as Record<string, string>;
  if (chunks !== undefined) {
    call.write(head(status, { "content-type": "text/event-stream", ...sent, "transfer-encoding": "chunked" }));
    for (const each of chunks) {
      call.write(chunk(chunkBytes(each)));
      await new Promise(setImmediate);
    }
    if (end === undefined || end === "complete") call.write(LAST_CHUNK);
  } else {
    const bytes = bodyBytes(body);
    const missing = end === undefined || end === "complete" ? 0 : 1;
    const framing = { "content-length": String(bytes.length + missing) };
    call.write(
      Buffer.concat([Buffer.from(head(status, { "content-type": "application/json", ...sent, ...framing })), bytes]),
    );
  }
  if (end === "cut") call.fin();
}
