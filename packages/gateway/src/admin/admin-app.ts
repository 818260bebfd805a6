/** The routes of the admin API on Fastify. Loaded by `admin-port.ts` when the first request comes. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { ADMIN_ROUTES, isAccessRule, PROBLEM_TYPE, problemBody, type RawBody } from "@zml/protocol/admin";
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  type RouteOptions,
} from "fastify";
import { type AdminApp, type AdminCaller, errorsOf, unknownFailure } from "./admin-port.ts";
import { AdminProblem, shown } from "./admin-problem.ts";
import type { AdminSources } from "./admin-sources.ts";
import { authorize } from "./authorize.ts";
import { addBodyParsers, problemOfFastify } from "./body-parsers.ts";
import { type BoundRoute, type Reply, runRoute } from "./bound-route.ts";
import { bindRoutes } from "./handlers.ts";
import { RouteTable } from "./route-table.ts";

/** Names of models may have 256 bytes, each of which may be written as `%XX`. */
const PARAM_LENGTH_MAX = 1024;
/** An object of one route; the largest, a node with every key, has some 2 KiB. */
const OBJECT_BYTES = 1024 * 1024;

declare module "fastify" {
  interface FastifyContextConfig {
    /** Who may use the route. */
    access?: unknown;
  }
}

/** Makes the app with every route. */
export async function createAdminApp(sources: AdminSources): Promise<AdminApp> {
  const callers = new WeakMap<IncomingMessage, AdminCaller>();
  const app = createInstance(sources, callers);
  const { bodyBytes } = sources.limits();
  for (const bound of bindRoutes()) addRoute(app, bound, { sources, callers, bodyBytes });
  await app.ready();
  return {
    serve: (request: IncomingMessage, response: ServerResponse, caller: AdminCaller) => {
      callers.set(request, caller);
      app.routing(request, response);
    },
  };
}

type Callers = WeakMap<IncomingMessage, AdminCaller>;

/** The framework with our rules and without routes. */
export function createInstance(sources: AdminSources, callers: Callers): FastifyInstance {
  const app = fastify({
    logger: false,
    // the door gave it one
    genReqId: (request) => callers.get(request as IncomingMessage)?.requestId ?? "",
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX },
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => writeProblem(problemOf(error, request, sources), request, reply),
  });
  const table = new RouteTable(ADMIN_ROUTES);
  // default deny: what names no rule is not registered, and so never answers
  app.addHook("onRoute", (options: RouteOptions) => {
    if (isAccessRule(options.config?.access)) return;
    throw new Error(`the route ${String(options.method)} ${options.url} names no access rule`);
  });
  app.addHook("onRequest", async (request) => {
    const caller = callerOf(callers, request);
    if (!request.is404) {
      const rule = request.routeOptions.config.access;
      if (!isAccessRule(rule)) throw new Error("a route without an access rule was registered");
      authorize(caller.principal, rule);
      return;
    }
    const [path = "/"] = request.url.split("?", 1);
    const allow = table.methodsAt(path);
    if (allow.length === 0) {
      throw new AdminProblem("not_found", `there is nothing at ${shown(path)}: check the path`);
    }
    const detail = `${request.method} is not allowed here: use ${allow.join(" or ")}`;
    throw new AdminProblem("method_not_allowed", detail, { headers: { allow: allow.join(", ") } });
  });
  addBodyParsers(app);
  app.setErrorHandler<FastifyError>((error, request, reply) =>
    writeProblem(problemOf(error, request, sources), request, reply),
  );
  return app;
}

function addRoute(
  app: FastifyInstance,
  bound: BoundRoute,
  { sources, callers, bodyBytes }: { sources: AdminSources; callers: Callers; bodyBytes: number },
): void {
  const { contract } = bound;
  app.route({
    method: contract.method,
    url: contract.path.replaceAll(/\{(\w+)\}/g, ":$1"),
    config: { access: contract.access },
    bodyLimit: contract.body?.size === "bulk" ? bodyBytes : Math.min(OBJECT_BYTES, bodyBytes),
    handler: async (request, reply) => {
      const { principal } = callerOf(callers, request);
      const { params, query, headers, body } = request;
      const type = mediaType(headers["content-type"]);
      const given = { params, query, headers, body, type };
      writeReply(await runRoute(bound, given, { principal, sources }), reply);
      return reply;
    },
  });
}

function callerOf(callers: Callers, request: FastifyRequest): AdminCaller {
  const caller = callers.get(request.raw);
  if (caller === undefined) throw new Error("a request came past the door");
  return caller;
}

function writeReply({ status, body, headers = {} }: Reply, reply: FastifyReply): void {
  reply.code(status).headers(headers);
  if (body === null) reply.send();
  else if (isRaw(body)) sendText(body.type, body.text, reply);
  else sendText("application/json", `${JSON.stringify(body)}\n`, reply);
}

/** As bytes: to text the framework adds a charset, which these types do not have. */
function sendText(type: string, text: string, reply: FastifyReply): void {
  reply.type(type).send(Buffer.from(text));
}

function isRaw(body: unknown): body is RawBody {
  return typeof body === "object" && body !== null && "text" in body && "type" in body;
}

function problemOf(error: FastifyError | Error, request: FastifyRequest, { log, limits }: AdminSources): AdminProblem {
  if (error instanceof AdminProblem) return error;
  return problemOfFastify(error, request, limits().bodyBytes) ?? unknownFailure(error, request.id, log);
}

function writeProblem(problem: AdminProblem, request: FastifyRequest, reply: FastifyReply): void {
  const body = problemBody(problem.code, { detail: problem.message, requestId: request.id, ...errorsOf(problem) });
  reply.code(problem.status).headers(problem.headers);
  // what is left of a body that was not read is not waited for
  if (request.body === undefined && request.headers["content-length"] !== "0" && request.method !== "GET") {
    reply.header("connection", "close");
  }
  sendText(PROBLEM_TYPE, `${JSON.stringify(body)}\n`, reply);
}

/** `application/json; charset=utf-8` → `application/json`. */
function mediaType(header: string | undefined): string {
  return (header ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}
