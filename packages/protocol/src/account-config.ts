import { z } from "zod";
import * as field from "./config-fields.ts";
import { DEFAULT_ACCOUNT } from "./fixed-names.ts";

/** Accounts and callers' keys as they stand in the file: who may do what, and how much of it. */

/** What a key may do. */
export const SCOPES = ["infer", "read", "admin"] as const;
/** What a key may do. */
export type Scope = (typeof SCOPES)[number];

/** In `nodes[].shared_with`: every account. */
export const ALL_ACCOUNTS = "*";

/**
 * The largest limits, per minute: what one shared cell counts in half a second and in a window without an overflow. A
 * hundred million tokens a minute are what some three hundred nodes of eight accelerators generate.
 */
const PER_MINUTE_MAX = 100_000_000;

/** The account that owns an object. */
export const account = () => field.name("an account").default(DEFAULT_ACCOUNT).describe("The account that owns it.");

/** Limits of a key, or of an account: of all its keys together. */
const usageLimitsSchema = z
  .strictObject(
    {
      requests_per_minute: field
        .count({ min: 1, max: PER_MINUTE_MAX })
        .nullable()
        .default(null)
        .describe("Requests admitted in any 60 s. null: no limit."),
      tokens_per_minute: field
        .count({ min: 1, max: PER_MINUTE_MAX })
        .nullable()
        .default(null)
        .describe("Prompt and output tokens in any 60 s: an estimate at admission, what was used afterwards."),
      concurrent_requests: field
        .count({ min: 1, max: 1_000_000 })
        .nullable()
        .default(null)
        .describe("Requests that run or wait for room at one time."),
      budget_usd_per_day: field
        .decimal("an amount in USD", { min: 0, max: 1e9 })
        .nullable()
        .default(null)
        .describe("What its requests may use of nodes from midnight to midnight UTC, at the nodes' prices."),
      budget_usd_per_month: field
        .decimal("an amount in USD", { min: 0, max: 1e9 })
        .nullable()
        .default(null)
        .describe("The same from the first of a month to the next, UTC."),
    },
    field.mapping,
  )
  .prefault({});

export const keySchema = z.strictObject(
  {
    name: field.name("a key name").describe("How logs and metrics call the key."),
    value_env: field.envName().describe("The environment variable that holds the key."),
    account: account(),
    scopes: z
      .array(field.oneOf(SCOPES), field.list)
      .min(1, { error: `a key needs a scope: ${SCOPES.join(", ")}` })
      .default(["infer"])
      .describe("infer: the data port. read: what the admin port shows. admin: the admin port."),
    models: z
      .array(field.modelName(), field.list)
      .nullable()
      .default(null)
      .describe("The models that it may use. null: all of its account."),
    policies: z
      .array(field.name("a policy"), field.list)
      .nullable()
      .default(null)
      .describe("The policies that its requests may run under, also by a model's or an account's default. null: all."),
    expires_at: z
      .string({ error: (issue) => `expected ${A_TIME}, got ${field.shown(issue.input)}` })
      .refine(isTime, { error: (issue) => `expected ${A_TIME}, got ${field.shown(issue.input)}` })
      .nullable()
      .default(null)
      .describe("RFC 3339. From then on it is refused. null: never."),
    limits: usageLimitsSchema.describe("Limits of the key; those of its account hold beside them."),
  },
  field.mapping,
);

/** A key that the gateway made: its value is in the store, as a keyed hash. */
export const mintedKeySchema = keySchema.omit({ value_env: true });

export const accountSchema = z.strictObject(
  {
    name: field.name("an account").describe("The account's name."),
    display_name: field.text("a text").max(256).optional().describe("For people."),
    default_policy: field
      .name("a policy")
      .nullable()
      .default(null)
      .describe("For models without a policy. null: balanced, families in order of registration."),
    limits: usageLimitsSchema.describe("Limits of all its requests together."),
  },
  field.mapping,
);

/** Limits with none set. */
export const NO_USAGE_LIMITS = usageLimitsSchema.parse({});

/** Accounts that a node serves beside the one that owns it. */
export const sharedWithSchema = z
  .array(
    z
      .string({ error: (issue) => `expected an account or "*", got ${field.shown(issue.input)}` })
      .refine((value) => value === ALL_ACCOUNTS || field.NAME_PATTERN.test(value), {
        error: (issue) => `expected an account or "*", got ${field.shown(issue.input)}`,
      }),
    field.list,
  )
  .default([])
  .describe('Accounts that it serves beside its own; "*": all.');

const A_TIME = "a time such as 2027-01-31T12:00:00Z";

/** RFC 3339: date and time with an offset, on a day that the calendar has. */
function isTime(value: string): boolean {
  const match = /^\d{4}-(\d\d)-(\d\d)[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/.exec(value);
  if (match === null) return false;
  const day = new Date(`${value.slice(0, 10)}T00:00:00Z`);
  return !Number.isNaN(Date.parse(value)) && day.getUTCDate() === Number(match[2]);
}
