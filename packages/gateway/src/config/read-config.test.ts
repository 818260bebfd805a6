import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { formatProblems } from "./config-problem.ts";
import { readConfig } from "./read-config.ts";
import { type Environment, NO_SECRETS } from "./resolve-secrets.ts";

function read(text: string, env: Environment = {}) {
  return readConfig(text, { fileName: "zml.yaml", env, cores: 4 });
}

function errorsOf(text: string, env?: Environment): string[] {
  const result = read(text, env);
  assert.equal(result.config, undefined, "a file with errors gives no configuration");
  assert.deepEqual(result.secrets, NO_SECRETS);
  return formatProblems(result.errors).split("\n");
}

function warningsOf(text: string, env?: Environment): string[] {
  const result = read(text, env);
  assert.equal(formatProblems(result.errors), "");
  assert.ok(result.config !== undefined);
  return result.warnings.length === 0 ? [] : formatProblems(result.warnings).split("\n");
}

const node = "nodes:\n  - { id: a, url: http://10.0.0.1:8000, family: H100 }\n";

describe("a text that is no configuration", () => {
  const cases: [string, string, string[]][] = [
    ["an empty file", "", ["zml.yaml:1:1: the file is empty: start with a list of nodes"]],
    ["a file of comments", "# nodes:\n", ["zml.yaml:1:1: the file is empty: start with a list of nodes"]],
    ["a text", "hello\n", ["zml.yaml:1:1: the file is no mapping: start with a key such as nodes:"]],
    ["a list", "- nodes\n", ["zml.yaml:1:1: the file is no mapping: start with a key such as nodes:"]],
    [
      "two documents",
      `${node}---\n${node}`,
      ["zml.yaml:3:1: the file holds more than one document: take the second --- and what follows it out"],
    ],
    ["a tab", "nodes:\n\t- id: a\n", ["zml.yaml:2:1: a tab indents this line: indent with spaces"]],
    [
      "a key twice",
      "workers: 1\nworkers: 2\n",
      ['zml.yaml:2:1 workers: lines 1 and 2 both set "workers": keep one of them'],
    ],
    [
      "a key of a node twice",
      "nodes:\n  - id: a\n    url: http://h:1\n    family: F\n    url: http://h:2\n",
      ['zml.yaml:5:5 nodes[0].url: lines 3 and 5 both set "url": keep one of them'],
    ],
    ["a tag", "workers: !number 3\n", ["zml.yaml:1:10: this tag (!name) is not known: leave tags out"]],
    ["a key that is no text", "? [a]\n: 1\n", ["zml.yaml:1:3: this key is no text: keys are plain words"]],
    [
      "an alias without an anchor",
      "nodes: *shared\n",
      ["zml.yaml:1:1: an alias (*name) has no anchor (&name) before it: name an anchor that stands above it"],
    ],
  ];
  for (const [name, text, expected] of cases) test(name, () => assert.deepEqual(errorsOf(text), expected));

  test("a bomb of aliases is refused before it unfolds", () => {
    let text = "l0: &l0 [a, a, a, a, a, a, a, a, a]\n";
    for (let level = 1; level < 12; level++) {
      text += `l${level}: &l${level} [${Array(9)
        .fill(`*l${level - 1}`)
        .join(", ")}]\n`;
    }
    assert.match(errorsOf(text).join(), /uses aliases \(\*name\) too often/);
  });

  test("a list in a list in a list without end is refused", () => {
    assert.match(errorsOf(`nodes: ${"[".repeat(20_000)}`).join(), /nested too deeply/);
  });

  test("a file without end is not parsed", () => {
    assert.match(errorsOf("#".repeat(17 * 2 ** 20)).join(), /characters: at most 16777216 are read/);
  });

  test("a value with broken syntax is not repeated, as it may be a secret", () => {
    for (const text of [
      'keys: "\\q hunter2"',
      "keys: @hunter2",
      'keys: "hunter2',
      "keys: hunter2: a: b",
      "keys: !x hunter2",
      "a\n hunter2: b\n  c",
    ]) {
      assert.ok(!errorsOf(text).join().includes("hunter2"), text);
    }
  });
});

