/** How bodies are read: strictly, bounded, and with errors that repeat nothing of them. */

import { type BodyType, YamlBody } from "@zml/protocol/admin";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { AdminProblem, shown } from "./admin-problem.ts";

/** Content types by which YAML goes (RFC 9512 and what was used before it). */
const YAML_TYPES = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"];

/** The type that a route names for what was sent; null: none does. */
export function bodyTypeOf(mediaType: string): BodyType | null {
  if (mediaType === "application/json") return "application/json";
  return YAML_TYPES.includes(mediaType) ? "application/yaml" : null;
}

/** JSON becomes a value, YAML stays as it is. Of anything else nothing is read. */
export function addBodyParsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  // a member __proto__ or constructor.prototype is refused
  const parseJson = app.getDefaultJsonParser("error", "error");
  app.addHook("preParsing", async (request) => {
    const encoding = request.headers["content-encoding"];
    if (encoding === undefined || encoding === "identity") return;
    throw new AdminProblem("unsupported_media_type", `content-encoding ${shown(encoding)} is not taken: send none`);
  });
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    const text = utf8(body as Buffer);
    if (text === null) throw new AdminProblem("invalid_json", "the body is not UTF-8");
    if (text.trim() === "")
      throw new AdminProblem("invalid_json", "the body is empty: send a JSON object, {} at least");
    parseJson(request, text, (error, value) => {
      if (error === null) done(null, value);
      else done(new AdminProblem("invalid_json", `the body is not JSON${placeOf(error)}: send one JSON object`));
    });
  });
  app.addContentTypeParser(YAML_TYPES, { parseAs: "buffer" }, (_request, body, done) => {
    const text = utf8(body as Buffer);
    if (text === null) done(new AdminProblem("invalid_yaml", "the body is not UTF-8"));
    else done(null, new YamlBody(text));
  });
}

/** Strictly: a byte that is none would become another text. */
function utf8(bytes: Buffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Where JSON.parse gave up. The rest of its text quotes the body, which may hold a secret. */
function placeOf(error: Error): string {
  const [, position] = /\bat position (\d+)/.exec(error.message) ?? [];
  return position === undefined ? "" : ` (at character ${position})`;
}

/** The problem that an error of the framework is; null: it is none that a caller causes. */
export function problemOfFastify(
  error: Error & { readonly code?: string },
  request: FastifyRequest,
  bulkBytes: number,
): AdminProblem | null {
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE": {
      const limit = request.routeOptions.bodyLimit ?? bulkBytes;
      const raise = limit === bulkBytes ? ", or raise admin.body_bytes" : "";
      return new AdminProblem("body_too_large", `the body is larger than ${limit} bytes: send less${raise}`);
    }
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
    case "FST_ERR_CTP_INVALID_TYPE":
      return unsupportedType(request.headers["content-type"]);
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
      return new AdminProblem("invalid_json", "the body is empty: send a JSON object, {} at least");
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
      return new AdminProblem("bad_request", "the body is not as long as content-length says");
    case "FST_ERR_BAD_URL":
      return new AdminProblem(
        "invalid_path",
        "the path holds a % that no two hex digits follow, or bytes that are not UTF-8",
      );
    case "FST_ERR_MAX_PARAM_LENGTH":
      return new AdminProblem("invalid_path", "the path holds a name that is longer than any: check the path");
    default:
      return null;
  }
}

/** @param given what was sent; undefined: nothing */
export function unsupportedType(
  given: string | undefined,
  types: readonly BodyType[] = ["application/json"],
): AdminProblem {
  return new AdminProblem(
    "unsupported_media_type",
    `content-type ${given === undefined ? "is missing" : `${shown(given)} is not taken here`}: send ${types.join(" or ")}`,
  );
}
