import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatProblems } from "./config-problem.ts";
import { readConfig } from "./read-config.ts";
import type { Environment } from "./resolve-secrets.ts";

function read(text: string, env: Environment = {}) {
  return readConfig(text, { fileName: "/etc/zml/zml.yaml", env, cores: 4 });
}

function errorsOf(source: string, top = "", env?: Environment): string[] {
  const { errors } = read(`${top}discovery:\n  sources:\n    - ${source}\n`, env);
  return formatProblems(errors)
    .split("\n")
    .map((line) => line.replace(/^\S+ /, ""));
}

function warningsOf(text: string): string[] {
  const { errors, warnings } = read(text);
  assert.deepEqual(errors, []);
  return warnings.map(({ message }) => message);
}

const AT = "discovery.sources[0]";
const DNS = "name: s, kind: dns, hostname: pool.test, port: 1, node: { family: F }";

describe("a source has the keys of its kind", () => {
  for (const [what, source, problem] of [
    ["no hostname", "{ name: s, kind: dns, port: 1, node: { family: F } }", `${AT}: a source of dns needs hostname`],
    ["no paths", "{ name: s, kind: file_sd, node: {} }", `${AT}: a source of file_sd needs paths`],
    [
      "paths for DNS",
      `{ ${DNS}, paths: [x] }`,
      `${AT}.paths: paths means nothing to dns: take it out; it takes hostname, record, port, servers`,
    ],
    [
      "labels for DNS",
      `{ ${DNS}, labels: { family: x } }`,
      `${AT}.labels: labels means nothing to dns: take it out; it takes hostname, record, port, servers`,
    ],
    [
      "addresses without a port",
      "{ name: s, kind: dns, hostname: x, node: { family: F } }",
      `${AT}: addresses of a name have no port: the source needs port: or record: srv`,
    ],
    ["SRV with a port", `{ ${DNS}, record: srv }`, `${AT}.port: SRV records name the ports themselves: take port out`],
    [
      "neither service nor pods",
      "{ name: s, kind: kubernetes, node: { family: F } }",
      `${AT}: expected service or pod_selector, got neither`,
    ],
    [
      "both",
      "{ name: s, kind: kubernetes, service: a, pod_selector: b, node: { family: F } }",
      `${AT}: expected service or pod_selector, got both`,
    ],
    [
      "two ports",
      "{ name: s, kind: kubernetes, service: a, port: 1, port_name: b, node: { family: F } }",
      `${AT}.port_name: port and port_name both choose the port: keep one of them`,
    ],
    [
      "a context of nothing",
      "{ name: s, kind: kubernetes, service: a, context: b, node: { family: F } }",
      `${AT}.context: context belongs to a kubeconfig: name the file in kubeconfig`,
    ],
    [
      "an unknown kind",
      "{ name: s, kind: consul, node: { family: F } }",
      `${AT}.kind: expected one of dns, file_sd, kubernetes, got "consul"`,
    ],
    ["a slip", `{ ${DNS}, refresh: 1 }`, `${AT}.refresh: unknown key "refresh": did you mean refresh_ms?`],
    [
      "a URL for a name",
      "{ name: s, kind: dns, hostname: 'http://x', port: 1, node: { family: F } }",
      `${AT}.hostname: expected a DNS name such as vllm.example.net, got "http://x"`,
    ],
    [
      "a server by name",
      `{ ${DNS}, servers: [dns.test] }`,
      `${AT}.servers[0]: expected ADDRESS or ADDRESS:PORT such as 10.0.0.2:53, got "dns.test"`,
    ],
    [
      "a pattern in the middle",
      "{ name: s, kind: file_sd, paths: ['*/a.json'], node: {} }",
      `${AT}.paths[0]: * and ? stand in the last part of a path only, got "*/a.json"`,
    ],
    [
      "a namespace of other characters",
      "{ name: s, kind: kubernetes, service: a, namespaces: [A_B], node: { family: F } }",
      `${AT}.namespaces[0]: expected a namespace of at most 63 characters out of a-z 0-9 -, got "A_B"`,
    ],
    [
      "a path that leads elsewhere",
      `{ ${DNS}, path: "/a?x=1" }`,
      `${AT}.path: expected a path such as /serve, got "/a?x=1"`,
    ],
    [
      "the name of the file's own nodes",
      `{ ${DNS.replace("name: s", "name: file")} }`,
      `${AT}.name: file and api are what nodes of this file and of the admin API are called`,
    ],
  ] as const) {
    test(what, () => assert.deepEqual(errorsOf(source), [problem]));
  }

  test("each name is there once", () => {
    assert.match(
      errorsOf(`{ ${DNS} }\n    - { ${DNS} }`).join(),
      /lines 3 and 4 both declare the source "s": rename one/,
    );
  });
});

