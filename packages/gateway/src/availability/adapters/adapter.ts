/**
 * What ZML knows about one serving engine: how to tell it from others (`detect`), how to read what it says (`read`), how
 * it fails (`classify`), what it can do (`capabilities`). One file per engine, one object each, one shared test suite.
 * Adapters hold no state: the poller uses them on the control thread, `classify` runs in every worker.
 *
 * To add one: its file, its name in `ENGINES` of the configuration, its place in `index.ts` and in the order of
 * `detect.ts`, a test that runs `testing/adapter-suite.ts`.
 */

import type { AdapterVerdict, Endpoint } from "@zml/engine";
import type { EngineName } from "@zml/protocol";

/** One answer to a poll. */
export interface PollResponse {
  readonly status: number;
  readonly contentType: string | null;
  readonly body: string;
}

/** Answers of one round; null: not asked in this round, or not answered in time. */
export interface PollResponses {
  readonly health: PollResponse | null;
  readonly metrics: PollResponse | null;
  readonly models: PollResponse | null;
  /** By path: the facts, and what a detection asked. A path that is missing is as null. */
  readonly facts: Readonly<Record<string, PollResponse | null>>;
}

/**
 * Paths to poll; null where the engine has none. A path is below the node's URL, its prefix kept; `:8002/metrics` is on
 * another port of the same host.
 */
export interface Probes {
  /** 2xx: the node is ready. */
  readonly health: string;
  readonly metrics: string | null;
  /** Read in place of `metrics` while the node refuses that (404, 501). */
  readonly metricsFallback: string | null;
  readonly models: string | null;
  /** Asked in full rounds only (about every 30 s, and while the node is out): limits, context length, version. */
  readonly facts: readonly FactProbe[];
}

/** One path of facts. */
export interface FactProbe {
  readonly path: string;
  /** Longest wait for it, ms, where only a fast answer says something; default: as long as the round. */
  readonly waitMs?: number;
}

/** A model that a node reports. */
export interface ReportedModel {
  readonly id: string;
  /** Context length, tokens; NaN: not told. */
  readonly contextTokens: number;
  /** The base model when this is an adapter (LoRA) on it; null: none, or not told. */
  readonly parent: string | null;
  /** Reads images; null: not told. */
  readonly readsImages: boolean | null;
  /** Routed endpoints that it answers; null: not told. */
  readonly endpoints: readonly Endpoint[] | null;
}

/** A model as a node reports it, with what it says about it; the rest is unknown. */
export function reportedModel(id: string, known: Partial<Omit<ReportedModel, "id">> = {}): ReportedModel {
  return { id, contextTokens: Number.NaN, parent: null, readsImages: null, endpoints: null, ...known };
}

/** What a node says of one of its models, where several share a port. Every number is NaN when it does not say. */
export interface ModelLoad {
  readonly id: string;
  /** Requests. */
  readonly running: number;
  /** Requests. */
  readonly waiting: number;
  readonly generationTokensTotal: number;
}

/** What a node says about itself. Every number is NaN when it does not say. */
export interface NodeReading {
  /** The node takes requests. */
  readonly isReady: boolean;
  /** Requests. */
  readonly running: number;
  /** Requests. */
  readonly waiting: number;
  /** Requests that the node runs at once before it queues. */
  readonly concurrencyLimit: number;
  /** Requests, running and waiting, beyond which the node refuses. */
  readonly admissionLimit: number;
  /** KV cache in use, 0..1. */
  readonly kvUse: number;
  /** Free accelerator memory, GiB. */
  readonly freeMemoryGib: number;
  /** Tokens generated since the node's start; goes down when the node restarted. */
  readonly generationTokensTotal: number;
  /** Prompt tokens read since the node's start. */
  readonly promptTokensTotal: number;
  /** Tokens that still fit into the KV cache. */
  readonly kvHeadroomTokens: number;
  /** Requests that ended well since the node's start, whoever sent them. */
  readonly successesTotal: number;
  /** Requests that the node failed since its start, whoever sent them. */
  readonly errorsTotal: number;
  /** Load by model; null: the node has one model, or does not split its numbers. */
  readonly byModel: readonly ModelLoad[] | null;
  /** The engine's version as it writes it; null: not told. */
  readonly version: string | null;
  /** The platform that the engine was built for, lower case, such as `cuda` or `rocm`; null: not told. */
  readonly platform: string | null;
  /** Models that the node serves; null: it did not say. */
  readonly models: readonly ReportedModel[] | null;
}

