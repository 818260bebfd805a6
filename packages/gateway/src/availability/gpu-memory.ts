/**
 * Free memory of a node by the GPU exporter beside it: asked for itself, with a deadline of its own, so that an exporter
 * that is slow, gone or broken neither delays nor fails the node's poll.
 */

import type { GpuExporterConfig } from "@zml/protocol";
import { readGpuMemory } from "./adapters/gpu-exporter.ts";
import { isOk } from "./adapters/poll-answers.ts";
import { PollError, type PollFault, type PollFetch } from "./poll-fetch.ts";

/** DCGM looks at its GPUs every 30 s by default, and several nodes may share one exporter. */
const ASK_EVERY_MS = 10_000;

/** Two of DCGM's looks and what our own question may be late. */
const KEPT_MS = 90_000;

const DEADLINE_MS = 4_000;

/** Why there is no answer: no connection, an answer that is no 2xx, or no GPU on the page that is the node's. */
export type GpuMemoryFault = PollFault | "bad_status" | "no_match" | "unknown_value";

/** What a question needs. */
export interface GpuMemorySources {
  readonly fetch: PollFetch;
  /** Engine clock, ms. */
  readonly nowMs: () => number;
  /** Runs `callback` after `delayMs`; returns what cancels it. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  readonly allowsLinkLocal: boolean;
}

/** See the head of this file. One per node. */
export class GpuMemory {
  readonly exporter: GpuExporterConfig;
  #freeGib = Number.NaN;
  #knownAtMs = Number.NaN;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #running: AbortController | null = null;
  #fault: GpuMemoryFault | null = null;

  constructor(exporter: GpuExporterConfig) {
    this.exporter = exporter;
  }

  /** Why the last question brought nothing; null: it did, or none was asked. */
  get fault(): GpuMemoryFault | null {
    return this.#fault;
  }

  /** GiB; NaN: unknown, or too old. */
  freeGib(nowMs: number): number {
    return nowMs - this.#knownAtMs <= KEPT_MS ? this.#freeGib : Number.NaN;
  }

  /** Asks unless a question runs or the last one is young. Never rejects; nobody needs to wait for it. */
  async ask({ fetch, nowMs, after, allowsLinkLocal }: GpuMemorySources): Promise<void> {
    if (this.#running !== null || nowMs() - this.#askedAtMs < ASK_EVERY_MS) return;
    this.#askedAtMs = nowMs();
    const abort = new AbortController();
    this.#running = abort;
    const cancel = after(DEADLINE_MS, () => abort.abort());
    const { origin, pathname, search } = new URL(this.exporter.url);
    try {
      // the node's key is not for others
      const headers = { accept: "*/*", "user-agent": "zml" };
      const response = await fetch({ origin, path: pathname + search, headers, signal: abort.signal, allowsLinkLocal });
      this.#take(isOk(response) ? response.body : null, nowMs());
    } catch (error) {
      this.#fault = error instanceof PollError ? error.fault : "reset";
    } finally {
      cancel();
      this.#running = null;
    }
  }

  /** Ends a question that runs. */
  stop(): void {
    this.#running?.abort();
  }

  #take(page: string | null, nowMs: number): void {
    if (page === null) {
      this.#fault = "bad_status";
      return;
    }
    const { freeGib, gpus } = readGpuMemory(page, this.exporter);
    // an empty page is what an exporter shows while it reloads
    if (Number.isNaN(freeGib)) this.#fault = gpus === 0 ? "no_match" : "unknown_value";
    else {
      this.#fault = null;
      this.#freeGib = freeGib;
      this.#knownAtMs = nowMs;
    }
  }
}
