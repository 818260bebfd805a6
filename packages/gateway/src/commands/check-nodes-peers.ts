/** Judgements that need more than the node itself: its peers, and what a running gateway says of it. Pure. */

import type { FleetReportJson, NodeReportJson } from "../control/fleet-report.ts";
import { type Findings, type Point, point } from "./check-nodes-findings.ts";
import { stateText } from "./nodes-table.ts";

/**
 * What differs between nodes that should be alike: the context of one model, and what the engines of one family are
 * built for. By index of `all`.
 */
export function peerPoints(all: readonly Findings[]): Point[][] {
  const contexts = new Map<string, { tokens: number; id: string }>();
  const platforms = new Map<string, Map<string, string>>();
  for (const { config, polled, models } of all) {
    for (const { served } of models) {
      const tokens = contextOf(polled, served.upstreamModel, served.contextTokens);
      const key = JSON.stringify([config.account, served.name]);
      if (tokens > (contexts.get(key)?.tokens ?? 0)) contexts.set(key, { tokens, id: config.id });
    }
    const platform = polled?.reading.platform ?? null;
    if (platform === null) continue;
    const ofFamily = platforms.get(config.family) ?? new Map<string, string>();
    platforms.set(config.family, ofFamily);
    if (!ofFamily.has(platform)) ofFamily.set(platform, config.id);
  }
  return all.map(({ config, polled, models }) => {
    const points: Point[] = [];
    for (const { served } of models) {
      const tokens = contextOf(polled, served.upstreamModel, served.contextTokens);
      const largest = contexts.get(JSON.stringify([config.account, served.name]));
      if (largest === undefined || !(tokens < largest.tokens)) continue;
      const text = `${tokens} tokens, and ${largest.id} has ${largest.tokens}: longer requests go past it`;
      points.push({
        ...point("context", "yellow", text, "give the engines the same length, if it fits"),
        model: served.name,
      });
    }
    const own = polled?.reading.platform ?? null;
    const other = [...(platforms.get(config.family) ?? [])].find(([platform]) => platform !== own);
    // a stated platform is judged by itself
    if (own !== null && other !== undefined && config.platform === null) {
      const text = `built for ${own}, and ${other[1]} of the same family for ${other[0]}`;
      points.push(point("platform", "yellow", text, "correct the family of one, or state platform on the nodes"));
    }
    return points;
  });
}

function contextOf(polled: Findings["polled"], upstreamModel: string, stated: number): number {
  if (!Number.isNaN(stated)) return stated;
  return polled?.reading.models?.find(({ id }) => id === upstreamModel)?.contextTokens ?? Number.NaN;
}

/** What the router of a running gateway sees otherwise than this check. */
export function routerPoints({ config, polled, models }: Findings, { nodes }: FleetReportJson): Point[] {
  const seen = nodes.find(({ id }) => id === config.id);
  if (seen === undefined) {
    return [
      point(
        "router",
        "yellow",
        "the gateway does not know the node",
        "reload the gateway: it runs another file, or refused this one",
      ),
    ];
  }
  const points: Point[] = [];
  if (seen.url.replace(/\/+$/, "") !== config.url) {
    points.push(point("router", "yellow", "the gateway has it at another address", "reload the gateway"));
  }
  if (seen.state !== "healthy" || seen.state_detail !== null) points.push(statePoint(seen));
  if (polled?.engine != null && seen.engine !== null && seen.engine !== polled.engine) {
    points.push(
      point(
        "router",
        "yellow",
        `the gateway takes it for ${seen.engine}, this check for ${polled.engine}`,
        "wait for the next full poll (30 s), or state engine",
      ),
    );
  }
  const missing = models.filter(
    ({ served, asked }) => asked.verdict === "success" && !seen.models.includes(served.name),
  );
  if (missing.length > 0) {
    const names = missing.map(({ served }) => served.name).join(", ");
    points.push(
      point(
        "router",
        "yellow",
        `the gateway routes no ${names} to it`,
        "reload the gateway, or wait for the next full poll (30 s)",
      ),
    );
  }
  if (seen.price_key !== null && seen.price_usd_per_hour === null) {
    points.push(point("price", "yellow", `no feed has told ${seen.price_key}`, "zml prices tells why"));
  }
  if (points.length > 0) return points;
  const depth = `depth ${seen.depth} of ${seen.max_in_flight}`;
  return [
    point(
      "router",
      "green",
      `the gateway has it as ${seen.state}, ${depth}, and ${seen.own_samples} attempts learned from`,
    ),
  ];
}

function statePoint(seen: NodeReportJson): Point {
  const words = seen.last_poll_error === null ? "" : `: ${seen.last_poll_error}`;
  // this check may pass while the gateway, which stands elsewhere, can't reach it
  const level = seen.state === "unhealthy" ? "red" : "yellow";
  return point("router", level, `the gateway has it as ${stateText(seen)}${words}`, `zml nodes ${seen.id} tells more`);
}
