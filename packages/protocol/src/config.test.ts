import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { z } from "zod";
import { completeConfig } from "./complete-config.ts";
import { type ConfigFile, configFileSchema, ENGINES } from "./config.ts";
import { formatPath, keysAt, nearestName, parseConfigFile } from "./config-issues.ts";

function issuesOf(value: unknown): string[] {
  const result = parseConfigFile(value);
  assert.ok("issues" in result, "the file was expected to be wrong");
  return result.issues.map(({ path, message, hint }) =>
    `${formatPath(path)}: ${message}${hint === null ? "" : `: ${hint}`}`.trim(),
  );
}

function fileOf(value: unknown): ConfigFile {
  const result = parseConfigFile(value);
  assert.ok("file" in result, "issues" in result ? JSON.stringify(result.issues) : "");
  return result.file;
}

const node = { id: "a", url: "http://127.0.0.1:1", family: "H100" };

describe("what is wrong is said with what stands there and what to write", () => {
  const cases: [string, unknown, string[]][] = [
    [
      "seconds for milliseconds",
      { timeouts: { connect_ms: "30s" } },
      ['timeouts.connect_ms: expected a number of milliseconds, got "30s" (write 30000)'],
    ],
    [
      "minutes for milliseconds",
      { health: { poll_interval_ms: "5m" } },
      ['health.poll_interval_ms: expected a number of milliseconds, got "5m" (write 300000)'],
    ],
    [
      "a unit that doesn't exist",
      { failover: { cooldown_ms: "5 parsecs" } },
      ['failover.cooldown_ms: expected a number of milliseconds, got "5 parsecs"'],
    ],
    [
      "MiB for bytes",
      { limits: { body_bytes: "64MiB" } },
      ['limits.body_bytes: expected a number of bytes, got "64MiB" (write 67108864)'],
    ],
    [
      "a zero duration",
      { timeouts: { idle_ms: 0 } },
      ["timeouts.idle_ms: expected a number of milliseconds of at least 1, got 0"],
    ],
    [
      "half a millisecond",
      { timeouts: { idle_ms: 0.5 } },
      ["timeouts.idle_ms: expected a number of milliseconds, got 0.5"],
    ],
    [
      "a duration that overflows timers",
      { timeouts: { idle_ms: 4_000_000_000 } },
      ["timeouts.idle_ms: expected a number of milliseconds of at most 86400000, got 4000000000"],
    ],
    [
      "a negative price",
      { nodes: [{ ...node, cost: { usd_per_gpu_hour: -1 } }] },
      ["nodes[0].cost.usd_per_gpu_hour: expected a price in USD per GPU-hour of at least 0, got -1"],
    ],
    [
      "an infinite price",
      { nodes: [{ ...node, cost: { usd_per_gpu_hour: Number.POSITIVE_INFINITY } }] },
      ["nodes[0].cost.usd_per_gpu_hour: expected a price in USD per GPU-hour, got Infinity"],
    ],
    [
      "a price that is no number",
      { nodes: [{ ...node, cost: { usd_per_gpu_hour: Number.NaN } }] },
      ["nodes[0].cost.usd_per_gpu_hour: expected a price in USD per GPU-hour, got NaN"],
    ],
    [
      "a price reference without its market",
      { nodes: [{ ...node, cost: { price: "aws/us-east-1/p5.48xlarge" } }] },
      [
        "nodes[0].cost.price: expected FEED/REGION/INSTANCE_TYPE/MARKET such as aws/us-east-1/p5.48xlarge/spot " +
          '(market: on_demand or spot), got "aws/us-east-1/p5.48xlarge"',
      ],
    ],
    [
      "a cost that says nothing",
      { nodes: [{ ...node, cost: {} }] },
      ["nodes[0].cost: expected usd_per_gpu_hour or price, got neither"],
    ],
    [
      "TLS without its key",
      { data: { tls: { cert_file: "cert.pem" } } },
      ["data.tls.key_file: expected a path, got nothing"],
    ],
    [
      "names that no address can hold",
      { nodes: [{ ...node, id: "..", models: ["."] }], models: [{ name: ".." }] },
      [
        'models[0].name: expected a model name that an address can hold: neither . nor .. alone, got ".."',
        'nodes[0].id: expected a node id that an address can hold: neither . nor .. alone, got ".."',
        'nodes[0].models[0]: expected a model name that an address can hold: neither . nor .. alone, got "."',
      ],
    ],
    ["a slip in a key", { timouts: {} }, ['timouts: unknown key "timouts": did you mean timeouts?']],
    [
      "a key without its unit",
      { timeouts: { connect: 5 } },
      ['timeouts.connect: unknown key "connect": did you mean connect_ms?'],
    ],
    [
      "a slip in a served model",
      { nodes: [{ ...node, models: [{ name: "a", upstream_model: "b", upstreem: "c" }] }] },
      [
        'nodes[0].models[0].upstreem: unknown key "upstreem": known here: name, upstream_model, context_tokens, images, endpoints, adapter_of',
      ],
    ],
    [
      "a key of nowhere",
      { store: { colour: "red" } },
      ['store.colour: unknown key "colour": known here: path, learned_days, price_days, audit_days'],
    ],
    [
      "a family that YAML reads as a number",
      { nodes: [{ ...node, family: 100 }] },
      ['nodes[0].family: expected an accelerator family, got 100 (write "100", with the quotes)'],
    ],
    [
      "an HTTP version that YAML reads as a number",
      { nodes: [{ ...node, http_version: 1.1 }] },
      ['nodes[0].http_version: expected one of 1.1, 2, got 1.1 (write "1.1", with the quotes)'],
    ],
    ["a section without content", { data: null }, ["data: expected a mapping, got nothing"]],
    ["a mapping where a list belongs", { nodes: { a: 1 } }, ["nodes: expected a list, got a mapping"]],
    [
      "yes for true",
      { data: { allow_unauthenticated: "yes" } },
      ['data.allow_unauthenticated: expected true or false, got "yes"'],
    ],
    [
      "a ring whose size is no power of two",
      { evidence: { ring_records: 1000 } },
      ["evidence.ring_records: expected a power of two such as 16384, got 1000"],
    ],
    [
      "an engine without an adapter",
      { nodes: [{ ...node, engine: "ollama" }] },
      [`nodes[0].engine: expected one of ${ENGINES.join(", ")}, got "ollama"`],
    ],
    [
      "a key without a scope",
      { keys: [{ name: "k", value_env: "K", scopes: [] }] },
      ["keys[0].scopes: a key needs a scope: infer, read, admin"],
    ],
    [
      "a model name with a line break",
      { models: [{ name: "a\nb" }] },
      ['models[0].name: expected a model name of 1 to 256 bytes without control characters, got "a\\nb"'],
    ],
    [
      "an id with a space",
      { nodes: [{ ...node, id: "a b" }] },
      ['nodes[0].id: expected a node id of 1 to 128 characters out of A-Z a-z 0-9 . _ : / -, got "a b"'],
    ],
    [
      "a shared override that belongs to the section",
      { nodes: [{ ...node, failover: { max_attempts: 2 } }] },
      ['nodes[0].failover.max_attempts: unknown key "max_attempts": known here: cooldown_ms'],
    ],
  ];
  for (const [name, value, expected] of cases) {
    test(name, () => assert.deepEqual(issuesOf(value), expected));
  }

  test("a key that stands where its variable's name belongs is not repeated", () => {
    const [message, ...rest] = issuesOf({ keys: [{ name: "k", value_env: "sk-1234-secret" }] });
    assert.equal(rest.length, 0);
    assert.ok(message !== undefined && !message.includes("1234"), message);
  });

  test("the password of a URL is not repeated, however broken the URL is", () => {
    for (const url of [
      "http://u:hunter2@h:1",
      "http://u:hunter2@h:99999",
      "u:hunter2@h",
      "http://h/?token=hunter2",
      "http://h/#hunter2",
    ]) {
      const text = issuesOf({ nodes: [{ ...node, url }] }).join();
      assert.ok(!text.includes("hunter2"), text);
    }
  });
});

