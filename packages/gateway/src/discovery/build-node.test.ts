import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { configured } from "../control/testing/configured.ts";
import { type BuiltNode, buildNode } from "./build-node.ts";
import type { Target } from "./source.ts";

/** Builds the node of a target; `yaml`: keys of the source, `top`: the rest of the file. */
function built(target: Partial<Target>, yaml: string, top = ""): BuiltNode {
  const text = `${top}discovery:\n  sources:\n    - name: s\n      kind: file_sd\n      paths: [x]\n${yaml.replaceAll(/^(?=.)/gm, "      ")}\n`;
  const { config } = configured(text, { KEY: "k" });
  const [source] = config.discovery.sources;
  assert.ok(source !== undefined);
  return buildNode(
    { host: "10.0.0.1", port: 8000, serverName: null, displayName: null, labels: {}, ...target },
    source,
    config,
  );
}

function nodeOf(result: BuiltNode) {
  assert.ok("node" in result, JSON.stringify(result));
  return result.node;
}

describe("a node that was found", () => {
  test("has its id and url from the target, the rest from the template, and the sections' values where it says nothing", () => {
    const template =
      "scheme: https\npath: /serve/\nnode: { family: H100, gpus: 8, engine: vllm, models: [m], timeouts: { connect_ms: 7 } }";
    const node = nodeOf(built({}, template, "timeouts: { first_byte_ms: 9 }\n"));
    assert.equal(node.id, "s:10.0.0.1:8000");
    assert.equal(node.url, "https://10.0.0.1:8000/serve");
    assert.equal(node.origin, "s");
    assert.deepEqual([node.family, node.gpus, node.engine, node.models?.[0]?.name], ["H100", 8, "vllm", "m"]);
    assert.deepEqual([node.timeouts.connectMs, node.timeouts.firstByteMs], [7, 9]);
  });

  test("has brackets around an IPv6 address where a URL needs them", () => {
    const node = nodeOf(built({ host: "fd00::1" }, 'node: { family: F, metrics_url: "http://{host}:8002/metrics" }'));
    assert.deepEqual(
      [node.id, node.url, node.metricsUrl],
      ["s:fd00::1:8000", "http://[fd00::1]:8000", "http://[fd00::1]:8002/metrics"],
    );
  });

  test("keeps the name that it was found by for TLS, unless the template names another", () => {
    const serverName = "pool.example";
    assert.equal(nodeOf(built({ serverName }, "node: { family: F }")).serverName, "pool.example");
    assert.equal(nodeOf(built({ serverName }, "node: { family: F, server_name: x.example }")).serverName, "x.example");
    assert.equal(nodeOf(built({ host: "a.example", serverName: "a.example" }, "node: { family: F }")).serverName, null);
  });

  test("has its own host in the addresses of the template", () => {
    const node = nodeOf(built({}, 'node: { family: F, gpu_exporter: { url: "http://{host}:9400/metrics" } }'));
    assert.equal(node.gpuExporter?.url, "http://10.0.0.1:9400/metrics");
  });
});

