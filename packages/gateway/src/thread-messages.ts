/** What the control thread and the data-plane workers say to each other. Everything here is structured-cloneable. */

import type { AttemptTiming, DirectoryUpdate } from "@zml/engine";
import type {
  Config,
  EngineName,
  FailoverConfig,
  LimitsConfig,
  NodeConfig,
  Scope,
  TimeoutsConfig,
} from "@zml/protocol";
import type { DecisionIds } from "./decision-id.ts";
import type { NodeTls } from "./http1/open-socket.ts";
import type { RequestBatch } from "./telemetry/request-observer.ts";

/** `workerData` of a worker. */
export interface WorkerStart {
  /** Index of the worker, 0-based: its columns of the fleet table. */
  worker: number;
  fleetTable: SharedArrayBuffer;
  evidenceRing: SharedArrayBuffer;
  evidenceRecords: number;
  limitsTable: SharedArrayBuffer;
  /** Null: nobody asks which node is warm (`limits.prefixes: 0`). */
  prefixTable: SharedArrayBuffer | null;
  /** Open connections of callers (`connection-counts.ts`). */
  connections: SharedArrayBuffer;
  /** See `telemetry/export-counts.ts`. */
  exportCounts: SharedArrayBuffer;
  /** Engine clock: milliseconds of the machine's monotonic clock at which it reads 0. */
  clockOriginMs: number;
  /** Seed of the worker's draws. */
  seed: number;
  /** What the ids of decisions are made with. */
  ids: DecisionIds;
}

/** A node as a worker dispatches to it. */
export interface WorkerNode {
  row: number;
  id: string;
  family: string;
  account: string;
  /** Without a slash at its end. */
  url: string;
  /** Serving engine, null: not detected yet. */
  engine: EngineName | null;
  /** The node's own key; callers' keys never reach it. */
  apiKey: string | null;
  timeouts: TimeoutsConfig;
  maxConnections: number;
  keepAliveMs: number;
  maxConnectionAgeMs: number;
  /** Its name in TLS and in the host field; null: the host of its url. */
  serverName: string | null;
  /** Its address may be link-local. */
  allowsLinkLocal: boolean;
  /** Null: the system's authorities, the host's name. */
  tls: NodeTls | null;
  httpVersion: "1.1" | "2";
  /** Limits of its connections, with HTTP/2. */
  http2: NodeConfig["http2"];
  /** Names under which the node serves models, where they differ from ours: model index → upstream name. */
  upstreamModels: Record<number, string>;
}

/** One value of a caller's key; the value itself stays in the control thread. A key that is rotated has two. */
export interface WorkerKey {
  name: string;
  account: string;
  scopes: readonly Scope[];
  /** Models that it may use; null: all of its account. */
  models: readonly string[] | null;
  /** Policies that its requests may run under; null: all. */
  policies: readonly string[] | null;
  /** Unix ms from which on it is refused; infinite: never. */
  expiresAtMs: number;
  /** See `config/key-digest.ts`. */
  digest: string;
  /** Row of the key in the limits table; -1: none. */
  limitRow: number;
  /** Index of its name in records; -1: it has none. */
  index: number;
}

/** All keys; an empty list: no key is asked. */
export interface WorkerKeys {
  /** What their digests are made with. */
  pepper: Uint8Array;
  list: readonly WorkerKey[];
  /** Rows of accounts in the limits table, by name. */
  accountRows: Readonly<Record<string, number>>;
}

/** What a TLS server needs, PEM. */
export interface ServerTls {
  cert: string;
  key: string;
  /** Authorities of callers' certificates; null: callers need none. */
  clientCa: string | null;
  minVersion: "1.2" | "1.3";
}

/** Numbers and switches of the data plane. A running request keeps those it started with. */
export interface WorkerSettings {
  /** Limits of the data port. */
  data: Omit<Config["data"], "listen" | "allowUnauthenticated" | "tls">;
  /** TLS of the data port; null: clear text. */
  tls: ServerTls | null;
  limits: LimitsConfig;
  timeouts: TimeoutsConfig;
  failover: FailoverConfig;
  /** What is noted of single requests. */
  observe: {
    /** Null: nothing is traced. */
    traces: {
      ratio: number;
      /** A caller's `traceparent` decides where there is one. */
      isParentBased: boolean;
      keepsFailed: boolean;
      clientAddress: boolean;
      queueSpans: number;
    } | null;
    /** Null: requests have no lines in the log. */
    accessLog: { ratio: number; keepsFailed: boolean; clientAddress: boolean; queueLines: number } | null;
  };
  /** Data-plane threads in all; a worker's share of process-wide allowances. */
  workers: number;
}