test("everything is reported at once, in the order of the lines", () => {
  const text = `data: { listen: "0.0.0.0:8080" }
health: { pol_interval_ms: 100 }
timeouts: { connect_ms: 30s }
nodes:
  - id: a
    url: http://10.0.0.1:8000
    family: H100
    cost: { usd_per_gpu_hour: -1.99 }
  - id: a
    url: ftp://10.0.0.2
    family: MI300X
    api_key_env: NODE_KEY
policies:
  - name: batch
    accelerator_preference: [{ family: MI30OX, priority: 1 }]
models:
  - { name: m, policy: bacth }
`;
  assert.deepEqual(errorsOf(text), [
    "zml.yaml:1:17 data.listen: other machines can reach 0.0.0.0 and there are no keys: add keys, listen on 127.0.0.1, or say data.allow_unauthenticated: true",
    'zml.yaml:2:11 health.pol_interval_ms: unknown key "pol_interval_ms": did you mean poll_interval_ms?',
    'zml.yaml:3:25 timeouts.connect_ms: expected a number of milliseconds, got "30s" (write 30000)',
    "zml.yaml:8:31 nodes[0].cost.usd_per_gpu_hour: expected a price in USD per GPU-hour of at least 0, got -1.99",
    'zml.yaml:9:9 nodes[1].id: lines 5 and 9 both declare the node "a": rename one or take it out',
    'zml.yaml:10:10 nodes[1].url: expected a URL with http:// or https://, got the scheme "ftp"',
    "zml.yaml:12:18 nodes[1].api_key_env: the environment variable NODE_KEY is not set: set it before the start",
    'zml.yaml:17:24 models[0].policy: there is no policy "bacth": did you mean batch?',
  ]);
  assert.equal(
    formatProblems(read(text).warnings),
    'zml.yaml:15:40 policies[0].accelerator_preference[0].family: no node has the family "MI30OX": did you mean MI300X?',
  );
});

test("a missing key is reported where its owner stands", () => {
  assert.deepEqual(errorsOf("nodes:\n  - id: a\n    url: http://h:1\n"), [
    "zml.yaml:2:5 nodes[0].family: expected an accelerator family, got nothing",
  ]);
});

test("what stands behind an alias is reported where it stands", () => {
  assert.deepEqual(
    errorsOf(
      "nodes:\n  - { id: a, url: http://h:1, family: F, timeouts: &t { idle_ms: 1s } }\n  - { id: b, url: http://h:2, family: F, timeouts: *t }\n",
    ).map((line) => line.split(" ")[0]),
    ["zml.yaml:2:66", "zml.yaml:2:66"],
  );
});

