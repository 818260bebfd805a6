/**
 * The generated parts of the documentation: the keys of the configuration file out of their schema, the error table out
 * of its rows. `scripts/write-reference.ts` puts them in place, `scripts/docs.test.ts` checks that they are fresh.
 */

import { z } from "zod";
import { configFileSchema } from "../packages/protocol/src/config.ts";
import { ERROR_CODES, ERRORS, type ErrorCode, type ErrorParameters } from "../packages/protocol/src/errors.ts";
import { adminApiPage, openApiText } from "./reference-admin.ts";
import { cliTables } from "./reference-cli.ts";

const BEGIN = "<!-- generated: npx node scripts/write-reference.ts -->";
const END = "<!-- end of what is generated -->";

/** Pages that hold a generated part, and what makes it. */
export const GENERATED: readonly { readonly page: string; readonly make: () => string }[] = [
  { page: "docs/operations/configuration.md", make: configurationTables },
  { page: "docs/reference/errors.md", make: errorTable },
  { page: "docs/reference/cli.md", make: cliTables },
  { page: "docs/reference/admin-api.md", make: adminApiPage },
];

/** Files that are generated as a whole. */
export const GENERATED_FILES: readonly { readonly file: string; readonly make: () => string }[] = [
  { file: "docs/reference/openapi.json", make: openApiText },
];

/**
 * A page with its generated part replaced.
 *
 * @throws Error when the page lacks the marks.
 */
export function withGenerated(page: string, part: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`the page needs the lines ${BEGIN} and ${END}`);
  return `${page.slice(0, begin + BEGIN.length)}\n\n${part}\n\n${page.slice(end)}`;
}

/** One table per mapping of the file, in the file's order. */
function configurationTables(): string {
  const sections: string[] = [];
  const rest: string[] = [];
  for (const [key, schema] of Object.entries(shapeOf(configFileSchema))) {
    const { inner } = unwrap(schema);
    const mapping = inner instanceof z.ZodArray ? unwrap(inner.element).inner : inner;
    if (!(mapping instanceof z.ZodObject)) {
      rest.push(row(key, schema));
      continue;
    }
    const isList = inner instanceof z.ZodArray;
    const title = isList ? `${key}[]` : key;
    sections.push(`## ${title}\n\n${descriptionOf(schema)}\n\n${HEAD}\n${rows("", mapping).join("\n")}`);
  }
  return [`## Top level\n\n${HEAD}\n${rest.join("\n")}`, ...sections].join("\n\n");
}

const HEAD = "| key | value | default | meaning |\n|---|---|---|---|";

function rows(prefix: string, mapping: z.ZodObject): string[] {
  return Object.entries(shapeOf(mapping)).flatMap(([key, schema]) => {
    const { inner } = unwrap(schema);
    const element = inner instanceof z.ZodArray ? unwrap(inner.element).inner : inner;
    const own = row(prefix + key, schema);
    if (element instanceof z.ZodUnion) {
      const named = element.options.find((option) => option instanceof z.ZodObject);
      return named instanceof z.ZodObject ? [own, ...rows(`${prefix}${key}[].`, named)] : [own];
    }
    if (!(element instanceof z.ZodObject)) return [own];
    return [own, ...rows(`${prefix}${key}${inner instanceof z.ZodArray ? "[]" : ""}.`, element)];
  });
}

function row(key: string, schema: z.core.$ZodType): string {
  const cells = [`\`${key}\``, kindShown(key, schema), defaultOf(schema), descriptionOf(schema)];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

function shapeOf(mapping: z.ZodObject): Record<string, z.core.$ZodType> {
  return mapping.shape;
}

interface Unwrapped {
  readonly inner: z.core.$ZodType;
  readonly isOptional: boolean;
  readonly isNullable: boolean;
  /** Undefined: none. */
  readonly standard: unknown;
}

function unwrap(schema: z.core.$ZodType | undefined): Unwrapped {
  if (schema === undefined) throw new Error("a list has elements");
  if (schema instanceof z.ZodOptional) return { ...unwrap(schema.unwrap()), isOptional: true };
  if (schema instanceof z.ZodNullable) return { ...unwrap(schema.unwrap()), isNullable: true };
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return { ...unwrap(schema.unwrap()), standard: schema.def.defaultValue };
  }
  return { inner: schema, isOptional: false, isNullable: false, standard: undefined };
}

function descriptionOf(schema: z.core.$ZodType): string {
  const description = z.globalRegistry.get(schema)?.description;
  if (description !== undefined) return description;
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return descriptionOf(schema.unwrap());
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) return descriptionOf(schema.unwrap());
  throw new Error("every key of the file is described");
}

function defaultOf(schema: z.core.$ZodType): string {
  const { inner, isOptional, standard } = unwrap(schema);
  const isSection = inner instanceof z.ZodObject && standard !== undefined;
  if (isSection || isOptional) return "–";
  return standard === undefined ? "**required**" : `\`${JSON.stringify(standard).replaceAll('"', "")}\``;
}

