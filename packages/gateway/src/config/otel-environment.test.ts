import assert from "node:assert/strict";
import { test } from "node:test";
import type { Config } from "@zml/protocol";
import { readConfig } from "./read-config.ts";

const SECRET = "Bearer otlp-secret-1234";

function read(text: string, env: Record<string, string>) {
  const { config, secrets, errors, warnings } = readConfig(text, { fileName: "zml.yaml", env, cores: 2 });
  assert.deepEqual(errors, []);
  assert.ok(config !== undefined);
  return { traces: config.telemetry.traces, secrets, warnings: warnings.map(({ message }) => message) };
}

function pick({ endpoint, serviceName, sampler, ratio, keepFailed, timeoutMs }: Config["telemetry"]["traces"]) {
  return { endpoint, serviceName, sampler, ratio, keepFailed, timeoutMs };
}

const EMPTY = "workers: 1\n";
const DEFAULTS = {
  endpoint: null,
  serviceName: "zml",
  sampler: "parentbased_traceidratio",
  ratio: 0.01,
  keepFailed: true,
  timeoutMs: 10_000,
};

test("without variables and without an endpoint nothing is traced", () => {
  assert.deepEqual(pick(read(EMPTY, {}).traces), DEFAULTS);
});

test("OpenTelemetry's variables are defaults, and the file wins", () => {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318",
    OTEL_SERVICE_NAME: "edge",
    OTEL_TRACES_SAMPLER: "traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.5",
    OTEL_EXPORTER_OTLP_TIMEOUT: "2000",
  };
  const given = { endpoint: "http://collector:4318", serviceName: "edge", sampler: "traceidratio", ratio: 0.5 };
  assert.deepEqual(pick(read(EMPTY, env).traces), { ...DEFAULTS, ...given, timeoutMs: 2000 });
  const file = "telemetry: { traces: { ratio: 0.25, endpoint: http://other:4318 } }\n";
  const { endpoint, ratio, serviceName } = read(file, env).traces;
  assert.deepEqual(
    { endpoint, ratio, serviceName },
    { endpoint: "http://other:4318", ratio: 0.25, serviceName: "edge" },
  );
});

test("each sampler of the specification is understood", () => {
  const samplerOf = (name: string) => {
    const { sampler, ratio, keepFailed } = read(EMPTY, { OTEL_TRACES_SAMPLER: name }).traces;
    return [sampler, ratio, keepFailed];
  };
  assert.deepEqual(samplerOf("always_on"), ["traceidratio", 1, true]);
  assert.deepEqual(samplerOf("always_off"), ["traceidratio", 0, false]);
  assert.deepEqual(samplerOf("traceidratio"), ["traceidratio", 1, true]);
  assert.deepEqual(samplerOf("parentbased_always_on"), ["parentbased_traceidratio", 1, true]);
  assert.deepEqual(samplerOf("parentbased_always_off"), ["parentbased_traceidratio", 0, false]);
});

test("a variable that can't be used is a warning, and counts as absent", () => {
  const wrong = {
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://user:hunter2hunter2@collector:4318",
    OTEL_TRACES_SAMPLER: "jaeger_remote",
    OTEL_EXPORTER_OTLP_TIMEOUT: "soon",
  };
  const { traces, warnings } = read(EMPTY, wrong);
  assert.deepEqual(pick(traces), DEFAULTS);
  assert.equal(warnings.length, 3);
  assert.doesNotMatch(warnings.join(), /hunter2/);
  const grpc = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4317", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
  assert.equal(read(EMPTY, grpc).traces.endpoint, null);
  assert.match(read(EMPTY, grpc).warnings.join(), /another protocol than http\/protobuf/);
  const arg = { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "7" };
  assert.equal(read(EMPTY, arg).traces.ratio, 1);
});

test("the SDK's own switches turn the environment's endpoint off", () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
  assert.equal(read(EMPTY, { ...env, OTEL_SDK_DISABLED: "true" }).traces.endpoint, null);
  assert.equal(read(EMPTY, { ...env, OTEL_TRACES_EXPORTER: "none" }).traces.endpoint, null);
  assert.equal(read(EMPTY, { ...env, OTEL_TRACES_EXPORTER: "otlp" }).traces.endpoint, "http://collector:4318");
});

test("headers come from variables of both kinds, and stay secrets", () => {
  const env = { OTEL_EXPORTER_OTLP_HEADERS: "x-team=a%20b, Authorization=Bearer%20env-token", OTLP_TOKEN: SECRET };
  const file = "telemetry: { traces: { headers: [{ name: authorization, value_env: OTLP_TOKEN }] } }\n";
  const { secrets } = read(file, env);
  const shown = [...secrets.traceHeaders].map(([name, value]) => [name, value.reveal()]);
  assert.deepEqual(Object.fromEntries(shown), { "x-team": "a b", authorization: SECRET });
  assert.doesNotMatch(JSON.stringify([...secrets.traceHeaders]), /otlp-secret/);
});

test("a header's variable that is missing, empty or no header value is an error that tells no value", () => {
  const file = "telemetry: { traces: { headers: [{ name: authorization, value_env: OTLP_TOKEN }] } }\n";
  for (const env of [{}, { OTLP_TOKEN: "" }, { OTLP_TOKEN: "top\nsecret-value" }]) {
    const { errors } = readConfig(file, { fileName: "zml.yaml", env, cores: 2 });
    assert.equal(errors.length, 1);
    assert.equal(errors[0]?.path, "telemetry.traces.headers[0].value_env");
    assert.doesNotMatch(JSON.stringify(errors), /secret-value/);
  }
});

test("what can't be the endpoint of a receiver is refused, without its credentials", () => {
  for (const url of ["collector:4318", "ftp://c", "http://u:hunter2@c", "http://c/?token=hunter2", "c", "3"]) {
    const { errors } = readConfig(`telemetry: { traces: { endpoint: "${url}" } }\n`, {
      fileName: "f",
      env: {},
      cores: 2,
    });
    assert.equal(errors.length, 1, url);
    assert.doesNotMatch(JSON.stringify(errors), /hunter2/);
  }
});
