import { z } from "zod";
import { ADMIN_PROBLEM_CODES } from "./problem-codes.ts";

/** The body of every answer that is an error. */
export const problemSchema = z
  .object({
    type: z.string().describe("`urn:zml:problem:` and the code."),
    title: z.string().describe("The same for every problem of the code."),
    status: z.int().min(400).max(599).describe("The HTTP status."),
    detail: z.string().describe("What failed, the value, the limit, what to do."),
    code: z.enum(ADMIN_PROBLEM_CODES).describe("Stable: programs rely on it."),
    errors: z
      .array(
        z.object({
          path: z.string().describe("The field, such as `spec.cost_priority`; empty: the whole."),
          message: z.string().describe("What is wrong with it."),
          hint: z.string().describe("What to do; empty where the message says it."),
        }),
      )
      .optional()
      .describe("Every field that is wrong."),
    request_id: z.string().describe("As in the header `x-request-id` and in the log."),
  })
  .meta({ id: "Problem", description: "Why it can't be done (RFC 9457)." });