describe("the file with its defaults", () => {
  test("a policy written as in the walkthrough is valid as it is", () => {
    const policy = {
      name: "llama3-70b-batch",
      accelerator_preference: [
        { family: "MI300X", priority: 1 },
        { family: "H100", priority: 2 },
      ],
      latency_target_ms: 2000,
      cost_priority: "cost",
    };
    const config = completeConfig(fileOf({ policies: [policy] }), { cores: 4 });
    assert.deepEqual(config.policies[0], {
      name: "llama3-70b-batch",
      account: "default",
      acceleratorPreference: [
        { family: "MI300X", priority: 1 },
        { family: "H100", priority: 2 },
      ],
      latencyTargetMs: 2000,
      ttftTargetMs: null,
      tokenTargetMs: null,
      costPriority: "cost",
      estimator: "predictive",
      queueOnSaturation: false,
      maxQueueMs: 30_000,
      acceptableWaiting: 4,
    });
  });

  test("a node takes its own limits and keeps the shared ones that it doesn't name", () => {
    const file = fileOf({
      timeouts: { connect_ms: 7, total_ms: 9 },
      failover: { cooldown_ms: 11 },
      nodes: [
        {
          ...node,
          timeouts: { total_ms: null, idle_ms: 3 },
          health: { unhealthy_after: 5 },
          failover: { cooldown_ms: 13 },
        },
        { ...node, id: "b" },
      ],
    });
    const [own, shared] = completeConfig(file, { cores: 4 }).nodes;
    assert.deepEqual(own?.timeouts, {
      connectMs: 7,
      firstByteMs: 600_000,
      firstTokenMs: 600_000,
      idleMs: 3,
      slowClientMs: 60_000,
      totalMs: null,
      drainMs: 30_000,
    });
    assert.deepEqual(own?.health, {
      pollIntervalMs: 5000,
      timeoutMs: 4000,
      unhealthyAfter: 5,
      healthyAfter: 1,
      stalledAfter: 6,
      slowStartMs: 15_000,
      maxEjectedShare: 0.5,
      maxPollsAtOnce: 1024,
    });
    assert.deepEqual(own?.failover, { cooldownMs: 13, cooldownMaxMs: 300_000 });
    assert.equal(shared?.timeouts.totalMs, 9);
    assert.deepEqual(shared?.failover, { cooldownMs: 11, cooldownMaxMs: 300_000 });
  });

  test("an unknown price is NaN and a free node costs 0", () => {
    const file = fileOf({ nodes: [node, { ...node, id: "b", cost: { usd_per_gpu_hour: 0 } }] });
    assert.deepEqual(
      completeConfig(file, { cores: 4 }).nodes.map((one) => one.usdPerGpuHour),
      [Number.NaN, 0],
    );
  });

  test("a path prefix is kept and the slash at its end is not", () => {
    const file = fileOf({ nodes: [{ ...node, url: "http://h:1/serve/a/" }] });
    assert.equal(completeConfig(file, { cores: 4 }).nodes[0]?.url, "http://h:1/serve/a");
  });

  test("slashes at the end of a feed's endpoint mean nothing", () => {
    const feed = { name: "l", provider: "lambda", endpoint: "https://proxy.example/lambda//" };
    const { prices } = completeConfig(fileOf({ prices: { feeds: [feed] } }), { cores: 4 });
    assert.equal(prices.feeds[0]?.endpoint, "https://proxy.example/lambda");
  });

  test("a served model has both names, and no list means what the node reports", () => {
    const file = fileOf({
      nodes: [
        { ...node, models: ["a", { name: "b", upstream_model: "org/b" }, { name: "c" }] },
        { ...node, id: "c" },
      ],
    });
    const [listed, open] = completeConfig(file, { cores: 4 }).nodes;
    assert.deepEqual(
      listed?.models?.map(({ name, upstreamModel }) => [name, upstreamModel]),
      [
        ["a", "a"],
        ["b", "org/b"],
        ["c", "c"],
      ],
    );
    assert.equal(open?.models, null);
  });

  test("what a served model can do is stated in part or in whole, and unknown otherwise", () => {
    const lora = { name: "lora", context_tokens: 8192, images: false, endpoints: ["embeddings"], adapter_of: "base" };
    const file = fileOf({ nodes: [{ ...node, models: [lora, "base"] }] });
    const [stated, silent] = completeConfig(file, { cores: 4 }).nodes[0]?.models ?? [];
    const upstream = { name: "lora", upstreamModel: "lora" };
    const known = { contextTokens: 8192, readsImages: false, endpoints: ["embeddings"], adapterOf: "base" };
    assert.deepEqual(stated, { ...upstream, ...known });
    const unknown = { contextTokens: Number.NaN, readsImages: null, endpoints: null, adapterOf: null };
    assert.deepEqual(silent, { name: "base", upstreamModel: "base", ...unknown });
  });

  test("one core is left for the control plane, but a worker always exists", () => {
    assert.equal(completeConfig(fileOf({}), { cores: 8 }).workers, 7);
    assert.equal(completeConfig(fileOf({}), { cores: 1 }).workers, 1);
    assert.equal(completeConfig(fileOf({ workers: 3 }), { cores: 1 }).workers, 3);
  });

  test("the account default exists beside the ones that the file declares", () => {
    const { accounts } = completeConfig(fileOf({ accounts: [{ name: "team" }] }), { cores: 1 });
    assert.deepEqual(
      accounts.map((one) => one.name),
      ["default", "team"],
    );
  });
});