describe("the template is checked as the nodes of the file are", () => {
  for (const [what, source, problem] of [
    ["an id", `{ ${DNS.replace("family: F", "family: F, id: x")} }`, /node\.id: unknown key "id"/],
    [
      "a number",
      `{ ${DNS.replace("family: F", "family: F, gpus: 0")} }`,
      /node\.gpus: expected a whole number of at least 1, got 0/,
    ],
    [
      "an account",
      `{ ${DNS.replace("family: F", "family: F, account: x")} }`,
      /node\.account: there is no account "x"/,
    ],
    [
      "a price feed",
      `{ ${DNS.replace("family: F", "family: F, cost: { price: a/b/c/spot }")} }`,
      /node\.cost\.price: there is no price feed "a"/,
    ],
    ["a model twice", `{ ${DNS.replace("family: F", "family: F, models: [m, m]")} }`, /give this node the model "m"/],
    [
      "custom",
      `{ ${DNS.replace("family: F", "family: F, custom: {}")} }`,
      /node\.custom: the section custom belongs to nodes with engine: custom/,
    ],
    [
      "a key that is not set",
      `{ ${DNS.replace("family: F", "family: F, api_key_env: NODE_KEY")} }`,
      /node\.api_key_env: the environment variable NODE_KEY is not set/,
    ],
    [
      "one metrics page for all",
      `{ ${DNS.replace("family: F", 'family: F, metrics_url: "http://h:1/metrics"')} }`,
      /node\.metrics_url: the nodes of a source are on several hosts.*write \{host\}/,
    ],
    [
      "one exporter for all",
      `{ ${DNS.replace("family: F", 'family: F, gpu_exporter: { url: "http://h:1/m" }')} }`,
      /node\.gpu_exporter\.url: the nodes of a source are on several hosts/,
    ],
    [
      "no family",
      `{ ${DNS.replace("family: F", "")} }`,
      /node: nobody says the family of its nodes: name it in node\.family/,
    ],
    [
      "no family and no label for it",
      "{ name: s, kind: kubernetes, service: a, labels: { gpus: x }, node: {} }",
      /node: nobody says the family/,
    ],
  ] as const) {
    test(what, () => {
      const errors = errorsOf(source);
      assert.equal(errors.length, 1, errors.join("\n"));
      assert.match(errors[0] ?? "", problem);
    });
  }
});

describe("a valid source", () => {
  const sourceOf = (source: string, env?: Environment) => {
    const { config, secrets, errors } = read(`discovery:\n  sources:\n    - ${source}\n`, env);
    assert.ok(config !== undefined, formatProblems(errors));
    const [own] = config.discovery.sources;
    assert.ok(own !== undefined);
    return { source: own, secrets, config };
  };

  test("has the defaults of its kind", () => {
    const times = (source: string) => {
      const { refreshMs, timeoutMs, emptyGraceMs, maxNodes, idleMs } = sourceOf(source).source;
      return { refreshMs, timeoutMs, emptyGraceMs, maxNodes, idleMs };
    };
    const shared = { maxNodes: 4096, idleMs: 90_000 };
    assert.deepEqual(times(`{ ${DNS} }`), { refreshMs: 10_000, timeoutMs: 5_000, emptyGraceMs: 30_000, ...shared });
    assert.deepEqual(times("{ name: s, kind: file_sd, paths: [x], node: {} }"), {
      refreshMs: 60_000,
      timeoutMs: 10_000,
      emptyGraceMs: 0,
      ...shared,
    });
    assert.deepEqual(times("{ name: s, kind: kubernetes, service: a, node: { family: F } }"), {
      refreshMs: 600_000,
      timeoutMs: 30_000,
      emptyGraceMs: 30_000,
      ...shared,
    });
    assert.equal(sourceOf(`{ ${DNS} }`).config.discovery.startWaitMs, 5_000);
    assert.deepEqual(read("data: {}\n").config?.discovery, { startWaitMs: 5_000, sources: [] });
  });

  test("has its files beside the configuration file, wherever the process runs", () => {
    assert.deepEqual(sourceOf("{ name: s, kind: file_sd, paths: [nodes/*.json, /a/b.yml], node: {} }").source.paths, [
      "/etc/zml/nodes/*.json",
      "/a/b.yml",
    ]);
    assert.equal(
      sourceOf("{ name: s, kind: kubernetes, service: a, kubeconfig: kube, node: { family: F } }").source.kubeconfig,
      "/etc/zml/kube",
    );
  });

  test("names its labels itself; those of files have the names of what they set", () => {
    assert.equal(sourceOf("{ name: s, kind: file_sd, paths: [x], node: {} }").source.labels.family, "family");
    assert.deepEqual(
      sourceOf("{ name: s, kind: kubernetes, service: a, labels: { family: gpu.example/family }, node: {} }").source
        .labels,
      { family: "gpu.example/family" },
    );
    assert.deepEqual(sourceOf("{ name: s, kind: kubernetes, service: a, node: { family: F } }").source.labels, {});
  });

  test("has the key of its nodes beside the configuration and never in it", () => {
    const { source, secrets } = sourceOf(`{ ${DNS.replace("family: F", "family: F, api_key_env: NODE_KEY")} }`, {
      NODE_KEY: "hunter2",
    });
    assert.equal(secrets.sources.get("s")?.reveal(), "hunter2");
    assert.ok(!JSON.stringify([source, secrets]).includes("hunter2"));
  });
});

describe("what may come with a found node is no warning", () => {
  const POLICY =
    "policies: [{ name: p, accelerator_preference: [{ family: H100, priority: 1 }] }]\nmodels: [{ name: m, policy: p }]\n";

  test("a family that a template names, and a model that found nodes may report", () => {
    assert.deepEqual(
      warningsOf(`${POLICY}discovery: { sources: [{ ${DNS.replace("family: F", "family: H100")} }] }\n`),
      [],
    );
  });

  test("a family that labels may name", () => {
    assert.deepEqual(
      warningsOf(`${POLICY}discovery: { sources: [{ name: s, kind: file_sd, paths: [x], node: { family: F } }] }\n`),
      [],
    );
  });

  test("a family that nobody can bring still is one", () => {
    assert.deepEqual(warningsOf(`${POLICY}discovery: { sources: [{ ${DNS} }] }\n`), ['no node has the family "H100"']);
  });
});
