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

const TIMEOUT_MS = 5000;
const TRIES = 3;

/**
 * Reads `GET /admin/v1/fleet`. A machine that stands still for seconds (a lid that was closed, a test run beside) must not
 * end a demo: a silent gateway is asked three times. One that ended is seen by its process.
 *
 * @param timeoutMs how long one answer may take, ms.
 */
export async function fetchFleet(
  adminUrl: string,
  signal: AbortSignal,
  timeoutMs: number = TIMEOUT_MS,
): Promise<readonly NodeView[]> {
  for (let tries = 1; ; tries += 1) {
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      return await askFleet(adminUrl, AbortSignal.any([signal, timeout]));
    } catch (error) {
      if (signal.aborted || !timeout.aborted) throw error;
      if (tries === TRIES) {
        throw new Error(
          `the gateway was silent to GET /admin/v1/fleet, ${TRIES} times for ${timeoutMs} ms: ` +
            "stop what else keeps this machine busy, and start the demo again",
        );
      }
    }
  }
}

async function askFleet(adminUrl: string, signal: AbortSignal): Promise<readonly NodeView[]> {
  const response = await fetch(`${adminUrl}/admin/v1/fleet`, { signal });
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
