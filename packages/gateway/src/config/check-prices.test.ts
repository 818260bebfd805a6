import assert from "node:assert/strict";
import { dirname, resolve } from "node:path";
import { test } from "node:test";
import { formatProblems } from "./config-problem.ts";
import { readConfig } from "./read-config.ts";

const read = (text: string, env: Record<string, string> = {}) =>
  readConfig(text, { fileName: "zml.yaml", env, cores: 2 });

const problems = (text: string, env: Record<string, string> = {}) => {
  const { errors } = read(text, env);
  return errors.map((error) => formatProblems([error]));
};

const feed = (rest: string) => `prices:\n  feeds:\n    - { name: aws, ${rest} }\n`;
const AWS = feed("provider: aws_spot, regions: [us-east-1], instance_types: [{ name: p5.48xlarge, gpus: 8 }]");
const node = (cost: string, rest = "gpus: 8") =>
  `nodes:\n  - { id: a, url: "http://h:1", family: H100, ${rest}, cost: { ${cost} } }\n`;

test("a node names a price of a feed, with or without a price that counts until then", () => {
  const { config, errors, warnings } = read(
    `${AWS}${node("price: aws/us-east-1/p5.48xlarge/spot, usd_per_gpu_hour: 3")}`,
  );
  assert.deepEqual([errors, warnings], [[], []]);
  const [only] = config?.nodes ?? [];
  assert.deepEqual([only?.priceKey, only?.usdPerGpuHour], ["aws/us-east-1/p5.48xlarge/spot", 3]);
  const [aws] = config?.prices.feeds ?? [];
  assert.deepEqual(
    [aws?.intervalMs, aws?.timeoutMs, aws?.maxChange, aws?.staleAfterMs],
    [300_000, 30_000, 100, 900_000],
  );
  assert.equal(aws?.cloudAccount, "default");
});

test("a reference to a feed that is not there is an error with its line and path; a key may come later", () => {
  assert.deepEqual(problems(`${AWS}${node("price: awz/us-east-1/p5.48xlarge/spot")}`), [
    'zml.yaml:5:71 nodes[0].cost.price: there is no price feed "awz": did you mean aws?',
  ]);
  assert.deepEqual(problems(node("price: aws/us-east-1/p5.48xlarge/spot")), [
    'zml.yaml:2:71 nodes[0].cost.price: there is no price feed "aws": declare it under prices.feeds',
  ]);
  assert.deepEqual(problems(`${AWS}${node("price: aws/eu-west-1/p9.nothing/spot")}`), []);
});

test("a market that a provider doesn't have is an error, since no fetch would ever bring it", () => {
  assert.deepEqual(problems(`${AWS}${node("price: aws/us-east-1/p5.48xlarge/on_demand")}`), [
    "zml.yaml:5:71 nodes[0].cost.price: aws_spot has no prices for on_demand: it has spot: use another feed, or " +
      "usd_per_gpu_hour",
  ]);
});

test("a reference is four parts, the last of which is a market", () => {
  for (const wrong of [
    "aws",
    "aws/us-east-1/p5/spot/x",
    "aws/us-east-1/p5/cheap",
    "aws//p5/spot",
    '"aws/ r/p5/spot"',
  ]) {
    const [first] = problems(`${AWS}${node(`price: ${wrong}`)}`);
    assert.match(first ?? "", /nodes\[0\]\.cost\.price: expected FEED\/REGION\/INSTANCE_TYPE\/MARKET/, wrong);
  }
});

