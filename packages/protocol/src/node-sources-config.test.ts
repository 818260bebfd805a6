import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { completeConfig } from "./complete-config.ts";
import { formatPath, parseConfigFile } from "./config-issues.ts";

const node = { id: "a", url: "http://127.0.0.1:1", family: "H100" };

function issuesOf(added: object): string[] {
  const result = parseConfigFile({ nodes: [{ ...node, ...added }] });
  assert.ok("issues" in result, "the file was expected to be wrong");
  return result.issues.map(({ path, message }) => `${formatPath(path)}: ${message}`);
}

function nodeOf(added: object) {
  const result = parseConfigFile({ nodes: [{ ...node, ...added }] });
  assert.ok("file" in result, "issues" in result ? JSON.stringify(result.issues) : "");
  const [complete] = completeConfig(result.file, { cores: 4 }).nodes;
  assert.ok(complete !== undefined);
  return complete;
}

describe("the mapping of a home-made server", () => {
  test("names metrics with their labels, each under the number it tells", () => {
    const metrics = { running: "my_running", waiting: 'my_queue{model="x"}', free_memory_mib: "mem" };
    assert.deepEqual(
      nodeOf({ engine: "custom", custom: { health_path: "/up", metrics_path: "/stats", metrics } }).custom,
      {
        healthPath: "/up",
        isStated: true,
        modelsPath: "/v1/models",
        metricsPath: "/stats",
        metrics: {
          running: { name: "my_running", labels: {} },
          waiting: { name: "my_queue", labels: { model: "x" } },
          free_memory_mib: { name: "mem", labels: {} },
        },
      },
    );
  });

  test("states no health path unless one is written", () => {
    const { custom } = nodeOf({ engine: "custom", custom: { models_path: null } });
    assert.deepEqual(custom, {
      healthPath: "/health",
      isStated: false,
      modelsPath: null,
      metricsPath: "/metrics",
      metrics: {},
    });
    assert.deepEqual(nodeOf({}).custom, { ...custom, modelsPath: "/v1/models" });
  });

  test("is refused with its place where a name, a path or a unit is wrong", () => {
    const at = (metrics: object) => issuesOf({ engine: "custom", custom: { metrics } });
    assert.deepEqual(at({ running: "sum(x)" }), [
      'nodes[0].custom.metrics.running: expected the name of a metric such as my_queue or my_queue{model="x"}, got "sum(x)"',
    ]);
    assert.deepEqual(at({ running: 5 }), [
      'nodes[0].custom.metrics.running: expected the name of a metric such as my_queue or my_queue{model="x"}, got 5',
    ]);
    assert.deepEqual(at({ kv_use: "a", kv_use_percent: "b" }), [
      "nodes[0].custom.metrics.kv_use_percent: kv_use and kv_use_percent stand for the same number: give one of them",
    ]);
    assert.deepEqual(at({ free_memory_gib: "a", free_memory_mib: "b", free_memory_bytes: "c" }), [
      "nodes[0].custom.metrics.free_memory_mib: free_memory_gib and free_memory_mib stand for the same number: give one of them",
      "nodes[0].custom.metrics.free_memory_bytes: free_memory_gib and free_memory_bytes stand for the same number: give one of them",
    ]);
    assert.deepEqual(at({ runing: "a" }), ['nodes[0].custom.metrics.runing: unknown key "runing"']);
    assert.deepEqual(issuesOf({ engine: "custom", custom: { metrics_path: "stats" } }), [
      'nodes[0].custom.metrics_path: expected a path that starts with /, got "stats"',
    ]);
  });
});

describe("the GPU exporter of a node", () => {
  test("is matched by labels in any case, with one value or several", () => {
    const url = "http://10.0.0.1:9400/metrics";
    assert.deepEqual(nodeOf({ gpu_exporter: { url, match: { Hostname: "n-17", gpu: ["0", "1"] } } }).gpuExporter, {
      url,
      match: { hostname: ["n-17"], gpu: ["0", "1"] },
      metric: null,
    });
    assert.deepEqual(nodeOf({ gpu_exporter: { url, metric: 'x{a="b"}' } }).gpuExporter, {
      url,
      match: {},
      metric: { name: "x", labels: { a: "b" } },
    });
    assert.equal(nodeOf({}).gpuExporter, null);
  });

  test("is refused where a label or a value is wrong", () => {
    const at = (match: object) => issuesOf({ gpu_exporter: { url: "http://10.0.0.1:9400/metrics", match } });
    assert.deepEqual(at({ gpu: 0 }), [
      'nodes[0].gpu_exporter.match.gpu: expected a value such as "0" or a list of such, got 0',
    ]);
    assert.deepEqual(at({ "g-p": "0" }), ['nodes[0].gpu_exporter.match.g-p: expected a label such as gpu, got "g-p"']);
    assert.deepEqual(issuesOf({ gpu_exporter: {} }), [
      "nodes[0].gpu_exporter.url: expected a URL such as http://10.0.0.21:8000, got nothing",
    ]);
  });
});

describe("addresses that no node has", () => {
  const WHY = "where clouds hand out credentials: use the node's own address, or set allow_link_local: true";

  test("are refused with their place, in every spelling", () => {
    for (const host of ["169.254.169.254", "0xa9fea9fe", "2852039166", "[::ffff:a9fe:a9fe]", "[fe80::1]"]) {
      const url = `http://${host}:80`;
      const { hostname } = new URL(url);
      assert.deepEqual(issuesOf({ url }), [`nodes[0].url: ${hostname} is a link-local address, ${WHY}`]);
    }
    assert.deepEqual(issuesOf({ url: "http://[fd00:ec2::254]/latest", metrics_url: "http://169.254.1.1/m" }), [
      `nodes[0].url: [fd00:ec2::254] is an address of a cloud's metadata service, ${WHY}`,
      `nodes[0].metrics_url: 169.254.1.1 is a link-local address, ${WHY}`,
    ]);
    assert.deepEqual(issuesOf({ gpu_exporter: { url: "http://100.100.100.200/" } }), [
      `nodes[0].gpu_exporter.url: 100.100.100.200 is an address of a cloud's metadata service, ${WHY}`,
    ]);
  });

  test("are taken where the node allows them, and loopback always", () => {
    assert.equal(nodeOf({ url: "http://169.254.10.1:8000", allow_link_local: true }).allowLinkLocal, true);
    assert.equal(nodeOf({ url: "http://[::1]:8000" }).allowLinkLocal, false);
    assert.equal(nodeOf({ metrics_url: "http://10.0.0.1:8002/metrics" }).metricsUrl, "http://10.0.0.1:8002/metrics");
  });
});