describe("names", () => {
  test("each name is declared once in its account", () => {
    const text = `accounts: [{ name: t }, { name: t }]
keys: [{ name: k, value_env: A }, { name: k, value_env: B }, { name: k, value_env: C, account: t }]
policies:
  - { name: p }
  - { name: p, account: t }
  - { name: p, account: t }
models:
  - { name: m }
  - { name: m, account: default }
`;
    assert.deepEqual(errorsOf(text, { A: "1", B: "2", C: "3" }), [
      'zml.yaml:1:33 accounts[1].name: line 1 has two places that declare the account "t": rename one or take it out',
      'zml.yaml:2:43 keys[1].name: line 2 has two places that declare the key "k" of the account "default": rename one or take it out',
      'zml.yaml:6:13 policies[2].name: lines 5 and 6 both declare the policy "p" of the account "t": rename one or take it out',
      'zml.yaml:9:13 models[1].name: lines 8 and 9 both declare the model "m" of the account "default": rename one or take it out',
    ]);
  });

  test("a node id is declared once in the whole file, as ids are the fleet's", () => {
    const text = `accounts: [{ name: t }]\nnodes:\n  - { id: a, url: "http://h:1", family: F }\n  - { id: a, url: "http://h:2", family: F, account: t }\n`;
    assert.match(errorsOf(text).join(), /lines 3 and 4 both declare the node "a"/);
  });

  test("a chain names a family once and a node a model once", () => {
    const text = `nodes:
  - { id: a, url: "http://h:1", family: F, models: [m, { name: m, upstream_model: x }] }
policies:
  - name: p
    accelerator_preference:
      - { family: F, priority: 1 }
      - { family: F, priority: 2 }
`;
    assert.deepEqual(errorsOf(text), [
      'zml.yaml:2:56 nodes[0].models[1]: line 2 has two places that give this node the model "m": keep one of them',
      'zml.yaml:7:19 policies[0].accelerator_preference[1].family: lines 6 and 7 both declare the family "F": rename one or take it out',
    ]);
  });

  test("what is named exists, in the same account", () => {
    const text = `accounts:
  - { name: team, default_policy: p }
  - { name: default, default_policy: q }
policies: [{ name: p }]
models:
  - { name: m, account: taem }
  - { name: n, account: team, policy: p }
`;
    assert.deepEqual(errorsOf(text), [
      'zml.yaml:2:35 accounts[0].default_policy: there is no policy "p" in the account "team": declare it under policies',
      'zml.yaml:3:38 accounts[1].default_policy: there is no policy "q": declare it under policies',
      'zml.yaml:6:25 models[0].account: there is no account "taem": did you mean team?',
      'zml.yaml:7:39 models[1].policy: there is no policy "p" in the account "team": declare it under policies',
    ]);
  });

  test("the built-in policy's name can be used but not taken", () => {
    assert.deepEqual(warningsOf(`${node}models: [{ name: m, policy: zml-default }]\n`), []);
    assert.match(errorsOf("policies: [{ name: zml-default }]\n").join(), /is the name of the built-in policy/);
  });

  test("only a custom engine has custom settings", () => {
    assert.deepEqual(errorsOf('nodes:\n  - { id: a, url: "http://h:1", family: F, engine: vllm, custom: {} }\n'), [
      "zml.yaml:2:58 nodes[0].custom: the section custom belongs to nodes with engine: custom: add engine: custom or take the section out",
    ]);
  });
});

describe("what may come later is a warning", () => {
  test("a policy may name a family that no node has", () => {
    assert.deepEqual(
      warningsOf(`${node}policies:\n  - { name: p, accelerator_preference: [{ family: TPUv7, priority: 1 }] }\n`),
      [
        'zml.yaml:4:51 policies[0].accelerator_preference[0].family: no node has the family "TPUv7": it is skipped until a node has it',
      ],
    );
  });

  test("a registered model may wait for a node", () => {
    const nodes = 'nodes:\n  - { id: a, url: "http://h:1", family: F, models: [other] }\n';
    assert.deepEqual(warningsOf(`${nodes}models: [{ name: m }]\n`), [
      'zml.yaml:3:18 models[0].name: no node serves the model "m": requests for it get a 503: add it to a node\'s models',
    ]);
  });

  test("an adapter's base may come with another node, and a slip in its name is told", () => {
    const nodes = (models: string) => `nodes:\n  - { id: a, url: "http://h:1", family: F, models: [${models}] }\n`;
    assert.deepEqual(warningsOf(nodes("base, { name: lora, adapter_of: bse }")), [
      'zml.yaml:2:85 nodes[0].models[1].adapter_of: no node serves the model "bse" that this is an adapter of: did you mean base?',
    ]);
    assert.deepEqual(warningsOf(nodes("base, { name: lora, adapter_of: base }")), []);
    assert.deepEqual(errorsOf(nodes("{ name: lora, adapter_of: lora }")), [
      'zml.yaml:2:79 nodes[0].models[0].adapter_of: the model "lora" is no adapter of itself: name the model that it is loaded on, or take adapter_of out',
    ]);
  });

  test("a node that doesn't say what it serves may serve every model", () => {
    assert.deepEqual(warningsOf(`${node}models: [{ name: m }]\n`), []);
  });

  test("polls may take longer than the time between them", () => {
    assert.match(warningsOf(`${node}health: { poll_interval_ms: 1000 }\n`).join(), /timeout_ms \(4000\) is more than/);
  });
});

