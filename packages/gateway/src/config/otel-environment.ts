/**
 * OpenTelemetry's own environment variables, as defaults of `telemetry.traces`: what the file says wins. A value that can't
 * be used is a warning and counts as absent, as their specification asks.
 */

import { type ConfigIssue, whyNotReceiverUrl } from "@zml/protocol";
import type { Environment } from "./resolve-secrets.ts";
import { Secret } from "./secret.ts";

const SAMPLERS: Readonly<Record<string, { sampler: string; ratio: number | null; keep_failed?: false }>> = {
  always_on: { sampler: "traceidratio", ratio: 1 },
  always_off: { sampler: "traceidratio", ratio: 0, keep_failed: false },
  traceidratio: { sampler: "traceidratio", ratio: null },
  parentbased_always_on: { sampler: "parentbased_traceidratio", ratio: 1 },
  parentbased_always_off: { sampler: "parentbased_traceidratio", ratio: 0, keep_failed: false },
  parentbased_traceidratio: { sampler: "parentbased_traceidratio", ratio: null },
};

export interface OtelDefaults {
  /** Keys of `telemetry.traces`, as in the file. */
  readonly traces: Readonly<Record<string, unknown>>;
  readonly warnings: readonly ConfigIssue[];
}

/** The first of these variables that has a value. */
function first(env: Environment, ...names: string[]): { name: string; value: string } | null {
  for (const name of names) {
    const value = env[name];
    if (value !== undefined && value !== "") return { name, value };
  }
  return null;
}

/** What the variables say of traces. Nothing without an endpoint, or when they turn the SDK or the exporter off. */
export function otelDefaults(env: Environment): OtelDefaults {
  const endpoint = first(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
  const isOff =
    env["OTEL_SDK_DISABLED"]?.toLowerCase() === "true" || (env["OTEL_TRACES_EXPORTER"] ?? "otlp") !== "otlp";
  const traces: Record<string, unknown> = {};
  const warnings: ConfigIssue[] = [];
  const warn = (name: string, message: string): void => {
    const path = ["telemetry", "traces"];
    const text = `the environment variable ${name} is not used: ${message}`;
    warnings.push({ path, at: "key", message: text, hint: "mend it, or say it under telemetry.traces" });
  };
  const service = first(env, "OTEL_SERVICE_NAME");
  if (service !== null) traces["service_name"] = service.value.slice(0, 256);
  const sampler = first(env, "OTEL_TRACES_SAMPLER");
  if (sampler !== null) {
    const known = Object.hasOwn(SAMPLERS, sampler.value) ? SAMPLERS[sampler.value] : undefined;
    if (known === undefined) warn(sampler.name, `expected one of ${Object.keys(SAMPLERS).join(", ")}`);
    else Object.assign(traces, known, { ratio: known.ratio ?? ratioOf(env, warn) });
  }
  const timeout = first(env, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
  if (timeout !== null) {
    const ms = Number(timeout.value);
    if (Number.isInteger(ms) && ms >= 1 && ms <= 600_000) traces["timeout_ms"] = ms;
    else warn(timeout.name, "expected a number of milliseconds from 1 to 600000");
  }
  if (endpoint === null || isOff) return { traces, warnings };
  const protocol = first(env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== null && protocol.value !== "http/protobuf") {
    warn(endpoint.name, `${protocol.name} asks for another protocol than http/protobuf, the only one here`);
    return { traces, warnings };
  }
  const why = whyNotReceiverUrl(endpoint.value);
  if (why === null) traces["endpoint"] = endpoint.value;
  else warn(endpoint.name, why);
  return { traces, warnings };
}

function ratioOf(env: Environment, warn: (name: string, message: string) => void): number {
  const given = first(env, "OTEL_TRACES_SAMPLER_ARG");
  if (given === null) return 1;
  const ratio = Number(given.value);
  if (ratio >= 0 && ratio <= 1) return ratio;
  warn(given.name, "expected a share from 0 to 1");
  return 1;
}

/** Headers of exports that the variables hold: `name=value` in turn, the values percent-encoded. */
export function otelHeaders(env: Environment): Map<string, Secret> {
  const headers = new Map<string, Secret>();
  const given = first(env, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
  for (const pair of given?.value.split(",") ?? []) {
    const [, name, value] = /^\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined || value === undefined) continue;
    const plain = decoded(value);
    if (/^[ -~]+$/.test(plain)) headers.set(name.toLowerCase(), new Secret(plain));
  }
  return headers;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** The values of a configuration with the defaults put in; the values themselves stay as they are. */
export function withOtelDefaults(value: object, { traces }: OtelDefaults): object {
  if (Object.keys(traces).length === 0) return value;
  const telemetry = mappingAt(value, "telemetry");
  if (telemetry === null) return value;
  const stated = mappingAt(telemetry, "traces");
  if (stated === null) return value;
  return { ...value, telemetry: { ...telemetry, traces: { ...traces, ...stated } } };
}

/** An absent mapping is an empty one; null: something else stands there. */
function mappingAt(value: object, key: string): object | null {
  const found: unknown = Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
  if (found === undefined) return {};
  return typeof found === "object" && found !== null && !Array.isArray(found) ? found : null;
}
