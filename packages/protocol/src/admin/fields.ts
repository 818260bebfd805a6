import { z } from "zod";
import { NAME_PATTERN } from "../config-fields.ts";

/** Fields that several routes share. What stands in a query arrives as text, and is documented as what it means. */

/** A deep read-only view: what answers are made of is never changed. */
export type Json<T> = T extends readonly (infer U)[]
  ? readonly Json<U>[]
  : T extends object
    ? { readonly [K in keyof T]: Json<T[K]> }
    : T;

/** The name of a node, family, account, policy, key or feed. */
export function objectName(what: string) {
  return z.string().regex(NAME_PATTERN, { error: `expected ${what} of 1 to 128 letters, digits, ., _, :, / or -` });
}

/** A whole number in a query. */
export function queryInteger({ min, max }: { min: number; max: number }) {
  const error = `expected a whole number from ${min} to ${max}`;
  return documented(
    z
      .string()
      .regex(/^(0|[1-9]\d{0,9})$/, { error })
      .transform(Number)
      .pipe(z.int().min(min, { error }).max(max, { error })),
    { type: "integer", minimum: min, maximum: max },
  );
}

/** A number in a query, fractions allowed. */
export function queryNumber({ min, max }: { min: number; max: number }) {
  const error = `expected a number from ${min} to ${max}`;
  return documented(
    z
      .string()
      .regex(/^(0|[1-9]\d{0,9})(\.\d{1,6})?$/, { error })
      .transform(Number)
      .pipe(z.number().min(min, { error }).max(max, { error })),
    { type: "number", minimum: min, maximum: max },
  );
}

/** A switch in a query. */
export function queryFlag() {
  return documented(
    z.enum(["true", "false"], { error: "expected true or false" }).transform((value) => value === "true"),
    { type: "boolean" },
  );
}

/** A body that came as YAML, not read yet: a JSON text is none. */
export class YamlBody {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Where a list goes on: what the answer before gave as `next_cursor`. */
export function cursor() {
  return z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,2048}$/, { error: "expected the next_cursor of the answer before" })
    .describe("`next_cursor` of the answer before. It is opaque.");
}

/** `?account=`. */
export function accountQuery(text: string) {
  return objectName("an account").optional().describe(text);
}

export const nextCursor = z.string().nullable().describe("For the next page; null: this is the last one.");

/** RFC 3339 in UTC. */
export function dateTime() {
  return z.iso.datetime();
}

/** A schema with the JSON schema that the documentation shows in place of the one that zod would make. */
export function documented<T extends z.ZodType>(schema: T, shown: Record<string, unknown>): T {
  return schema.meta({
    override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
      const { description } = jsonSchema;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      Object.assign(jsonSchema, shown, description === undefined ? {} : { description });
    },
  });
}