describe("keys and sharing", () => {
  const accounts = "accounts: [{ name: default }, { name: team }]\n";
  const key = (more: string) => `keys:\n  - { name: k, value_env: K, ${more} }\n`;
  const closed = "nodes:\n  - { id: a, url: http://10.0.0.1:8000, family: H100, models: [llama3-70b] }\n";

  test("a key that names what its account has not is refused, with the line and the nearest name", () => {
    assert.deepEqual(errorsOf(`${closed}${key("models: [llama3-70b, lama3-70b]")}`, { K: "s" }), [
      'zml.yaml:4:51 keys[0].models[1]: there is no model "lama3-70b" in the key\'s account: did you mean llama3-70b?',
    ]);
    assert.match(
      errorsOf(`${closed}${key("policies: [fast]")}`, { K: "s" }).join(),
      /4:\d+ keys\[0\]\.policies\[0\]: there is no policy "fast"/,
    );
    assert.deepEqual(warningsOf(`${closed}${key("policies: [zml-default]")}`, { K: "s" }), []);
    // a node that lists no models may serve it
    assert.deepEqual(warningsOf(`${node}${key("models: [anything]")}`, { K: "s" }), []);
    assert.match(
      errorsOf(`${accounts}${closed}${key("account: team, models: [llama3-70b]")}`, { K: "s" }).join(),
      /no model "llama3-70b" in the key's account/,
    );
  });

  test("what is shared with an account is its own to name", () => {
    for (const shared of ["[team]", '["*"]']) {
      const nodes = closed.replace("models:", `shared_with: ${shared}, models:`);
      assert.deepEqual(warningsOf(`${accounts}${nodes}${key("account: team, models: [llama3-70b]")}`, { K: "s" }), []);
    }
    const unknown = closed.replace("models:", "shared_with: [teem], models:");
    assert.match(
      errorsOf(`${accounts}${unknown}`).join(),
      /nodes\[0\]\.shared_with\[0\]: there is no account "teem": did you mean team\?/,
    );
  });

  test("a key that has expired is told of, and is no error", () => {
    const text = `${node}${key("expires_at: 2020-01-01T00:00:00+02:00")}`;
    assert.match(warningsOf(text, { K: "s" }).join(), /4:42 keys\[0\]\.expires_at: the key expired at 2020-01-01/);
    for (const wrong of ["2027-02-30T00:00:00Z", "tomorrow", "2027-01-01", "2027-01-01 00:00:00Z", "17"]) {
      assert.match(
        errorsOf(`${node}${key(`expires_at: ${wrong}`)}`, { K: "s" }).join(),
        /expected a time such as 2027/,
      );
    }
  });
});

