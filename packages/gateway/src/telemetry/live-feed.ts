/**
 * What a page that is looked at follows: totals since the start, flows and one column per number of the nodes. Names of
 * nodes are sent only when they changed, so that a second of a fleet of 1,000 is some tens of kilobytes.
 */

import type { FleetReportJson, LiveJson, NodeReportJson } from "@zml/protocol/admin";
import type { RequestTotals } from "./request-metrics.ts";

/** Flows in one answer: the largest. More than that nobody tells apart in a picture. */
const FLOWS_MAX = 200;

const NODE_STATES: readonly NodeReportJson["state"][] = [
  "healthy",
  "trial",
  "cooling_down",
  "not_polled",
  "unhealthy",
  "draining",
];

/** @param knownTag `nodes_tag` of the answer that the reader has. O(nodes). */
export function liveFeed(
  report: FleetReportJson,
  totals: RequestTotals,
  context: { knownTag: string | null; clockMs: number; unixMs: number },
): LiveJson {
  const { nodes } = report;
  const tag = tagOf(nodes);
  const column = (of: (node: NodeReportJson) => number | null): (number | null)[] =>
    nodes.map((node) => rounded(of(node)));
  const attemptsOf = (node: NodeReportJson) => totals.attempts.get(node.id) ?? { attempts: 0, failed: 0 };
  return {
    at: new Date(context.unixMs).toISOString(),
    clock_ms: Math.round(context.clockMs),
    version: report.version,
    nodes_tag: tag,
    nodes:
      tag === context.knownTag
        ? null
        : {
            id: nodes.map(({ id }) => id),
            family: nodes.map(({ family }) => family),
            account: nodes.map(({ account }) => account),
            engine: nodes.map(({ engine }) => engine),
          },
    states: NODE_STATES,
    columns: {
      state: nodes.map(({ state }) => NODE_STATES.indexOf(state)),
      depth: column((node) => node.depth),
      in_flight: column((node) => node.in_flight),
      waiting: column((node) => node.waiting),
      max_in_flight: column((node) => node.max_in_flight),
      tokens_per_second: column((node) => node.tokens_per_second),
      health_score: column((node) => node.health_score),
      price_usd_per_hour: column((node) => node.price_usd_per_hour),
      data_age_ms: column((node) => node.data_age_ms),
      cooldown_ms: column((node) => node.cooldown_remaining_ms),
      attempts: nodes.map((node) => attemptsOf(node).attempts),
      failed: nodes.map((node) => attemptsOf(node).failed),
    },
    totals: {
      requests: totals.requests,
      endings: totals.endings,
      redispatches: totals.redispatches,
      judged: totals.judged,
      within_target: totals.withinTarget,
      input_tokens: totals.inputTokens,
      output_tokens: totals.outputTokens,
      parked: report.totals.parked,
      in_flight: report.totals.in_flight,
      depth: report.totals.depth,
      price_usd_per_hour: report.totals.price_usd_per_hour,
    },
    flows: totals.flows.toSorted((a, b) => b.requests - a.requests).slice(0, FLOWS_MAX),
  };
}

/** A short name of the list: FNV-1a over ids, families and engines. Two lists with one name show wrong names until the next change. */
function tagOf(nodes: readonly NodeReportJson[]): string {
  let hash = 0x811c9dc5;
  for (const { id, family, engine } of nodes) {
    const text = `${id}\n${family}\n${engine ?? ""}\n`;
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return `${nodes.length}-${(hash >>> 0).toString(36)}`;
}

/** Digits that nobody sees are bytes that everybody waits for. */
function rounded(value: number | null): number | null {
  if (value === null) return null;
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 100) / 100;
}
