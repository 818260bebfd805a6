/** What a node gets: the caller's bytes, a path from our constants, an allow-list of headers, and why it was chosen. */

import { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { REQUEST_ID_HEADER, ROUTING_HEADER, TRACEPARENT_HEADER } from "@zml/protocol/wire";
import type { Exchange } from "../exchange.ts";
import type { RequestBody } from "../request-body/request-body.ts";
import { type BodyEdit, spliceBody } from "../request-body/splice.ts";
import type { AttemptCall } from "./attempt-run.ts";
import type { Upstream } from "./upstream.ts";

/** Bodies up to this size are sent as one buffer; larger ones piece by piece, since joining would hold the thread. */
const JOINED_BYTES_MAX = 256 * 1024;

/** Bytes of a large body that are written in one turn of the event loop; copying them takes well below 1 ms. */
const TURN_BYTES = 256 * 1024;

/** Headers of the caller that a node gets. Credentials and everything else of the caller's stay here. */
const CALLER_HEADERS = ["accept", "tracestate", "anthropic-version", "anthropic-beta", "openai-beta"];

/** Composes the call of one attempt. The body is the caller's, byte for byte, but for what this node needs changed. */
export function composeCall(
  exchange: Exchange,
  body: RequestBody,
  upstream: Upstream,
  options: { model: number; isFreshConnection: boolean },
): AttemptCall {
  const { node } = upstream;
  const headers = [
    "connection",
    "keep-alive",
    "content-type",
    "application/json",
    "accept-encoding",
    "identity",
    REQUEST_ID_HEADER,
    exchange.requestId,
    TRACEPARENT_HEADER,
    exchange.trace?.traceparent ?? exchange.traceparent,
    ROUTING_HEADER,
    exchange.routingHeader,
  ];
  const given = exchange.request.headers;
  for (const name of CALLER_HEADERS) {
    const value = given[name];
    if (typeof value === "string") headers.push(name, value);
  }
  if (node.apiKey !== null) headers.push("authorization", `Bearer ${node.apiKey}`);
  const edits = editsFor(body, upstream, options.model);
  const chunks = edits.length === 0 ? body.chunks : spliceBody(body.chunks, edits);
  let bytes = 0;
  for (const chunk of chunks) bytes += chunk.length;
  headers.push("content-length", String(bytes));
  return {
    method: "POST",
    path: upstream.pathOf(exchange.route.path),
    headers,
    body: bodyOf(chunks, bytes),
    isFreshConnection: options.isFreshConnection,
  };
}

function bodyOf(chunks: readonly Buffer[], bytes: number): AttemptCall["body"] {
  if (chunks.length === 1) return chunks[0] as Buffer;
  if (bytes <= JOINED_BYTES_MAX) return Buffer.concat(chunks, bytes);
  return Readable.from(inTurns(chunks), { objectMode: false });
}

/** Lets the event loop go between pieces: a node that reads as fast as we write would otherwise hold it for all of them. */
async function* inTurns(chunks: readonly Buffer[]): AsyncGenerator<Buffer> {
  let turnBytes = 0;
  for (const chunk of chunks) {
    if (turnBytes >= TURN_BYTES) {
      turnBytes = 0;
      await setImmediate();
    }
    turnBytes += chunk.length;
    yield chunk;
  }
}

function editsFor(body: RequestBody, upstream: Upstream, model: number): BodyEdit[] {
  const upstreamName = upstream.node.upstreamModels[model];
  if (upstreamName === undefined && !upstream.habits.refusesUnknownFields) return NO_EDITS;
  const edits: BodyEdit[] = [];
  for (const span of body.scan.spans) {
    if (span.field === "model" && upstreamName !== undefined) {
      edits.push({ kind: "replace_value", span, json: JSON.stringify(upstreamName) });
    } else if (upstream.habits.refusesUnknownFields && (span.field === "policy" || span.field === "accelerator")) {
      edits.push({ kind: "cut_member", span });
    }
  }
  return edits;
}

const NO_EDITS: BodyEdit[] = [];