test("every key of the file is described", () => {
  const undescribed: string[] = [];
  const walk = (schema: unknown, path: string): void => {
    if (typeof schema !== "object" || schema === null) return;
    if ("properties" in schema && typeof schema.properties === "object" && schema.properties !== null) {
      for (const [key, property] of Object.entries(schema.properties)) {
        if (typeof property?.description !== "string") undescribed.push(`${path}.${key}`);
        walk(property, `${path}.${key}`);
      }
    }
    if ("items" in schema) walk(schema.items, `${path}[]`);
    if ("anyOf" in schema && Array.isArray(schema.anyOf)) for (const branch of schema.anyOf) walk(branch, path);
  };
  walk(z.toJSONSchema(configFileSchema, { io: "input" }), "");
  assert.deepEqual(undescribed, []);
});

test("the keys of a mapping are found through lists, defaults and unions", () => {
  assert.deepEqual(keysAt(["nodes", 3, "failover"]), ["cooldown_ms"]);
  assert.deepEqual(keysAt(["nodes", 3, "models", 0]), [
    "name",
    "upstream_model",
    "context_tokens",
    "images",
    "endpoints",
    "adapter_of",
  ]);
  assert.deepEqual(keysAt(["store", "path"]), []);
  assert.deepEqual(keysAt(["__proto__"]), []);
});