describe("the ports", () => {
  test("a port that other machines reach needs keys or the operator's word", () => {
    for (const port of ["data", "admin"]) {
      for (const host of ["0.0.0.0", "[::]", "10.0.0.7", "zml.internal"]) {
        const text = `${node}${port}: { listen: "${host}:9000" }\n`;
        assert.match(errorsOf(text).join(), new RegExp(`${port}\\.listen: other machines can reach`));
        const withWord = `${node}${port}: { listen: "${host}:9000", allow_unauthenticated: true }\n`;
        assert.deepEqual(warningsOf(withWord), []);
        assert.deepEqual(warningsOf(`${text}keys: [{ name: k, value_env: K }]\n`, { K: "secret" }), []);
      }
    }
  });

  test("keys that may not infer, or may no longer, don't open the data port to other machines", () => {
    const errors = (key: string) =>
      errorsOf(`${node}data: { listen: "0.0.0.0:9000" }\nkeys:\n  - { name: k, value_env: K, ${key} }\n`, { K: "s" });
    assert.deepEqual(errors("scopes: [admin, read]"), [
      "zml.yaml:3:17 data.listen: other machines can reach 0.0.0.0 and there is no key with the scope infer: add a key with scopes: [infer], listen on 127.0.0.1, or say data.allow_unauthenticated: true",
    ]);
    assert.match(errors("expires_at: 2020-01-01T00:00:00Z").join(), /no key with the scope infer that has not expired/);
    const good = "keys: [{ name: k, value_env: K, expires_at: 2999-01-01T00:00:00Z }]\n";
    assert.deepEqual(warningsOf(`${node}data: { listen: "0.0.0.0:9000" }\n${good}`, { K: "s" }), []);
  });

  test("the word for one port doesn't open the other", () => {
    const text = `${node}data: { listen: "0.0.0.0:1", allow_unauthenticated: true }\nadmin: { listen: "0.0.0.0:2" }\n`;
    assert.equal(errorsOf(text).length, 1);
  });

  test("no key is asked on loopback", () => {
    for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
      assert.deepEqual(warningsOf(`${node}data: { listen: "${host}:9000" }\n`), []);
    }
  });

  test("a node may not be the gateway itself, whose requests would come back to it until it is full", () => {
    const self = (url: string, listen = "127.0.0.1:9000") =>
      read(`data: { listen: "${listen}" }\nnodes:\n  - { id: a, url: "${url}", family: H100 }\n`).errors.map(
        ({ path, message }) => `${path}: ${message}`,
      );
    const own = ["nodes[0].url: the address is the gateway's own data port"];
    assert.deepEqual(self("http://127.0.0.1:9000"), own);
    assert.deepEqual(self("http://localhost:9000/v1/"), own);
    assert.deepEqual(self("http://127.0.0.1:8081"), ["nodes[0].url: the address is the gateway's own admin port"]);
    assert.deepEqual(self("http://127.0.0.1:9001"), []);
    assert.deepEqual(self("http://10.0.0.1:9000"), []);
  });

  test("two nodes with one url are warned about, with the line of the other", () => {
    const two = `nodes:
  - { id: a, url: http://10.0.0.1:8000, family: H100 }
  - { id: b, url: http://10.0.0.1:8000/, family: H100 }
`;
    assert.deepEqual(warningsOf(two), [
      "zml.yaml:3:19 nodes[1].url: the node at line 2 has the same url: one server is one node: list its models in one entry",
    ]);
  });

  test("data and admin have different ports, unless the system chooses both", () => {
    assert.match(
      errorsOf(`${node}data: { listen: "127.0.0.1:8081" }\n`).join(),
      /data\.listen: data and admin both listen on port 8081/,
    );
    assert.match(errorsOf(`${node}admin: { listen: "localhost:8080" }\n`).join(), /admin\.listen: data and admin both/);
    const chosen = `${node}data: { listen: "127.0.0.1:0" }\nadmin: { listen: "127.0.0.1:0" }\n`;
    assert.deepEqual(warningsOf(chosen), []);
    const twoHosts = `${node}data: { listen: "127.0.0.1:9000" }\nadmin: { listen: "127.0.0.2:9000" }\n`;
    assert.deepEqual(warningsOf(twoHosts), []);
  });
});

describe("secrets", () => {
  const text = `keys:
  - { name: app, value_env: APP_KEY }
nodes:
  - { id: a, url: "http://h:1", family: F, api_key_env: NODE_KEY }
  - { id: b, url: "http://h:2", family: F }
`;

  test("keys are beside the configuration and never in it", () => {
    const result = read(text, { APP_KEY: "hunter2", NODE_KEY: "hunter3" });
    assert.ok(result.config !== undefined);
    assert.ok(!JSON.stringify(result).includes("hunter"));
    assert.deepEqual(
      result.secrets.keys.map(({ key, secret }) => [key.name, secret.reveal()]),
      [["app", "hunter2"]],
    );
    assert.equal(result.secrets.nodes.get("a")?.reveal(), "hunter3");
    assert.equal(result.secrets.nodes.has("b"), false);
  });

  test("a variable that is missing, empty or can't be a header is named and its value is not shown", () => {
    assert.deepEqual(errorsOf(text, { NODE_KEY: "" }), [
      "zml.yaml:2:29 keys[0].value_env: the environment variable APP_KEY is not set: set it before the start",
      "zml.yaml:4:57 nodes[0].api_key_env: the environment variable NODE_KEY is empty: give it the key",
    ]);
    const broken = errorsOf(text, { APP_KEY: "hunter2\n", NODE_KEY: "hunté2" }).join();
    assert.match(broken, /APP_KEY holds characters/);
    assert.match(broken, /NODE_KEY holds characters/);
    assert.ok(!broken.includes("hunt"));
  });

  test("what objects inherit is no variable", () => {
    assert.match(errorsOf(text.replace("APP_KEY", "constructor"), { NODE_KEY: "k" }).join(), /constructor is not set/);
  });

  test("two keys have two values", () => {
    const twins = "keys: [{ name: a, value_env: A }, { name: b, value_env: B }]\n";
    const message = errorsOf(twins, { A: "hunter2", B: "hunter2" }).join();
    assert.match(message, /the keys "a" and "b" have the same value/);
    assert.ok(!message.includes("hunter"));
  });

  test("a key that was pasted where its variable's name belongs is not shown", () => {
    for (const pasted of ["sk-hunter2", "abc123abc123abc123abc123"]) {
      const message = errorsOf(`keys: [{ name: a, value_env: ${pasted} }]\n`).join();
      assert.ok(!message.includes(pasted), message);
    }
  });
});

