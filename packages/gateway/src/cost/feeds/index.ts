/** The feeds by provider. Each file exports `fetchPrices`; a source that can be watched also `sourceVersion`. */

import type { PriceProvider } from "@zml/protocol";
import type { FetchPrices, SourceVersion } from "../feed-context.ts";
import * as awsSpot from "./aws-spot.ts";
import * as azureRetail from "./azure-retail.ts";
import * as file from "./file.ts";
import * as gcpCatalog from "./gcp-catalog.ts";
import * as lambda from "./lambda.ts";
import * as runpod from "./runpod.ts";
import * as url from "./url.ts";
import * as vastai from "./vastai.ts";

/** A way to prices. */
export interface Feed {
  readonly fetchPrices: FetchPrices;
  readonly sourceVersion?: SourceVersion;
}

export const FEEDS: Readonly<Record<PriceProvider, Feed>> = {
  aws_spot: awsSpot,
  azure_retail: azureRetail,
  gcp_catalog: gcpCatalog,
  vastai,
  runpod,
  lambda,
  file,
  url,
};
