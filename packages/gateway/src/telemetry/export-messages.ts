/** What the control thread and the export thread say to each other. */

import type { LogFormat } from "./log-lines.ts";
import type { RequestBatch } from "./request-observer.ts";

/** `workerData` of the export thread. */
export interface ExportThreadStart {
  /** See `export-counts.ts`. */
  readonly counts: SharedArrayBuffer;
  /** Unix ms of engine time 0. */
  readonly unixOriginMs: number;
  readonly productVersion: string;
}

/** Where traces go. */
export interface TraceTarget {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  readonly batchSpans: number;
  readonly exportEveryMs: number;
  readonly timeoutMs: number;
  readonly queueSpans: number;
}

export interface ExportSettings {
  /** Null: nothing is traced. */
  readonly traces: TraceTarget | null;
  readonly format: LogFormat;
  /** Values that may stand in nothing that leaves. */
  readonly secrets: readonly string[];
}

export type ToExportThread =
  | { readonly kind: "configure"; readonly settings: ExportSettings }
  | { readonly kind: "observed"; readonly batch: RequestBatch }
  /** Everything out that leaves within so long; answered by `ended`. */
  | { readonly kind: "end"; readonly withinMs: number };

export type FromExportThread =
  /** Lines of the access log, secrets taken out. */
  | { readonly kind: "lines"; readonly text: string; readonly count: number }
  /** An export ended; `error` null: the receiver has the spans. */
  | { readonly kind: "exported"; readonly spans: number; readonly error: string | null }
  | { readonly kind: "ended" };