/** A version of the configuration, as far as it changed. */
export interface WorkerUpdate {
  kind: "update";
  version: number;
  directory?: DirectoryUpdate;
  nodes?: readonly WorkerNode[];
  /** Rows whose node left: no new attempts, running ones finish. */
  removeNodes?: readonly number[];
  settings?: WorkerSettings;
  keys?: WorkerKeys;
}

export type ToWorker =
  | WorkerUpdate
  /** Starts to listen, on these sockets of another gateway if there are any; answered by `listening` or `listen_failed`. */
  | { kind: "listen"; host: string; port: number; taken: readonly number[] }
  /** Refused polls took the node out: attempts on it that have not committed fail now. */
  | { kind: "node_down"; row: number }
  /** Stop accepting; running requests get `graceMs`; answered by `drained`. */
  | { kind: "drain"; graceMs: number; isTakenOver: boolean };

/** Numbers of `AttemptTiming`, in this order; `isPromptOnly` as 1 or 0. */
export const TIMING_FIELDS = [
  "depth",
  "own",
  "kvTokens",
  "aheadTokens",
  "plainTokens",
  "warmTokens",
  "firstMs",
  "tokenMs",
  "promisedMs",
  "outputTokens",
  "meanDepth",
  "meanKvTokens",
  "prefilledTokens",
  "isPromptOnly",
  "bookedPromptTokens",
  "freshTokens",
] as const satisfies readonly (keyof AttemptTiming)[];

/** Numbers per finished attempt, in this order, in one flat array (see `SAMPLE_FIELDS`). */
export const SAMPLE_FIELDS = [
  "row",
  "identity",
  "placement",
  "model",
  "outcome",
  "promptTokens",
  "outputTokens",
  "cachedTokens",
  "firstTokenMs",
  "durationMs",
  "policy",
  "family",
  /** What it took of its node, USD; NaN: the price is unknown. */
  "usd",
  /** Tokens that it made the node work for. */
  "workedTokens",
  ...TIMING_FIELDS.map((name) => `timing.${name}` as const),
] as const;

/** Numbers per finished request, in this order, in one flat array. Indexes are -1, times NaN, where there is none. */
export const REQUEST_FIELDS = [
  "policy",
  "model",
  "family",
  /** Index into `REASONS`. */
  "reason",
  /** Index into `ENDPOINTS`. */
  "endpoint",
  /** Index into `ENDINGS`. */
  "ending",
  /** Index into `ERROR_CODES`. */
  "code",
  /** HTTP status that was told; 0: none. */
  "status",
  "dispatches",
  "decideMs",
  "waitedMs",
  "firstTokenMs",
  "tokensMs",
  "promptTokens",
  "outputTokens",
  "durationMs",
] as const;

export type FromWorker =
  /** The version is in force for new requests of this worker. */
  | { kind: "applied"; version: number }
  /** `fd`: descriptor of its listening socket; null: it can't be told. */
  | { kind: "listening"; port: number; fd: number | null }
  | { kind: "listen_failed"; message: string }
  /** What finished since the last message: `SAMPLE_FIELDS` per attempt; NaN: unknown; `outcome` indexes `OUTCOMES`. */
  | { kind: "samples"; samples: Float64Array }
  /** Requests that ended since the last message: `REQUEST_FIELDS` per request, and how many more there were. */
  | { kind: "requests"; requests: Float64Array; dropped: number }
  /** Requests that ended and are told of one by one. */
  | { kind: "observed"; batch: RequestBatch }
  | {
      kind: "log";
      level: "debug" | "info" | "warn" | "error";
      message: string;
      fields: Record<string, string | number>;
    }
  | { kind: "drained"; interrupted: number }
  /** An exception that nobody caught: the thread ends. */
  | { kind: "dying"; error: string };
