/** What ZML tells monitoring systems. */

import { z } from "zod";
import * as field from "./config-fields.ts";

export const telemetrySchema = z
  .strictObject(
    {
      metrics_series_max: field
        .count({ min: 100, max: 1_000_000 })
        // 50 policies of 10 models on 4 families; each has some 45 lines in a scrape
        .default(2_000)
        .describe(
          "Combinations of policy, model, family and endpoint that metrics of requests tell apart; all others are counted as `other`.",
        ),
      money_rows_max: field
        .count({ min: 100, max: 1_000_000 })
        // ten thousand accounts with a model each; 80 bytes a row, and up to 45 times that with the windows of a day
        .default(10_000)
        .describe(
          "Combinations of policy, model and family whose dollars are kept apart ([money](money.md)); all others are one sum, `other`.",
        ),
    },
    field.mapping,
  )
  .prefault({})
  .describe("Metrics at /metrics of the admin port.");
