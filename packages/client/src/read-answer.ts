/** The body of a plain answer → the object that callers get. */
import { mediaTypeOf, requestIdOf, routingOf } from "./answer-head.ts";
import type { AnswerFacts } from "./answers.ts";
import { APIConnectionError } from "./errors.ts";
import { formatError, sizeOf } from "./format-error.ts";
import { isObject, type JsonObject } from "./json-object.ts";
import { type BodyText, MAX_ANSWER_BYTES, readBody } from "./read-body.ts";
import type { Opened } from "./send.ts";
import { errorOfAnswer } from "./status-error.ts";

/** What of an answer is on the wire: all but what the client adds. */
export type WireOf<T extends AnswerFacts> = Omit<T, keyof AnswerFacts | "text">;

/** What an endpoint answers with. */
export interface AnswerShape<T extends AnswerFacts> {
  /** In a message: `JSON with choices`. */
  readonly name: string;
  /** Looks at what code that trusts the type would fall over; the rest is as the server says. */
  matches(json: JsonObject): json is JsonObject & WireOf<T>;
  /** Adds what is not on the wire. */
  complete(wire: WireOf<T>, facts: AnswerFacts): T;
}

/** @throws ResponseFormatError, APIConnectionError when the body breaks off, or why the call is over */
export async function readAnswer<T extends AnswerFacts>(opened: Opened, shape: AnswerShape<T>): Promise<T> {
  const { response, scope, url } = opened;
  try {
    const type = mediaTypeOf(response.headers);
    // pages and streams may be long, and are none in any case
    if (type === "text/html" || type === "text/event-stream") {
      scope.abort(new Error("the answer is not read"));
      throw formatError(opened, `${type} of ${sizeOf(response)}`, shape.name);
    }
    let body: BodyText;
    try {
      body = await scope.race(readBody(response, MAX_ANSWER_BYTES));
    } catch (cause) {
      scope.check();
      throw new APIConnectionError(
        `the answer of ${url} broke off in its body, and is not asked for again by itself, as it may have been generated: ` +
          "check what stands between, and call again",
        { cause },
      );
    }
    return answerOf(opened, body, shape);
  } finally {
    scope.end();
  }
}

function answerOf<T extends AnswerFacts>(opened: Opened, body: BodyText, shape: AnswerShape<T>): T {
  const { headers } = opened.response;
  const type = mediaTypeOf(headers) ?? "a body without content-type";
  if (body.isCut) throw formatError(opened, `${type} of more than ${MAX_ANSWER_BYTES} bytes`, shape.name);
  let json: unknown;
  try {
    json = JSON.parse(body.text);
  } catch {
    throw formatError(opened, `${type} of ${body.bytes} bytes that is no JSON`, shape.name);
  }
  if (!isObject(json) || !shape.matches(json)) {
    // servers that tell an error with a good status
    if (isObject(json) && isObject(json["error"])) {
      throw errorOfAnswer(opened.response, body, opened);
    }
    throw formatError(opened, `${type} of ${body.bytes} bytes with JSON of another shape`, shape.name);
  }
  return shape.complete(json, { routing: routingOf(headers), requestId: requestIdOf(headers) });
}

/** Puts the members of `added` on `wire` itself, not enumerable. */
export function hidden<Wire extends object, Added extends object>(wire: Wire, added: Added): Wire & Added {
  for (const [name, value] of Object.entries(added)) {
    Object.defineProperty(wire, name, { value, enumerable: false, configurable: true, writable: true });
  }
  return wire as Wire & Added;
}