describe("labels", () => {
  const PRICES = "prices: { feeds: [{ name: mine, provider: file, path: p.csv }] }\n";

  test("override what the template says", () => {
    const labels = {
      family: "MI300X",
      engine: "sglang",
      gpus: "4",
      models: "a/b, c,,",
      price: "mine/east/x/spot",
      usd_per_gpu_hour: "1.5",
      max_in_flight: "32",
      display_name: "rack 7",
      __meta_other: "x",
    };
    const node = nodeOf(built({ labels }, "node: { family: H100, gpus: 8, cost: { usd_per_gpu_hour: 9 } }", PRICES));
    assert.deepEqual([node.family, node.engine, node.gpus, node.maxInFlight], ["MI300X", "sglang", 4, 32]);
    assert.deepEqual(
      node.models?.map(({ name }) => name),
      ["a/b", "c"],
    );
    assert.deepEqual([node.priceKey, node.usdPerGpuHour, node.displayName], ["mine/east/x/spot", 1.5, "rack 7"]);
  });

  test("have the names that the source gives them, and only those count", () => {
    const labels = { "example.com/gpu": "MI300X", family: "WRONG", gpus: "3" };
    const node = nodeOf(built({ labels }, "labels: { family: example.com/gpu }\nnode: { gpus: 8 }"));
    assert.deepEqual([node.family, node.gpus], ["MI300X", 8]);
  });

  test("can't move a node to another account, give it a key or open metadata addresses to it", () => {
    const labels = {
      account: "other",
      api_key_env: "KEY",
      allow_link_local: "true",
      url: "http://x",
      id: "x",
      timeouts: "1",
    };
    const node = nodeOf(built({ labels }, "node: { family: F }", "accounts: [{ name: other }]\n"));
    assert.deepEqual(
      [node.account, node.apiKeyEnv, node.allowLinkLocal, node.id],
      ["default", null, false, "s:10.0.0.1:8000"],
    );
  });
});

describe("a target that can be no node says why", () => {
  for (const [what, target, reason] of [
    ["no family", {}, "family: expected an accelerator family, got nothing"],
    [
      "a family of other characters",
      { labels: { family: "a b" } },
      /^family: expected an accelerator family of 1 to 128/,
    ],
    ["a number that is none", { labels: { family: "F", gpus: "many" } }, 'gpus: expected a whole number, got "many"'],
    ["a negative number", { labels: { family: "F", gpus: "-1" } }, 'gpus: expected a whole number, got "-1"'],
    ["a number without end", { labels: { family: "F", gpus: "9".repeat(400) } }, /^gpus: expected a whole number/],
    [
      "a price that is none",
      { labels: { family: "F", usd_per_gpu_hour: "free" } },
      /^cost\.usd_per_gpu_hour: expected a price/,
    ],
    ["a feed that is not there", { labels: { family: "F", price: "aws/e/x/spot" } }, /^there is no price feed "aws"/],
    ["an unknown engine", { labels: { family: "F", engine: "x" } }, /^engine: expected one of/],
    ["a model with control characters", { labels: { family: "F", models: "a\u0007" } }, /^models\.?\[?0/],
    [
      "a link-local address",
      { host: "169.254.1.1", labels: { family: "F" } },
      /^url: 169\.254\.1\.1 is a link-local address/,
    ],
    ["a metadata address", { host: "fd00:ec2::254", labels: { family: "F" } }, /^url: .*metadata service/],
    ["a mapped metadata address", { host: "::ffff:a9fe:a9fe", labels: { family: "F" } }, /^url: .*link-local/],
    [
      "a name that is too long for an id",
      { host: "a".repeat(130), labels: { family: "F" } },
      /^id: expected a node id of 1 to 128/,
    ],
  ] as const) {
    test(what, () => {
      const result = built(target, "node: {}");
      assert.ok("reason" in result, JSON.stringify(result));
      if (typeof reason === "string") assert.equal(result.reason, reason);
      else assert.match(result.reason, reason);
    });
  }

  test("the gateway itself, by whichever of its addresses", () => {
    const top = "data: { listen: 0.0.0.0:8000, allow_unauthenticated: true }\nadmin: { listen: 127.0.0.1:8081 }\n";
    for (const [host, port, own] of [
      ["127.0.0.1", 8000, "data"],
      ["127.0.0.1", 8081, "admin"],
    ] as const) {
      assert.deepEqual(built({ host, port }, "node: { family: F }", top), {
        reason: `the address is the gateway's own ${own} port`,
      });
    }
    nodeOf(built({ host: "10.99.99.99", port: 8000 }, "node: { family: F }", top));
  });

  test("a link-local address that the template allows is a node", () => {
    nodeOf(built({ host: "169.254.1.1" }, "node: { family: F, allow_link_local: true }"));
  });
});
