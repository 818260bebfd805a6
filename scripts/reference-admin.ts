/**
 * The reference of the admin API, out of the contract that requests are checked with: the OpenAPI document, and the same as
 * a page for people.
 */

import { EVERYWHERE, openApiDocument, WITH_BODY } from "../packages/gateway/src/admin/openapi.ts";
import { ACCESS_RULES } from "../packages/protocol/src/admin/access.ts";
import { ADMIN_PROBLEM_CODES, ADMIN_PROBLEMS } from "../packages/protocol/src/admin/problem-codes.ts";
import { ROUTE_TAGS } from "../packages/protocol/src/admin/route-contract.ts";

/** Problems that the page names once: of every route, of every body, of every input. */
const COMMON: ReadonlySet<string> = new Set(
  [...EVERYWHERE, ...WITH_BODY, "invalid_path", "invalid_query", "invalid_header"].map((code) => `\`${code}\``),
);

/** As far as the page reads it. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly description?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

interface Parameter {
  readonly in: string;
  readonly name: string;
  readonly required?: boolean;
  readonly schema: Schema;
  readonly description?: string;
}

interface Content {
  readonly [type: string]: { readonly schema: Schema };
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** `docs/reference/openapi.json`. */
export function openApiText(): string {
  return `${JSON.stringify(openApiDocument(), null, 1)}\n`;
}

/** `docs/reference/admin-api.md`, the generated part. */
export function adminApiPage(): string {
  const document = JSON.parse(openApiText()) as Document;
  const sections = Object.entries(ROUTE_TAGS).map(([tag, about]) => {
    const routes = Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.entries(operations)
        .filter(([, operation]) => operation.tags[0] === tag)
        .map(([method, operation]) => routeText(method, path, operation)),
    );
    return [`## ${tag}`, about, ...routes].join("\n\n");
  });
  const schemas = Object.entries(document.components.schemas)
    .filter(([, schema]) => schema.properties !== undefined)
    .map(([name, schema]) => schemaText(name, schema));
  return [accessTable(), ...sections, "## Shapes", ...schemas, problemTable()].join("\n\n");
}

function accessTable(): string {
  const rows = Object.entries(ACCESS_RULES).map(([rule, text]) => `| \`${rule}\` | ${text} |`);
  return ["## Access", table("rule | who", rows)].join("\n\n");
}

function problemTable(): string {
  const rows = ADMIN_PROBLEM_CODES.map((code) => {
    const { status, title } = ADMIN_PROBLEMS[code];
    return `| \`${code}\` | ${status} | ${title} |`;
  });
  const common = `Every route may answer ${[...COMMON].join(", ")}; the others say which.`;
  return ["## Problems", common, table("code | status | title", rows)].join("\n\n");
}

function routeText(method: string, path: string, operation: Operation): string {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const parts = [`### ${method.toUpperCase()} ${path}`, `${summary}. ${description.replaceAll("\n\n", " ")}`];
  if (parameters.length > 0) {
    const rows = parameters.map(({ name, in: where, required, schema, description: about }) => {
      const cells = [`\`${name}\``, where, `${typeText(schema)}${required === true ? ", required" : ""}`, about ?? ""];
      return row(cells);
    });
    parts.push(table("parameter | in | value | meaning", rows));
  }
  if (requestBody !== undefined) {
    const bodies = Object.entries(requestBody.content).map(([type, { schema }]) => `\`${type}\` ${inline(schema)}`);
    parts.push(`Body: ${bodies.join("; or ")}`);
  }
  const isProblem = (content: Content = {}) => Object.hasOwn(content, "application/problem+json");
  const own = Object.values(responses)
    .filter(({ content }) => isProblem(content))
    .flatMap(({ description: codes }) => codes.split(", "))
    .filter((code) => !COMMON.has(code));
  const good = Object.entries(responses).filter(([, { content }]) => !isProblem(content));
  const answers = good.map(([status, { description: about, content = {} }]) => {
    const shapes = Object.values(content).map(({ schema }) => inline(schema));
    return row([status, about, [...new Set(shapes)].join(", ")]);
  });
  parts.push(table("status | meaning | body", answers));
  if (own.length > 0) parts.push(`Problems: ${own.join(", ")}`);
  return parts.join("\n\n");
}

function schemaText(name: string, { description, properties = {}, required = [] }: Schema): string {
  const rows = Object.entries(properties).map(([key, schema]) => {
    const isRequired = required.includes(key);
    return row([`\`${key}\``, `${typeText(schema)}${isRequired ? "" : ", optional"}`, schema.description ?? ""]);
  });
  const about = description === undefined ? [] : [description];
  return [`### ${name}`, ...about, table("member | value | meaning", rows)].join("\n\n");
}

/** A shape by its name, or the members of one that has none. */
function inline(schema: Schema): string {
  if (schema.properties === undefined) return typeText(schema);
  const { required = [] } = schema;
  const members = Object.entries(schema.properties).map(([key, value]) => {
    return `\`${key}\`${required.includes(key) ? "" : "?"}: ${typeText(value)}`;
  });
  return members.length === 0 ? "`{}`" : `{ ${members.join(", ")} }`;
}

function typeText(schema: Schema): string {
  const { $ref, anyOf, items, properties, additionalProperties, format, minimum, maximum } = schema;
  if ($ref !== undefined) {
    const name = $ref.split("/").at(-1) ?? "";
    return `[${name}](#${name.toLowerCase()})`;
  }
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(" or ");
  if (items !== undefined) return `list of ${typeText(items)}`;
  if (properties !== undefined) return inline(schema);
  if (typeof additionalProperties === "object" && Object.keys(additionalProperties).length > 0) {
    return `mapping to ${typeText(additionalProperties)}`;
  }
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : (schema.type ?? "any value");
  if (type === "object") return "mapping";
  if (format === "date-time") return "RFC 3339";
  const isBounded = minimum !== undefined && maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  return `${type === "string" ? "text" : type}${isBounded ? `, ${minimum} to ${maximum}` : ""}`;
}

function table(head: string, rows: readonly string[]): string {
  const columns = head.split("|").length;
  return [`| ${head} |`, `|${"---|".repeat(columns)}`, ...rows].join("\n");
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
}
