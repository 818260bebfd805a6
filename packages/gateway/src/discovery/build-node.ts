/** A target and its source's template → a node, by the schema of the nodes that the file lists. */

import { networkInterfaces } from "node:os";
import {
  type Config,
  completeNode,
  formatPath,
  isLoopback,
  type NodeConfig,
  nodeSchema,
  parsePriceReference,
  type SourceConfig,
  TARGET_FIELDS,
  type TargetField,
} from "@zml/protocol";
import { type Target, targetKey } from "./source.ts";

/** What a target becomes. */
export type BuiltNode =
  /** `entry`: as it would stand in the file. */
  { readonly node: NodeConfig; readonly entry: Readonly<Record<string, unknown>> } | { readonly reason: string };

/** Sections of the configuration that a found node depends on. */
export type NodeSurroundings = Pick<Config, "timeouts" | "health" | "failover" | "prices" | "data" | "admin">;

/** The node, or why there is none. Pure but for the addresses of this machine. */
export function buildNode(target: Target, source: SourceConfig, around: NodeSurroundings): BuiltNode {
  const own = ownPort(target, around);
  if (own !== null) return { reason: `the address is the gateway's own ${own} port` };
  const entry = rawNode(target, source);
  const parsed = nodeSchema.safeParse(entry);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const path = formatPath((issue?.path ?? []).map((part) => (typeof part === "number" ? part : String(part))));
    return { reason: `${path === "" ? "" : `${path}: `}${issue?.message ?? "no node"}` };
  }
  const price = parsed.data.cost?.price;
  const feed = price === undefined ? null : (parsePriceReference(price)?.feed ?? null);
  if (feed !== null && !around.prices.feeds.some(({ name }) => name === feed)) {
    return { reason: `there is no price feed ${JSON.stringify(feed)}: declare it under prices.feeds` };
  }
  return { node: completeNode(parsed.data, around, source.name), entry };
}

/** The node as it would stand in the file. */
function rawNode(target: Target, source: SourceConfig): Record<string, unknown> {
  const { node: template, scheme, path } = source;
  const host = target.host.includes(":") ? `[${target.host}]` : target.host;
  const raw: Record<string, unknown> = {
    ...template,
    id: `${source.name}:${targetKey(target)}`,
    url: `${scheme}://${host}:${target.port}${path}`,
  };
  if (template.server_name === undefined && target.serverName !== null && target.serverName !== target.host) {
    raw["server_name"] = target.serverName;
  }
  if (template.display_name === undefined && target.displayName !== null) raw["display_name"] = target.displayName;
  // split and join: a host has no special meaning as a replacement
  if (template.metrics_url !== undefined) raw["metrics_url"] = template.metrics_url.split(HOST).join(host);
  if (template.gpu_exporter !== undefined) {
    raw["gpu_exporter"] = { ...template.gpu_exporter, url: template.gpu_exporter.url.split(HOST).join(host) };
  }
  for (const field of TARGET_FIELDS) {
    const label = source.labels[field];
    if (label === undefined || !Object.hasOwn(target.labels, label)) continue;
    const value = target.labels[label] ?? "";
    if (value !== "") setField(raw, field, value);
  }
  return raw;
}

/** Stands for the node's own host in addresses of a template. */
const HOST = "{host}";

function setField(raw: Record<string, unknown>, field: TargetField, value: string): void {
  switch (field) {
    case "gpus":
    case "max_in_flight":
      raw[field] = numberOf(value);
      return;
    case "price":
    case "usd_per_gpu_hour": {
      const { cost } = raw;
      const stated = field === "price" ? value : numberOf(value);
      raw["cost"] = { ...(typeof cost === "object" ? cost : {}), [field]: stated };
      return;
    }
    case "models":
      raw["models"] = value
        .split(",")
        .map((name) => name.trim())
        .filter((name) => name !== "");
      return;
    default:
      raw[field] = value;
  }
}

/** The number, or the text itself, which the schema then refuses with what stands there. */
function numberOf(value: string): number | string {
  return /^\d+(?:\.\d+)?$/.test(value) ? Number(value) : value;
}

/** A node behind which this gateway itself stands would send each request back until everything is full. */
function ownPort({ host, port }: Target, { data, admin }: NodeSurroundings): "data" | "admin" | null {
  for (const [name, { listen }] of [["data", data] as const, ["admin", admin] as const]) {
    if (port !== listen.port || port === 0) continue;
    const isWildcard = listen.host === "0.0.0.0" || listen.host === "::";
    if (host === listen.host || (isWildcard && isOwnAddress(host))) return name;
  }
  return null;
}

function isOwnAddress(host: string): boolean {
  if (isLoopback(host)) return true;
  return Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === host));
}