test("each provider takes its own keys, and says which are missing or mean nothing to it", () => {
  const cases: readonly (readonly [string, readonly RegExp[]])[] = [
    ["provider: aws_spot", [/needs regions/, /needs instance_types/]],
    [
      "provider: aws_spot, regions: [r], instance_types: [{ name: t, gpus: 1 }], api_key_env: KEY",
      [/api_key_env means nothing to aws_spot: take it out; it takes regions, instance_types, profile, endpoint/],
    ],
    [
      "provider: aws_spot, regions: [r], instance_types: [p5.48xlarge]",
      [/aws_spot doesn't say how many GPUs "p5.48xlarge" has: write \{ name: p5.48xlarge, gpus: … \}/],
    ],
    ["provider: azure_retail, regions: [r], instance_types: [{ name: t }]", [/of azure_retail needs gpus/]],
    [
      "provider: gcp_catalog, regions: [r], instance_types: [{ name: t, gpus: 8, gpu_sku: x, vcpus: 3 }]",
      [/leaves vCPUs and memory out: cpu_sku, ram_sku, memory_gib are missing: add them, or gpu_only: true/],
    ],
    ["provider: vastai", [/needs instance_types/]],
    ["provider: file", [/needs path/]],
    ["provider: url", [/needs url/]],
    ["provider: url, url: http://p/x, path: y", [/path means nothing to url/]],
    ["provider: lambda, api_key_env: KEY, api_key_file: k", [/both name the key: keep one of them/]],
    ["provider: oracle", [/expected one of aws_spot, azure_retail, /]],
    ["provider: lambda, intervall_ms: 5", [/unknown key "intervall_ms": did you mean interval_ms\?/]],
    ["provider: lambda, max_change: 0.5", [/expected a factor of at least 1/]],
    ["provider: lambda, api_key_env: MISSING", [/the environment variable MISSING is not set/]],
  ];
  for (const [rest, expected] of cases) {
    const found = problems(feed(rest), { KEY: "k" });
    assert.equal(found.length, expected.length, found.join("\n"));
    for (const [index, pattern] of expected.entries()) assert.match(found[index] ?? "", pattern);
  }
});

test("GPU-only prices and types as texts pass where they are meant", () => {
  assert.deepEqual(
    problems(
      "prices:\n  feeds:\n" +
        "    - { name: a, provider: gcp_catalog, regions: [r], instance_types: [{ name: t, gpus: 8, gpu_sku: x, gpu_only: true }] }\n" +
        "    - { name: b, provider: vastai, instance_types: [H100 SXM] }\n" +
        "    - { name: c, provider: runpod, instance_types: [NVIDIA H100 80GB HBM3] }\n",
    ),
    [],
  );
});

test("an address with credentials is refused and never shown", () => {
  for (const url of [
    "http://u:s3cret@h/x",
    "ftp://s3cret/x",
    "http://h/x#s3cret",
    "s3cret",
    "http://2852039166/s3cret",
  ]) {
    const found = problems(feed(`provider: url, url: "${url}"`)).join("\n");
    assert.match(found, /prices\.feeds\[0\]\.url/);
    assert.doesNotMatch(found, /s3cret/);
  }
});

test("a key that would leave this machine without TLS is warned of", () => {
  const warned = (url: string, key = "api_key_file: k") =>
    read(feed(`provider: url, url: "${url}", ${key}`)).warnings.map((one) => formatProblems([one]));
  assert.match(
    warned("http://prices.example/x?s3cret").join(),
    /feeds\[0\]\.url: the feed's key goes over the network/,
  );
  assert.doesNotMatch(warned("http://prices.example/x?s3cret").join(), /s3cret/);
  for (const url of ["https://prices.example/x", "http://127.0.0.1:9/x", "http://[::1]:9/x", "http://localhost/x"]) {
    assert.deepEqual(warned(url), [], url);
  }
  assert.deepEqual(warned("http://prices.example/x", "timeout_ms: 9"), []);
});

test("two feeds of one name are an error that names both lines", () => {
  const two = "prices:\n  feeds:\n    - { name: l, provider: lambda }\n    - { name: l, provider: lambda }\n";
  assert.match(problems(two).join("\n"), /lines 3 and 4 both declare the price feed "l"/);
});

test("a node that doesn't say how many of an instance's GPUs it uses is warned of", () => {
  const { warnings } = read(`${AWS}${node("price: aws/us-east-1/p5.48xlarge/spot", "engine: vllm")}`);
  assert.match(warnings.map((one) => formatProblems([one])).join("\n"), /p5\.48xlarge has 8 GPUs .* 1 is counted/);
});

test("paths of a feed are beside the file, and its key is in the secrets only", () => {
  const { config, secrets } = read(
    "prices:\n  feeds:\n    - { name: f, provider: file, path: lists/p.csv }\n" +
      "    - { name: l, provider: lambda, api_key_env: KEY }\n    - { name: r, provider: runpod, api_key_file: /run/k }\n",
    { KEY: "k-123" },
  );
  assert.equal(config?.prices.feeds[0]?.path, resolve(dirname(resolve("zml.yaml")), "lists/p.csv"));
  assert.equal(config?.prices.feeds[2]?.apiKeyFile, resolve("/run/k"));
  assert.equal(secrets.feeds.get("l")?.reveal(), "k-123");
  assert.ok(!JSON.stringify([config, [...secrets.feeds]]).includes("k-123"));
});
