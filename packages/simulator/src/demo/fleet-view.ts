/** A node as the gateway's admin port tells it. Unknown numbers are NaN. */
export type NodeView = {
  readonly id: string;
  readonly family: string;
  readonly engine: string;
  readonly state: string;
  readonly depth: number;
  readonly inFlight: number;
  readonly tokensPerSecond: number;
  readonly healthScore: number;
  readonly usdPerHour: number;
};

const TIMEOUT_MS = 2000;

/** Reads `GET /admin/v1/fleet`. Rejects when the gateway doesn't answer within 2 s. */
export async function fetchFleet(adminUrl: string, signal: AbortSignal): Promise<readonly NodeView[]> {
  const response = await fetch(`${adminUrl}/admin/v1/fleet`, {
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  });
  const body: unknown = await response.json();
  if (!response.ok) throw new Error(`the gateway answered ${response.status} to GET /admin/v1/fleet`);
  return readFleet(body);
}

/** Picks what the demo shows out of a fleet report. */
export function readFleet(report: unknown): readonly NodeView[] {
  const nodes = isRecord(report) ? report["nodes"] : undefined;
  if (!Array.isArray(nodes)) throw new Error("the gateway's fleet report has no list of nodes");
  return nodes.filter(isRecord).map((node) => ({
    id: textOf(node["id"]),
    family: textOf(node["family"]),
    engine: textOf(node["engine"]),
    state: textOf(node["state"]),
    depth: numberOf(node["depth"]),
    inFlight: numberOf(node["in_flight"]),
    tokensPerSecond: numberOf(node["tokens_per_second"]),
    healthScore: numberOf(node["health_score"]),
    usdPerHour: numberOf(node["price_usd_per_hour"]),
  }));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NaN;
}