/** First event with data of a streamed answer. */
export interface FirstEvent {
  readonly data: string;
  readonly event: string | null;
}

/** The part of an answer that is known at the commit point. */
export interface Answer {
  readonly status: number;
  readonly contentType: string | null;
  /** First bytes of the body, bounded by the caller; empty for streams. */
  readonly body: Buffer;
  /** Null for an answer that is no stream. */
  readonly firstEvent: FirstEvent | null;
}

/**
 * What an engine can do, where a model of it does not say (`ReportedModel`). For gates: they leave a node out only for
 * what it surely cannot do, so that unknown (null) never does.
 */
export interface Capabilities {
  /** Routed endpoints that it has; it surely lacks those that are not listed. Null: unknown. */
  readonly endpoints: readonly Endpoint[] | null;
  /** Its models may read images; null: unknown. */
  readonly readsImages: boolean | null;
  /** It answers 400 to members of a body that it does not know. */
  readonly refusesUnknownFields: boolean;
  /** It takes HTTP/2 with prior knowledge on its port; null: that depends on how it was started or built. */
  readonly speaksHttp2: boolean | null;
}

/**
 * How surely answers show an engine: `certain` by what only it says (names of metrics, routes of its own), `likely` by a
 * name that anything in front of it may repeat or make up (`owned_by`).
 */
export type Likeness = "certain" | "likely";

/** Knowledge of one serving engine. */
export interface Adapter {
  readonly name: EngineName;
  readonly probes: Probes;
  /** When `generationTokensTotal` moves: with every step, or when a request ends. */
  readonly countsTokensAt: "step" | "completion";
  /**
   * A model in the list shows that a request for it will be taken. Not so where the list is open to everybody while
   * inference asks for a key.
   */
  readonly provesModels: boolean;
  /** Paths that `detect` looks at, besides `/health`, `/metrics` and `/v1/models`: answers in `facts`. */
  readonly detectionPaths: readonly string[];
  /**
   * More paths of the load, asked in every round, by what the node said so far: answers in `facts`. For servers that tell
   * the load of each model on a path of its own.
   */
  loadPaths?(reading: NodeReading): readonly string[];
  /** Whether answers (of a detection, or of a round of any engine) show this engine; null: no. Never throws. */
  detect(responses: PollResponses): Likeness | null;
  /** Reads a round. What was not asked in this round (null) stays as in `previous`. Never throws. */
  read(responses: PollResponses, previous: NodeReading | null): NodeReading;
  /** What an answer means; null: nothing special, its status decides. Never throws. */
  classify(answer: Answer): AdapterVerdict | null;
  /** What the engine can do; null: nothing was read of it yet. Never throws. */
  capabilities(reading: NodeReading | null): Capabilities;
}

/** A reading of a node that says nothing. */
export const UNKNOWN_READING: NodeReading = Object.freeze({
  isReady: false,
  running: Number.NaN,
  waiting: Number.NaN,
  concurrencyLimit: Number.NaN,
  admissionLimit: Number.NaN,
  kvUse: Number.NaN,
  freeMemoryGib: Number.NaN,
  generationTokensTotal: Number.NaN,
  promptTokensTotal: Number.NaN,
  kvHeadroomTokens: Number.NaN,
  successesTotal: Number.NaN,
  errorsTotal: Number.NaN,
  byModel: null,
  version: null,
  platform: null,
  models: null,
});

/**
 * Depth at which a node takes no more, where the operator set nothing: what the engine admits, else what it runs at
 * once plus a quarter of that to wait. NaN: the engine tells neither.
 */
export function defaultMaxInFlight(reading: NodeReading): number {
  if (reading.admissionLimit >= 1) return Math.floor(reading.admissionLimit);
  return reading.concurrencyLimit >= 1 ? Math.ceil(reading.concurrencyLimit * 1.25) : Number.NaN;
}
