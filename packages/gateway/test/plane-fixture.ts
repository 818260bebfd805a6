/** A data plane on the test's own thread: real sockets on both sides, the fleet table filled by hand. */

import {
  applyUpdate,
  createEvidenceRing,
  createFleetTable,
  createLimitsTable,
  createPrefixTable,
  type Endpoint,
  type EvidenceRing,
  type FleetTable,
  type PolicyData,
  takeModelRow,
  takeNodeRow,
  takePlacementRow,
  writeCapabilities,
} from "@zml/engine";
import { type Config, completeConfig, configFileSchema } from "@zml/protocol";
import { createClock, monotonicMs } from "../src/clock.ts";
import { keyDigest, PROCESS_PEPPER } from "../src/config/key-digest.ts";
import { createConnectionCounts } from "../src/connection-counts.ts";
import { observeSettings } from "../src/control/worker-view.ts";
import { DataPlane } from "../src/data-plane.ts";
import { DataServer } from "../src/data-server.ts";
import { OutcomeSamples } from "../src/failover/outcome-samples.ts";
import { ExportCounts } from "../src/telemetry/export-counts.ts";
import { type RequestBatch, RequestObserver } from "../src/telemetry/request-observer.ts";
import { RequestSamples } from "../src/telemetry/request-samples.ts";
import type { ServerTls, WorkerKey, WorkerKeys, WorkerNode } from "../src/thread-messages.ts";
import { h2Fetch } from "./h2-fetch.ts";

/** A node of the fixture. */
export interface FixtureNode {
  id: string;
  url: string;
  family?: string;
  engine?: WorkerNode["engine"];
  maxInFlight?: number;
  priceUsdPerHour?: number;
  tokensPerSecond?: number;
  contextTokens?: number;
  readsImages?: boolean;
  endpoints?: readonly Endpoint[];
  apiKey?: string;
  upstreamModel?: string;
  keepAliveMs?: number;
  maxConnections?: number;
  maxConnectionAgeMs?: number;
  tls?: WorkerNode["tls"];
  httpVersion?: WorkerNode["httpVersion"];
  http2?: Partial<WorkerNode["http2"]>;
}

/** A key as a caller sends it, with what it may do. */
export type FixtureKey = Pick<WorkerKey, "name"> & { value: string } & Partial<Omit<WorkerKey, "digest">>;

/** Keys as a worker gets them. */
export function fixtureKeys(keys: readonly FixtureKey[]): WorkerKeys {
  const list = keys.map(({ value, ...key }): WorkerKey => {
    const rights = {
      account: "default",
      scopes: ["infer" as const],
      models: null,
      policies: null,
      limitRow: -1,
      index: -1,
    };
    return { ...rights, expiresAtMs: Number.POSITIVE_INFINITY, ...key, digest: keyDigest(PROCESS_PEPPER, value) };
  });
  return { pepper: PROCESS_PEPPER, list, accountRows: { default: 0 } };
}