test("numbers that must fit each other do", () => {
  assert.match(
    errorsOf("limits: { body_bytes: 2048, body_bytes_total: 1024 }\n").join(),
    /body_bytes_total \(1024\) is less/,
  );
  const two = 'nodes:\n  - { id: a, url: "http://h:1", family: F }\n  - { id: b, url: "http://h:2", family: F }\n';
  assert.deepEqual(errorsOf(`limits: { nodes: 1 }\n${two}`), [
    "zml.yaml:2:1 nodes: 2 nodes don't fit into limits.nodes (1): raise limits.nodes",
  ]);
});

test("a problem is one line, whatever stands in the file", () => {
  const result = read('"a\\nb\\e[31m": 1\n');
  assert.equal(formatProblems(result.errors).split("\n").length, 1);
  assert.ok(!formatProblems(result.errors).includes("\u001b"));
});

test("the file of the documentation is valid as it stands", () => {
  const text = `data:     { listen: 127.0.0.1:8080 }
admin:    { listen: 127.0.0.1:8081 }
workers:  1
health:   { poll_interval_ms: 5000, timeout_ms: 4000, unhealthy_after: 2, healthy_after: 1 }
limits:   { body_bytes: 67108864, body_bytes_total: 1073741824, header_bytes: 65536, nodes: 16384,
            queue_requests: 10000, queue_bytes: 268435456 }
timeouts: { connect_ms: 2000, first_byte_ms: 600000, first_token_ms: 600000, idle_ms: 120000,
            slow_client_ms: 60000, total_ms: null, drain_ms: 30000 }
failover: { cooldown_ms: 30000, max_attempts: 3, window_ms: 30000, retry_budget: 0.2, hold_ms: 15000 }
store:    { path: zml-data }
keys:     [ { name: app, value_env: APP_KEY, account: default, scopes: [infer] } ]
accounts: [ { name: default, default_policy: null } ]
nodes:
  - id: mi300x-a
    url: http://10.0.0.21:8000
    family: MI300X
    engine: vllm
    gpus: 8
    cost: { usd_per_gpu_hour: 1.99 }
    models: [llama3-70b, { name: big, upstream_model: org/big }]
    max_in_flight: 320
    max_connections: 512
    keep_alive_ms: 4000
    max_connection_age_ms: 300000
    api_key_env: MI300X_A_KEY
    http_version: "1.1"
  - { id: h100-a, url: "http://10.0.0.22:8000", family: H100 }
policies:
  - name: llama3-70b-batch
    accelerator_preference:
      - { family: MI300X, priority: 1 }
      - { family: H100, priority: 2 }
    latency_target_ms: 2000
    cost_priority: cost
    queue_on_saturation: true
    max_queue_ms: 30000
models:
  - { name: llama3-70b, policy: llama3-70b-batch }
`;
  const env = { APP_KEY: "a", MI300X_A_KEY: "b" };
  assert.deepEqual(warningsOf(text, env), []);
  // What it spells out are the defaults: a file with the nodes alone means the same.
  const { config } = read(text, env);
  const bare = read(`workers: 1\nnodes: []\n`).config;
  for (const section of ["data", "admin", "health", "limits", "timeouts", "failover", "store", "accounts"] as const) {
    assert.deepEqual(config?.[section], bare?.[section], section);
  }
});
