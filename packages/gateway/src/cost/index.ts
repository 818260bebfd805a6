/** The gateway half of the step cost: price feeds and the provider cost table. */

export { PriceBook } from "./price-book.ts";
export type { PriceHistory } from "./price-history.ts";
export { priceHistory } from "./price-history-report.ts";
export { type PricesReportJson, pricesReport } from "./price-report.ts";
