/** The OpenAPI 3.1 document of the admin API, out of the same schemas that requests are checked with. */

import {
  ACCESS_RULES,
  ADMIN_PROBLEMS,
  ADMIN_ROUTES,
  type AdminProblemCode,
  ANSWER_HEADERS,
  PROBLEM_TYPE,
  problemSchema,
  ROUTE_TAGS,
  type RouteAnswer,
  type RouteContract,
  specSchemas,
} from "@zml/protocol/admin";
import {
  createDocument,
  type ZodOpenApiOperationObject,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponsesObject,
} from "zod-openapi";

/** Problems that any route with a key may answer. */
export const EVERYWHERE: readonly AdminProblemCode[] = [
  "bad_request",
  "missing_api_key",
  "invalid_api_key",
  "key_scope",
  "cross_site",
  "host_not_allowed",
  "method_not_allowed",
  "request_timeout",
  "header_too_large",
  "internal_error",
];
/** Problems that any route with a body may answer. */
export const WITH_BODY: readonly AdminProblemCode[] = [
  "invalid_json",
  "invalid_body",
  "body_too_large",
  "unsupported_media_type",
  "expectation_failed",
];

type OpenApiDocument = ReturnType<typeof createDocument>;

let made: OpenApiDocument | null = null;

/** Made once. */
export function openApiDocument(): OpenApiDocument {
  made ??= createDocument(description(), {
    allowEmptySchema: { custom: true },
    // generators of clients and of tests know no look-around; the text of the refusal says what is meant
    override: ({ jsonSchema }) => {
      if (jsonSchema.pattern?.includes("(?") === true) delete jsonSchema.pattern;
    },
  });
  return made;
}

function description(): Parameters<typeof createDocument>[0] {
  return {
    openapi: "3.1.0",
    info: {
      title: "ZML admin API",
      version: "1",
      description: "What operators and tenants ask of a running gateway: its objects, its fleet, its decisions.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "http://127.0.0.1:8081", description: "The default of `admin.listen`." }],
    tags: Object.entries(ROUTE_TAGS).map(([name, description]) => ({ name, description })),
    security: [{ key: [] }],
    paths: paths(),
    components: {
      schemas: { Problem: problemSchema, ...specSchemas },
      securitySchemes: {
        key: {
          type: "http",
          scheme: "bearer",
          description: "A key of this gateway. On loopback, without any key of scope `admin`, none is asked for.",
        },
      },
    },
  };
}

function paths(): ZodOpenApiPathsObject {
  const all: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const contract of ADMIN_ROUTES) {
    const at = all[contract.path] ?? {};
    at[contract.method.toLowerCase()] = operation(contract);
    all[contract.path] = at;
  }
  return all;
}

function operation(contract: RouteContract): ZodOpenApiOperationObject {
  const { id, tag, summary, description, access, params, query, headers, body } = contract;
  const rule = ACCESS_RULES[access];
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: description === undefined ? rule : `${description}\n\n${rule}`,
    "x-access": access,
    ...(access === "open" ? { security: [] } : {}),
    requestParams: { path: params, query, header: headers },
    ...(body === null
      ? {}
      : {
          requestBody: {
            required: true,
            content: Object.fromEntries(body.types.map((type) => [type, { schema: body.schema }])),
          },
        }),
    responses: { ...answers(contract), ...problems(contract) },
  };
}

function answers(contract: RouteContract): ZodOpenApiResponsesObject {
  return Object.fromEntries(
    Object.entries(contract.answers).map(([status, answer]: [string, RouteAnswer]) => {
      const { description, schema, types = ["application/json"], headers = [] } = answer;
      const content = schema === null ? {} : { content: Object.fromEntries(types.map((type) => [type, { schema }])) };
      const shown = Object.fromEntries(
        headers.map((name) => [name, { description: ANSWER_HEADERS[name], schema: { type: "string" as const } }]),
      );
      return [status, { description, ...content, ...(headers.length === 0 ? {} : { headers: shown }) }];
    }),
  );
}

function problems({
  access,
  body,
  method,
  params,
  query,
  headers,
  problems: own,
}: RouteContract): ZodOpenApiResponsesObject {
  const codes = new Set<AdminProblemCode>(access === "open" ? ["method_not_allowed"] : [...EVERYWHERE, ...own]);
  if (body !== null || method === "DELETE") for (const code of WITH_BODY) codes.add(code);
  if (Object.keys(params.shape).length > 0) codes.add("invalid_path");
  if (access !== "open") codes.add("invalid_query");
  if (Object.keys(headers.shape).length > 0) codes.add("invalid_header");
  if (access.startsWith("operator")) codes.add("operator_only");
  if (Object.keys(query.shape).length === 0 && access === "open") codes.delete("invalid_query");
  const byStatus = Map.groupBy(codes, (code) => ADMIN_PROBLEMS[code].status);
  return Object.fromEntries(
    [...byStatus]
      .sort(([left], [right]) => left - right)
      .map(([status, group]) => [
        String(status),
        {
          description: group.map((code) => `\`${code}\``).join(", "),
          content: { [PROBLEM_TYPE]: { schema: { $ref: "#/components/schemas/Problem" } } },
        },
      ]),
  );
}
