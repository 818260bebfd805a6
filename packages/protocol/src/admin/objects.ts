import { z } from "zod";
import { accountSchema, keySchema } from "../account-config.ts";
import { modelSchema, nodeSchema, policySchema } from "../config.ts";
import { isModelName } from "../config-fields.ts";
import { COLLECTIONS, hasAccount, OBJECT_KINDS, OBJECT_OWNERS, type ObjectKind } from "../objects.ts";
import { feedSchema } from "../price-config.ts";
import type { AccessRule } from "./access.ts";
import { accountQuery, cursor, documented, objectName, queryInteger } from "./fields.ts";

/**
 * Objects that are managed: `kind`, account and name tell which, `spec` is the entry as it would stand in zml.yaml. The
 * registry checks a spec, with the schema of the file and against everything else, so that a route takes any mapping; the
 * documentation shows the schema.
 */

/** The part of a URL that names a kind. */
export type CollectionName = (typeof COLLECTIONS)[ObjectKind];

/** What all routes of a collection have in common. */
interface Resource {
  readonly kind: ObjectKind;
  /** For texts. */
  readonly one: string;
  readonly read: AccessRule;
  readonly write: AccessRule;
}

/** Kinds of objects, by the collection of their URLs. */
export const RESOURCES = {
  accounts: { kind: "account", one: "an account", read: "read", write: "operator_write" },
  nodes: { kind: "node", one: "a node", read: "read", write: "operator_write" },
  models: { kind: "model", one: "a model", read: "read", write: "write" },
  policies: { kind: "policy", one: "a policy", read: "read", write: "write" },
  keys: { kind: "key", one: "a key", read: "read", write: "write" },
  "price-feeds": { kind: "price_feed", one: "a price feed", read: "operator_read", write: "operator_write" },
} as const satisfies { [K in ObjectKind as (typeof COLLECTIONS)[K]]: Resource & { readonly kind: K } };

export const COLLECTION_NAMES = Object.values(COLLECTIONS);

/** The entry of the file, whose name and account the URL may have said already. */
const nameless = {
  accounts: z.strictObject({ ...accountSchema.shape, name: accountSchema.shape.name.optional() }),
  nodes: z.strictObject({ ...nodeSchema.shape, id: nodeSchema.shape.id.optional() }),
  models: z.strictObject({ ...modelSchema.shape, name: modelSchema.shape.name.optional() }),
  policies: z.strictObject({ ...policySchema.shape, name: policySchema.shape.name.optional() }),
  // the API makes the value of a key itself
  keys: z.strictObject({ ...keySchema.shape, name: keySchema.shape.name.optional(), value_env: z.string().optional() }),
  "price-feeds": z.strictObject({ ...feedSchema.shape, name: feedSchema.shape.name.optional() }),
} satisfies Record<CollectionName, z.ZodObject>;

const SPEC_IDS = {
  accounts: "AccountSpec",
  nodes: "NodeSpec",
  models: "ModelSpec",
  policies: "PolicySpec",
  keys: "KeySpec",
  "price-feeds": "PriceFeedSpec",
} as const satisfies Record<CollectionName, string>;

/** Schemas of the entries, for the documentation. */
export const specSchemas = Object.fromEntries(
  COLLECTION_NAMES.map((name) => [
    SPEC_IDS[name],
    // what is left out has a default: the schema of what is sent, not of what it becomes
    nameless[name].meta({
      unusedIO: "input",
      description: `The entry of ${RESOURCES[name].one} as it stands in zml.yaml.`,
    }),
  ]),
);

const anySpec = () => z.record(z.string(), z.unknown());

/** Any mapping, shown as the entry that it has to be. */
function specOf(name: CollectionName) {
  return documented(anySpec(), { $ref: `#/components/schemas/${SPEC_IDS[name]}` });
}

const managed = {
  kind: z.enum(OBJECT_KINDS),
  account: z.string().describe("Whose it is; empty for accounts and price feeds."),
  name: z.string(),
  owner: z
    .enum(OBJECT_OWNERS)
    .describe("`file`: zml.yaml, read-only here. `api`: the store. `discovery`: found, read-only here."),
  revision: z.string().describe("Moves with each change; the entity tag."),
  created_at: z.iso.datetime().nullable().describe("Null: not known, as the file does not say."),
  updated_at: z.iso.datetime().nullable(),
};

