/** Answers of the data port that no node is asked for: health, the list of models, refusals. */

import { allowedModels } from "@zml/engine";
import { ERRORS, type ErrorCode, errorBody } from "@zml/protocol/errors";
import { REQUEST_ID_HEADER } from "@zml/protocol/wire";
import { drainBody } from "./admission/read-body.ts";
import { refusalOf } from "./admission/refuse-caller.ts";
import type { CallerRequest, CallerResponse } from "./caller.ts";
import type { DataPlane } from "./data-plane.ts";
import { hasBody, headLength, isRead, pathOf } from "./request-head.ts";
import { LIVENESS_PATH, MODEL_PREFIX, MODELS_PATH, READINESS_PATH, shapeAt } from "./routes.ts";
import { requestIdOf } from "./trace-ids.ts";

export class OwnAnswers {
  readonly #plane: DataPlane;
  readonly #isReady: () => boolean;

  constructor(plane: DataPlane, isReady: () => boolean) {
    this.#plane = plane;
    this.#isReady = isReady;
  }

  /** A request for anything but inference. */
  serve(request: CallerRequest, response: CallerResponse, path: string): void {
    if (path === LIVENESS_PATH || path === READINESS_PATH) {
      if (!isRead(request)) return this.#refuseMethod(request, response);
      const isReady = path === LIVENESS_PATH || this.#isReady();
      response.writeHead(isReady ? 200 : 503, { "content-type": "text/plain" }).end(isReady ? "ok\n" : "draining\n");
      return;
    }
    if (path === MODELS_PATH || path.startsWith(MODEL_PREFIX)) {
      if (!isRead(request)) return this.#refuseMethod(request, response);
      this.#serveModels(request, response, path);
      return;
    }
    this.refuse(request, response, "not_found", ERRORS.not_found.message({ path }));
  }

  /** An error, in the shape that its path asks for. */
  refuse(request: CallerRequest, response: CallerResponse, code: ErrorCode, message: string): void {
    const shape = shapeAt(pathOf(request));
    this.#sendJson(request, response, ERRORS[code].status, errorBody(shape, code, { message }));
  }

  refuseExpectation(request: CallerRequest, response: CallerResponse): void {
    const expect = request.headers.expect ?? "";
    this.refuse(request, response, "expectation_failed", ERRORS.expectation_failed.message({ expect }));
  }

  /**
   * What the parser lets through beyond the limit, so that a caller whose key alone is that large hears of its key.
   *
   * @returns false: the head is within the limit, and nothing was answered.
   */
  refuseLargeHead(request: CallerRequest, response: CallerResponse): boolean {
    const { headerBytes } = this.#plane.settings.limits;
    if (headLength(request) <= headerBytes) return false;
    const caller = this.#plane.keys.identify(request.rawHeaders);
    response.setHeader("connection", "close");
    if (caller.kind === "invalid") {
      const { code, message } = refusalOf(caller);
      this.refuse(request, response, code, message);
    } else {
      const message = ERRORS.header_too_large.message({ limitBytes: headerBytes });
      this.refuse(request, response, "header_too_large", message);
    }
    return true;
  }

  /** For an answer that comes before the body has been read. */
  leaveBody(request: CallerRequest): { mustClose: true; closeAfter: Promise<void> } {
    const { data, limits } = this.#plane.settings;
    const bounds = { limitBytes: limits.bodyBytes, deadlineMs: data.bodyMs };
    return { mustClose: true, closeAfter: drainBody(request, bounds) };
  }

  #serveModels(request: CallerRequest, response: CallerResponse, path: string): void {
    const caller = this.#plane.keys.identify(request.rawHeaders);
    if (caller.kind !== "known") {
      const { code, message } = refusalOf(caller);
      return this.refuse(request, response, code, message);
    }
    const names = allowedModels(this.#plane.directory.accounts.get(caller.rights.account), caller.rights);
    if (path === MODELS_PATH) {
      this.#sendJson(request, response, 200, { object: "list", data: names.map(modelObject) });
      return;
    }
    const name = decodeName(path.slice(MODEL_PREFIX.length));
    if (names.includes(name)) this.#sendJson(request, response, 200, modelObject(name));
    else
      this.refuse(request, response, "model_not_found", ERRORS.model_not_found.message({ model: name, known: names }));
  }

  #refuseMethod(request: CallerRequest, response: CallerResponse): void {
    response.setHeader("allow", "GET, HEAD");
    const message = ERRORS.method_not_allowed.message({ method: request.method ?? "", allow: ["GET", "HEAD"] });
    this.refuse(request, response, "method_not_allowed", message);
  }

  #sendJson(request: CallerRequest, response: CallerResponse, status: number, value: unknown): void {
    const body = JSON.stringify(value);
    response.setHeader(REQUEST_ID_HEADER, requestIdOf(request));
    response.setHeader("content-type", "application/json");
    response.setHeader("content-length", Buffer.byteLength(body));
    if (!hasBody(request) || request.httpVersionMajor === 2) {
      response.writeHead(status).end(body);
      return;
    }
    response.writeHead(status, { connection: "close" }).write(body);
    this.leaveBody(request).closeAfter.then(() => response.end());
  }
}

function modelObject(name: string): Record<string, unknown> {
  return { id: name, object: "model", created: 0, owned_by: "zml" };
}

/** Model names may hold slashes and anything else; a broken escape is a name that nothing has. */
function decodeName(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