test("a name is suggested for a slip and not for another word", () => {
  const known = ["timeouts", "failover", "usd_per_gpu_hour"];
  assert.equal(nearestName("timeotus", known), "timeouts");
  assert.equal(nearestName("Failover", known), "failover");
  assert.equal(nearestName("usd_per_gpu_hours", known), "usd_per_gpu_hour");
  assert.equal(nearestName("colour", known), null);
  assert.equal(nearestName("x".repeat(1_000_000), known), null);
});

test("a node that is read again from the same entry is the same object, until what it shares changes", () => {
  const entry = { id: "a", url: "http://10.0.0.1:8000", family: "H100" };
  const read = (value: object, options = {}) => {
    const parsed = parseConfigFile(value);
    assert.ok("file" in parsed);
    return completeConfig(parsed.file, { cores: 1, ...options }).nodes[0];
  };
  const first = read({ nodes: [entry] });
  assert.equal(read({ nodes: [entry, { ...entry, id: "b" }] }), first);
  const slower = read({ nodes: [entry], timeouts: { connect_ms: 1 } });
  assert.equal(slower?.timeouts.connectMs, 1);
  assert.equal(read({ nodes: [entry] }, { nodesOfFile: 0 })?.origin, "api");
  const wrong = parseConfigFile({ nodes: [entry, { id: "b" }], workers: 0 });
  assert.ok("issues" in wrong);
  assert.deepEqual(wrong.issues.map(({ path }) => path.join(".")).sort(), ["nodes.1.family", "nodes.1.url", "workers"]);
});
