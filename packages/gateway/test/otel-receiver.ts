/** The OpenTelemetry Collector's own OTLP receiver as a process: what a gateway's traces are shown to. Needs Go. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Owner } from "./control-fixture.ts";

const SOURCE = fileURLToPath(new URL("./otel-receiver/", import.meta.url));
const BINARY = fileURLToPath(new URL("../../../node_modules/.cache/zml/otel-receiver", import.meta.url));
/** The first build compiles some 400 packages: 40 s of two cores that have nothing else to do. Later ones link. */
const BUILD_MS_MAX = 540_000;
const READY_MS_MAX = 20_000;

/** A span as OTLP JSON tells it, attributes as a plain object. */
export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly kind: number;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly events: readonly string[];
  /** 2: error. */
  readonly status: number;
  readonly resource: Readonly<Record<string, string | number | boolean>>;
}

export interface OtelReceiver {
  /** Base URL. */
  readonly endpoint: string;
  readonly port: number;
  spans(): readonly ReceivedSpan[];
  /** Everything that it printed. */
  text(): string;
  stop(): Promise<void>;
}

/** Builds the program. @returns why it can't be had; null: it is there. */
export async function buildOtelReceiver(): Promise<string | null> {
  // unoptimised: compiling takes half as long, and the tests send it a few hundred spans
  const args = ["build", "-trimpath", "-gcflags=all=-N -l", "-ldflags=-s -w", "-o", BINARY, "."];
  try {
    await promisify(execFile)("go", args, {
      cwd: SOURCE,
      timeout: BUILD_MS_MAX,
      env: { ...process.env, GOWORK: "off" },
    });
    return null;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") {
      return "Go is not installed: the OpenTelemetry Collector can't be built (https://go.dev/dl, 1.26 or newer)";
    }
    throw error;
  }
}

/** Starts it; it goes with the test. @param port 0: the system chooses. */
export async function startOtelReceiver(t: Owner, port = 0): Promise<OtelReceiver> {
  const at = port === 0 ? await freePort() : port;
  const child = spawn(BINARY, [`127.0.0.1:${at}`], { stdio: ["ignore", "pipe", "inherit"] });
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await closed;
  };
  t.after(stop);
  const lines: string[] = [];
  const ready = Promise.withResolvers<void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (line === "ready") ready.resolve();
    else lines.push(line);
  });
  const timer = setTimeout(() => ready.reject(new Error("the OTLP receiver did not come up")), READY_MS_MAX);
  child.once("exit", () => ready.reject(new Error("the OTLP receiver ended")));
  await ready.promise;
  clearTimeout(timer);
  return {
    endpoint: `http://127.0.0.1:${at}`,
    port: at,
    spans: () => lines.flatMap(spansOf),
    text: () => lines.join("\n"),
    stop,
  };
}

async function freePort(): Promise<number> {
  const { createServer } = await import("node:net");
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return address.port;
}

interface OtlpAttribute {
  key: string;
  value: { stringValue?: string; intValue?: string; doubleValue?: number; boolValue?: boolean };
}

interface OtlpSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes?: OtlpAttribute[];
  events?: { name: string }[];
  status?: { code?: number };
}

function spansOf(line: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(line) as {
    resourceSpans: { resource: { attributes?: OtlpAttribute[] }; scopeSpans: { spans: OtlpSpan[] }[] }[];
  };
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        name: span.name,
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? "",
        traceState: span.traceState ?? "",
        kind: span.kind,
        startNs: BigInt(span.startTimeUnixNano),
        endNs: BigInt(span.endTimeUnixNano),
        attributes: plain(span.attributes),
        events: (span.events ?? []).map(({ name }) => name),
        status: span.status?.code ?? 0,
        resource: plain(resource.attributes),
      })),
    ),
  );
}

function plain(attributes: readonly OtlpAttribute[] = []): Record<string, string | number | boolean> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue),
    ]),
  );
}