function kindShown(key: string, schema: z.core.$ZodType): string {
  const { inner, isNullable } = unwrap(schema);
  return isNullable ? `${kindOf(key, inner)} or null` : kindOf(key, inner);
}

function kindOf(key: string, inner: z.core.$ZodType): string {
  // an enum lists its numbers first
  if (inner instanceof z.ZodEnum) {
    const options = inner.options.map(String);
    const isNumeric = options.every((option) => !Number.isNaN(Number(option)));
    return (isNumeric ? options.sort() : options).map((option) => `\`${option}\``).join(", ");
  }
  if (inner instanceof z.ZodBoolean) return "true, false";
  if (inner instanceof z.ZodNumber) {
    const unit = key.endsWith("_ms") ? " ms" : /(^|_)bytes(_|$)/.test(key) ? " bytes" : "";
    return `${number(inner.minValue)} to ${number(inner.maxValue)}${unit}`;
  }
  if (inner instanceof z.ZodArray) return "list";
  if (inner instanceof z.ZodObject || inner instanceof z.ZodRecord) return "mapping";
  if (key === "listen" || key.endsWith(".listen")) return "HOST:PORT";
  if (key.endsWith("_env")) return "name of a variable";
  return "text";
}

function number(value: number | null): string {
  return value === null ? "?" : value.toLocaleString("en-US");
}

/** What the texts are shown with: names in capitals stand for what the caller or the configuration says. */
const SAMPLES: { readonly [C in ErrorCode]: ErrorParameters<C>[0] } = {
  invalid_json: { at: 17 },
  body_empty: undefined,
  body_not_object: undefined,
  body_too_large: { limitBytes: 67_108_864 },
  body_budget_exhausted: { limitBytes: 1_073_741_824 },
  body_timeout: { limitMs: 120_000 },
  unsupported_encoding: { encoding: "CODING", supported: ["gzip", "deflate", "br", "zstd"] },
  invalid_encoding: { encoding: "gzip" },
  duplicate_field: { field: "model" },
  missing_model: undefined,
  invalid_model: undefined,
  invalid_field: { field: "stream", expected: "true or false" },
  model_not_found: { model: "MODEL", known: ["A", "B"] },
  policy_not_found: { policy: "POLICY", known: ["A", "B"] },
  family_not_found: { family: "FAMILY", known: ["A", "B"] },
  context_length_exceeded: { model: "MODEL", atLeast: 16_384, largest: 8192 },
  images_unsupported: { model: "MODEL" },
  endpoint_unsupported: { model: "MODEL", path: "/v1/embeddings" },
  missing_api_key: undefined,
  invalid_api_key: { fault: "unknown" },
  expired_api_key: { key: "KEY", expiredAt: "2027-01-31T12:00:00Z" },
  key_scope: { key: "KEY", scope: "infer" },
  model_not_allowed: { key: "KEY", model: "MODEL", allowed: ["A", "B"] },
  policy_not_allowed: { key: "KEY", policy: "POLICY", allowed: ["A", "B"] },
  rate_limit_exceeded: {
    owner: 'the key "KEY"',
    what: "requests per minute",
    limit: 600,
    used: 600,
    requested: 1,
    retry: "12s",
  },
  insufficient_quota: {
    owner: 'the account "ACCOUNT"',
    period: "day",
    limit: 50,
    used: 50.02,
    isHeld: false,
    resetAt: "2027-01-31T00:00:00.000Z",
  },
  not_found: { path: "/PATH" },
  method_not_allowed: { method: "GET", allow: ["POST"] },
  header_too_large: { limitBytes: 65_536 },
  bad_request: undefined,
  expectation_failed: { expect: "EXPECTATION" },
  queue_saturated: { model: "MODEL" },
  no_node_available: { model: "MODEL" },
  queue_full: { limit: "limits.queue_requests or queue_bytes" },
  queue_timeout: { waitedMs: 30_000 },
  shutting_down: undefined,
  upstream_failed: { attempts: 3, cause: "reset" },
  upstream_timeout: { attempts: 1, limit: "timeouts.first_token_ms", limitMs: 600_000 },
  stream_interrupted: { cause: "reset" },
  request_timeout: { limitMs: 60_000 },
  internal_error: { requestId: "ID" },
};

function errorTable(): string {
  const lines = ERROR_CODES.map((code) => {
    const { status, type, anthropicType, side, retry } = ERRORS[code];
    const message = ERRORS[code].message as (parameters: unknown) => string;
    const cells = [`\`${code}\``, status, side, retry ? "yes" : "no", `\`${type}\``, `\`${anthropicType}\``];
    return `| ${[...cells, message(SAMPLES[code])].join(" | ").replaceAll("\n", " ")} |`;
  });
  const head = "| code | status | side | retry | type | type on `/v1/messages` | text, with an example |";
  return `${head}\n|---|---|---|---|---|---|---|\n${lines.join("\n")}`;
}
