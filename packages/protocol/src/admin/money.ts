import { z } from "zod";
import { accountQuery, dateTime, type Json, queryInteger } from "./fields.ts";

/** What requests cost: dollars of node time, as budgets count them, and what else they would have been. */

/** How far back a sum goes. `start`: as long as this process counts. */
export const MONEY_WINDOWS = ["minute", "hour", "day", "start"] as const;
export type MoneyWindow = (typeof MONEY_WINDOWS)[number];

/** What sums are told apart by. */
export const MONEY_GROUPS = ["account", "model", "family", "policy"] as const;
export type MoneyGroup = (typeof MONEY_GROUPS)[number];

/** Rows of an answer. */
export const MONEY_ROWS_MAX = 1_000;
export const MONEY_ROWS_DEFAULT = 50;

export const moneyQuery = z.strictObject({
  window: z.enum(MONEY_WINDOWS).optional().describe("Default: `hour`."),
  by: z.enum(MONEY_GROUPS).optional().describe("Default: `account`."),
  account: accountQuery("Only requests of this account. Default: all that the key may see."),
  limit: queryInteger({ min: 1, max: MONEY_ROWS_MAX })
    .optional()
    .describe(`Rows, the dearest; the rest is \`other\`. Default: ${MONEY_ROWS_DEFAULT}.`),
});

const usd = (text: string) => z.number().describe(text);
const ratio = (text: string) => z.number().nullable().describe(text);

const figures = {
  usd: usd("Spent, whatever became of the attempts."),
  usd_per_hour: usd("The same, per hour of the window."),
  failed_usd: usd("Of it, attempts that failed: the node worked, and no caller has a whole answer of it."),
  cancelled_usd: usd("Of it, attempts whose caller left."),
  answers: z.number().describe("Answers that callers got whole."),
  unpriced_answers: z.number().describe("Of them, those of nodes whose price is unknown: they are in no dollars here."),
  input_tokens: z.number().describe("Of answers with a price; estimated where the engine reports none."),
  output_tokens: z.number().describe("Of answers with a price; estimated where the engine reports none."),
  usd_per_million_input_tokens: ratio("All dollars over the input tokens; null: there were none."),
  usd_per_million_output_tokens: ratio("All dollars over the output tokens; null: there were none."),
  usd_per_million_tokens: ratio("All dollars over all tokens; null: there were none."),
  compared_usd: usd("Of `usd`, what a baseline is known for."),
  baseline_usd: usd("What the same would have cost on the first family of each request's policy, at its price then."),
  baseline_assumed_usd: usd("Of it, by a speed that is assumed: no node of that family has been measured."),
  savings_usd: usd("`baseline_usd` − `compared_usd`; negative: it was dearer."),
  savings_usd_per_hour: usd("The same, per hour of the window."),
  savings_share: ratio("Savings over the baseline; null: there is none."),
};

const figuresSchema = z.object(figures).meta({ id: "MoneyFigures" });

const rowSchema = z
  .object({
    account: z.string().nullable().describe("Whose it is; null: a family, which is nobody's."),
    name: z.string(),
    ...figures,
  })
  .meta({ id: "MoneyRow" });

export const moneySchema = z
  .object({
    window: z.enum(MONEY_WINDOWS),
    by: z.enum(MONEY_GROUPS),
    account: z.string().nullable().describe("Only its requests; null: everybody's."),
    since: dateTime().describe("From when on it is counted: at least the window, or since the start."),
    seconds: z.number().describe("Between `since` and now."),
    fleet_usd_per_hour: z
      .number()
      .nullable()
      .describe("Price of the fleet now, used or idle, at known prices. Null for keys of other accounts."),
    total: figuresSchema,
    rows: z.array(rowSchema).describe("The dearest first."),
    other: figuresSchema.nullable().describe("All further rows together; null: there are none."),
    other_rows: z.number().describe("How many those are, as far as they are told apart."),
  })
  .meta({ id: "Money" });

export type MoneyJson = Json<z.output<typeof moneySchema>>;
export type MoneyFiguresJson = MoneyJson["total"];
export type MoneyRowJson = MoneyJson["rows"][number];