export interface PlaneFixture {
  url: string;
  port: number;
  table: FleetTable;
  ring: EvidenceRing;
  plane: DataPlane;
  server: DataServer;
  logs: string[];
  samples: Float64Array[];
  /** Requests that were noted one by one, as far as they left. */
  observed: RequestBatch[];
  /** Sum of the in-flight counts of all rows. */
  inFlight(): number;
  /** Resolves when nothing is in flight, every body is released and nobody is parked. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}

export const FIXTURE_MODEL = "llama3-8b";

/** Parses sections of a configuration file, with every default. */
function fixtureConfig(file: Record<string, unknown>): Config {
  return completeConfig(configFileSchema.parse(file), { cores: 2 });
}

/** Starts a data plane with these nodes, all healthy, and one policy for all of them. */
export async function startPlane(
  nodes: readonly FixtureNode[],
  options: {
    file?: Record<string, unknown>;
    policy?: Partial<PolicyData>;
    keys?: readonly FixtureKey[];
    /** Records of the evidence ring, a power of two. */
    records?: number;
    tls?: ServerTls;
  } = {},
): Promise<PlaneFixture> {
  const config = fixtureConfig({ failover: { cooldown_ms: 500 }, ...options.file });
  const table = createFleetTable({ nodes: Math.max(8, nodes.length), workers: 1 });
  const ring = createEvidenceRing(options.records ?? 256);
  // row 0 is the account's, the others are for keys that name one
  const limits = createLimitsTable({ rows: 8, workers: 1 });
  const logs: string[] = [];
  const samples: Float64Array[] = [];
  const requests: Float64Array[] = [];
  const observed: RequestBatch[] = [];
  const plane = new DataPlane({
    table,
    worker: 0,
    ring,
    limits,
    prefixes: config.limits.prefixes === 0 ? null : createPrefixTable({ entries: 1_024, key: 5 }),
    clock: createClock(monotonicMs() - 1000),
    samples: new OutcomeSamples((values) => samples.push(values)),
    connections: createConnectionCounts(1, Math.random),
    requests: new RequestSamples((values) => requests.push(values)),
    observer: new RequestObserver({
      counts: new ExportCounts(),
      send: (batch) => observed.push(batch),
      settings: observeSettings(config.telemetry),
    }),
    log: (level, message, fields) => logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
    settings: {
      data: config.data,
      tls: options.tls ?? null,
      limits: config.limits,
      timeouts: config.timeouts,
      failover: config.failover,
      observe: observeSettings(config.telemetry),
      workers: 1,
    },
    seed: 1,
    ids: { unixOriginMs: Date.now() - 1000, tail: 1 },
  });
  const families = [...new Set(nodes.map((node) => node.family ?? "H100"))];
  const familyOf = (node: FixtureNode): number => families.indexOf(node.family ?? "H100");
  takeModelRow(table, 0);
  nodes.forEach((node, row) => {
    takeNodeRow(table, row, {
      family: familyOf(node),
      identity: row,
      maxInFlight: node.maxInFlight ?? 256,
      cooldownMs: config.failover.cooldownMs,
      priceUsdPerHour: node.priceUsdPerHour ?? 2,
    });
    table.goodPolls[row] = 1;
    takePlacementRow(table, row);
    if (node.tokensPerSecond !== undefined) table.tokensPerSecond[row] = node.tokensPerSecond;
    writeCapabilities(table, row, {
      contextTokens: node.contextTokens ?? Number.NaN,
      readsImages: node.readsImages ?? null,
      endpoints: node.endpoints ?? null,
    });
    plane.setNode({
      row,
      id: node.id,
      family: node.family ?? "H100",
      account: "default",
      url: node.url,
      engine: node.engine ?? "vllm",
      apiKey: node.apiKey ?? null,
      timeouts: config.timeouts,
      maxConnections: node.maxConnections ?? 64,
      keepAliveMs: node.keepAliveMs ?? 4000,
      maxConnectionAgeMs: node.maxConnectionAgeMs ?? 300_000,
      serverName: null,
      allowsLinkLocal: false,
      tls: node.tls ?? null,
      httpVersion: node.httpVersion ?? "1.1",
      http2: { maxStreams: 256, streamWindowBytes: 2 ** 18, pingMs: 15_000, ...node.http2 },
      upstreamModels: node.upstreamModel === undefined ? {} : { 0: node.upstreamModel },
    });
  });
  const base: PolicyData = {
    account: "default",
    name: "p",
    index: 1,
    chain: families.map((_, family) => ({ family, priority: family + 1 })),
    latencyTargetMs: Number.NaN,
    ttftTargetMs: Number.NaN,
    tokenTargetMs: Number.NaN,
    costPriority: "latency",
    estimator: "simple",
    queueOnSaturation: false,
    maxQueueMs: 30_000,
    acceptableWaiting: 4,
  };
  applyUpdate(plane.directory, {
    version: 1,
    families,
    accounts: [
      {
        name: "default",
        index: 0,
        defaultPolicy: null,
        isCatalogComplete: true,
        builtIn: { ...base, name: "zml-default", index: 0, costPriority: "balanced" },
      },
    ],
    policies: [{ ...base, ...options.policy }],
    models: [
      {
        account: "default",
        name: FIXTURE_MODEL,
        index: 0,
        policy: "p",
        isRegistered: true,
        rows: Int32Array.from(nodes.keys()),
        placements: Int32Array.from(nodes.keys()),
        families: Int32Array.from(nodes, familyOf),
      },
    ],
  });
  if (options.keys !== undefined) plane.setKeys(fixtureKeys(options.keys));
  const server = new DataServer(plane);
  const { port } = await server.listen("127.0.0.1", 0);
  const inFlight = (): number => table.total.inFlight.reduce((sum, count) => sum + count, 0);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    table,
    ring,
    plane,
    server,
    logs,
    samples,
    observed,
    inFlight,
    settled: () => until(() => inFlight() === 0 && server.runningCount === 0 && table.cells.every(isCellAtRest)),
    async stop() {
      await server.drain(100);
      plane.destroy();
    },
  };

  function isCellAtRest(value: number, cell: number): boolean {
    return cell < 4 || cell > 7 || cell === 6 || value === 0;
  }
}

/** Waits until a claim holds; fails after fifteen seconds, so that a test never hangs on it. */
export async function until(claim: () => boolean, what = "the claim"): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (!claim()) {
    if (performance.now() > deadline) throw new Error(`${what} did not come true within 15 s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** HTTP/1.1, or HTTP/2 where the same tests run again over it (`h2-parity.test.ts`). */
const send: (url: string, init: RequestInit) => Promise<Response> =
  process.env.ZML_TEST_HTTP_VERSION === "2" ? h2Fetch : fetch;

/** Posts a chat request. */
export function chat(url: string, body: Record<string, unknown> = {}, init: RequestInit = {}): Promise<Response> {
  return send(`${url}/v1/chat/completions`, {
    method: "POST",
    ...init,
    headers: { "content-type": "application/json", ...init.headers },
    body: JSON.stringify({
      model: FIXTURE_MODEL,
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 8,
      ...body,
    }),
  });
}

/** The error of an answer in OpenAI's shape. */
export async function errorOf(
  response: Response,
): Promise<{ code: string; type: string; message: string; families?: unknown }> {
  const { error } = (await response.json()) as { error: { code: string; type: string; message: string } };
  return error;
}
