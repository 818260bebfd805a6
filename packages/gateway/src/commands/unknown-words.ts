/** Why a cell is unknown, for people, with what would tell it. */

import type { UnknownWhy } from "@zml/protocol";

export const WHY_WORDS: Readonly<Record<UnknownWhy, string>> = {
  not_polled: "no poll of it has succeeded yet",
  node_down: "it is out, and what it told before says nothing about now",
  engine_not_detected: "its engine is not known yet",
  engine_does_not_tell: "its engine does not tell it",
  metrics_refused: "its metrics are switched off, or ask for a key",
  metrics_too_large: "its metrics are larger than 4 MiB",
  metrics_compressed: "its metrics come compressed, which was not asked for",
  metrics_redirected: "its metrics redirect, which is not followed: name the page with metrics_url",
  metrics_failed: "its metrics did not answer in time",
  gpu_exporter_failed: "its GPU exporter does not answer, or marks a GPU as unknown",
  gpu_exporter_no_match: "no GPU on its exporter's page matches",
  one_look_only: "one look at a counter is no rate yet",
  no_traffic_yet: "no request has shown it yet",
  not_measured_yet: "it was not busy enough to show it yet, and is assumed",
  no_price: "no price is configured: set cost.usd_per_gpu_hour or cost.price",
  price_not_fetched: "no feed has told its price yet: zml prices says why",
};