/** Any object. */
export const objectSchema = z
  .object({ ...managed, spec: anySpec().describe("The entry as it would stand in zml.yaml.") })
  .meta({ id: "ManagedObject" });

export type ObjectJson = z.output<typeof objectSchema>;

export const objectPageSchema = z
  .object({
    items: z.array(objectSchema).describe("By account and name."),
    next_cursor: z.string().nullable().describe("For the next page; null: this is the last one."),
  })
  .meta({ id: "ObjectPage" });

/** The body of PUT: what GET answered may be sent back whole. */
export function putBody(name: CollectionName) {
  return z.strictObject({
    spec: specOf(name),
    kind: z.literal(RESOURCES[name].kind).optional(),
    account: z.string().optional().describe("Must agree with the URL."),
    name: z.string().optional().describe("Must agree with the URL."),
    owner: z.unknown().optional().describe("Ignored."),
    revision: z.unknown().optional().describe("Ignored."),
    created_at: z.unknown().optional().describe("Ignored."),
    updated_at: z.unknown().optional().describe("Ignored."),
  });
}

const writeFields = {
  version: z.int().describe("Version of the configuration with this change."),
  is_acknowledged: z.boolean().describe("False (202): not all workers have it in force yet; they will."),
  warnings: z.array(z.string()),
};

/** What a write answers. */
export const writtenSchema = z
  .object({
    action: z.enum(["created", "updated", "unchanged", "deleted"]),
    object: objectSchema.nullable(),
    ...writeFields,
  })
  .meta({ id: "Written" });

export const mintBody = z.strictObject({
  name: objectName("a key name").describe("How logs and metrics call it."),
  account: objectName("an account").optional().describe("Default: the account of the key that asks."),
  spec: documented(anySpec(), { $ref: "#/components/schemas/KeySpec" }).optional(),
});

export const mintedSchema = z
  .object({
    object: objectSchema,
    secret: z.string().describe("The key itself. It is shown this once and never again."),
    ...writeFields,
  })
  .meta({ id: "MintedKey" });

/** A day of two keys at once is plenty for a rollout, and bounds how long a leaked one lives after its rotation. */
const OVERLAP_MAX_S = 7 * 86_400;

export const rotateBody = z.strictObject({
  overlap_seconds: z
    .int()
    .min(0)
    .max(OVERLAP_MAX_S)
    .default(3600)
    .describe("How long the old value stays valid beside the new one."),
});

/** Path parameters of an object. */
export function nameParams(name: CollectionName) {
  return name === "models"
    ? z.strictObject({
        name: documented(z.string().refine(isModelName, { error: "expected a model name of 1 to 256 bytes" }), {
          type: "string",
          minLength: 1,
          maxLength: 256,
        }),
      })
    : z.strictObject({ name: objectName("a name").describe("Percent-encoded: `/` is `%2F`.") });
}

/** Objects of a page. */
const PAGE_MAX = 1000;
const PAGE_DEFAULT = 100;

/** Query parameters of a list. */
export function listQuery(name: CollectionName) {
  const paging = {
    owner: z.enum(OBJECT_OWNERS).optional().describe("Only those of this owner."),
    contains: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe("Only those whose name, account or display name holds this text, in upper or lower case."),
    limit: queryInteger({ min: 1, max: PAGE_MAX }).optional().describe(`Objects of a page. Default: ${PAGE_DEFAULT}.`),
    cursor: cursor().optional(),
  };
  if (!hasAccount(RESOURCES[name].kind)) return z.strictObject(paging);
  return z.strictObject({
    account: accountQuery("Only those of this account. Default: all that the key may see."),
    ...paging,
  });
}

/** Query parameters of one object. */
export function oneQuery(name: CollectionName) {
  return hasAccount(RESOURCES[name].kind)
    ? z.strictObject({ account: accountQuery("Whose it is. Default: the account of the key that asks.") })
    : z.strictObject({});
}

export { PAGE_DEFAULT };
