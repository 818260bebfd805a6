/** `zml init` against fake nodes: what it writes passes the check and serves. */

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { checkConfig } from "../src/commands/check-config.ts";
import { type InitOptions, init } from "../src/commands/init.ts";
import { keptTerminal } from "../src/commands/testing/kept-terminal.ts";
import { readConfig } from "../src/config/read-config.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

async function run(
  t: TestContext,
  urls: readonly string[],
  more: Partial<InitOptions> = {},
  env: Record<string, string> = {},
) {
  const output = more.output ?? join(folder(t), "zml.yaml");
  const terminal = keptTerminal({ env });
  const code = await init(terminal, { urls, output, force: false, timeoutMs: 10_000, ...more });
  const text = existsSync(output) ? readFileSync(output, "utf8") : "";
  return { code, output, text, stdout: terminal.stdout(), stderr: terminal.stderr() };
}

test("a file that is there is kept byte for byte, and --force replaces it whole", async (t) => {
  const fake = await fakeNode(t);
  const output = join(folder(t), "zml.yaml");
  writeFileSync(output, "mine");
  const kept = await run(t, [`H100=${fake.url}`], { output });
  assert.equal(kept.code, 1);
  assert.equal(kept.text, "mine");
  assert.match(kept.stderr, /is there already: name another with -o FILE, or overwrite it with --force\n$/);
  const forced = await run(t, [`H100=${fake.url}`], { output, force: true });
  assert.equal(forced.code, 0, forced.stderr);
  assert.match(forced.text, /^# Made by zml init/);
  assert.deepEqual(readdirSync(join(output, "..")), ["zml.yaml"], "nothing is left beside it");
});

test("a link to nowhere is not written through, and a folder that is not there is an error", async (t) => {
  const fake = await fakeNode(t);
  const output = join(folder(t), "zml.yaml");
  const target = join(folder(t), "target");
  symlinkSync(target, output);
  assert.equal((await run(t, [`H100=${fake.url}`], { output })).code, 1);
  assert.equal(existsSync(target), false);
  const nowhere = await run(t, [`H100=${fake.url}`], { output: join(folder(t), "none", "zml.yaml") });
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /can't be written \(ENOENT\)/);
});

test("without a node that answers nothing is written", async (t) => {
  const gone = await fakeNode(t);
  gone.kill();
  const { code, text, stderr } = await run(t, [`H100=${gone.url}`]);
  assert.equal(code, 1);
  assert.equal(text, "");
  assert.match(
    stderr,
    /: no answer \(refused\)\nzml: no node answered as one: start one, or correct the addresses; nothing was/,
  );
});

test("addresses and families that are none are a wrong command line", async (t) => {
  for (const [urls, more] of [
    [["ftp://x"], {}],
    [["http://"], {}],
    [["H 100=http://a:1"], {}],
    [["http://169.254.169.254/"], {}],
    [["http://a:1"], { family: "H 100" }],
  ] as const) {
    const { code, text, stderr } = await run(t, urls, more);
    assert.equal(code, 2, `${urls[0]}: ${stderr}`);
    assert.equal(text, "");
  }
});

test("nodes that are silent, ask for a key or serve nothing are commented out with the reason, the rest is served", async (t) => {
  const [good, silent, closed, loading] = await Promise.all([
    fakeNode(t, { engine: "sglang", model: "org/llama-3", hasMetrics: true }),
    fakeNode(t),
    fakeNode(t, { apiKey: "k" }),
    fakeNode(t, { engine: "llamacpp", loadMs: 60_000 }),
  ]);
  silent.faults.blackhole();
  const urls = [`MI300X=${good.url}`, silent.url, closed.url, loading.url];
  const { code, text, output, stdout } = await run(t, urls, { family: "H100", timeoutMs: 1500 });
  assert.equal(code, 0);
  assert.match(stdout, /: 1 node, 3 nodes commented out; zml nodes check -c .*zml\.yaml, zml serve -c/);
  assert.match(text, /# left out, no answer \(timeout\):\n {2}# - id: /);
  assert.match(text, /# left out, it asks for a key \(401\): name its variable with --key-env:\n/);
  assert.match(text, /# left out, it is not ready \(503\):\n/);
  assert.match(
    text,
    / {4}family: MI300X\n {4}# engine: sglang, detected \(0\.5\.20, built for cuda\)\n {4}platform: cuda\n/,
  );
  assert.match(text, / {6}- org\/llama-3 {2}# context 8192 tokens\n/);
  assert.match(text, / {4}# max_in_flight: 320 +# from the engine, of which it runs 256 at once\n/);
  const terminal = keptTerminal();
  assert.equal(await checkConfig(terminal, { config: output, json: false }), 0);
  assert.match(terminal.stdout(), /: ok, 1 node, 1 policy, 0 models, 0 warnings\n$/);

  const { gateway } = await startOn(t, text.replaceAll(/^(data|admin):.*\n/gm, "").replace(/^/, PORTS));
  await until("the node is there", () => gateway.stats().fleet.nodes.some(({ state }) => state === "healthy"));
  const response = await chat(gateway, { model: "org/llama-3" });
  assert.equal(response.status, 200);
  await response.text();
});

test("a family that nobody named is a placeholder that check-config warns about, and the file serves", async (t) => {
  const fake = await fakeNode(t);
  const { code, text, output, stdout } = await run(t, [fake.url]);
  assert.equal(code, 0);
  assert.match(text, / {4}family: unnamed +# <- name its accelerator family/);
  assert.match(stdout, /name the family of 1 node in it, then zml nodes check/);
  const terminal = keptTerminal();
  assert.equal(await checkConfig(terminal, { config: output, json: false }), 0);
  assert.match(terminal.stderr(), /nodes\[0\]\.family: the family is still the placeholder "unnamed"/);
  const { gateway } = await startOn(t, text.replaceAll(/^(data|admin):.*\n/gm, "").replace(/^/, PORTS));
  await until("the node is there", () => gateway.stats().fleet.nodes.some(({ state }) => state === "healthy"));
  const response = await chat(gateway);
  assert.equal(response.status, 200);
  await response.text();
});

test("a key is named and never written", async (t) => {
  const fake = await fakeNode(t, { apiKey: "sesame-1" });
  const missing = await run(t, [`H100=${fake.url}`], { keyEnv: "NODE_KEY" });
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /NODE_KEY is not set/);
  const { code, text, stdout, stderr } = await run(
    t,
    [`H100=${fake.url}`],
    { keyEnv: "NODE_KEY" },
    { NODE_KEY: "sesame-1" },
  );
  assert.equal(code, 0, stderr);
  assert.match(text, / {4}api_key_env: NODE_KEY\n/);
  assert.doesNotMatch(text + stdout + stderr, /sesame/);
});

test("ids come from hosts, are told apart, and names that YAML would misread are in quotes", async (t) => {
  const fake = await fakeNode(t, { model: "true: {x} #y" });
  const { port } = new URL(fake.url);
  const urls = [`H100=http://localhost:${port}`, `H100=http://localhost:${port}/v1`, `H100=127.0.0.1:${port}`];
  const { code, text, stderr } = await run(t, [...urls, ...urls]);
  assert.equal(code, 0, stderr);
  const { config } = readConfig(text, { fileName: "zml.yaml", env: {} });
  assert.deepEqual(
    config?.nodes.map(({ id }) => id),
    ["localhost", `localhost:${port}`, `127.0.0.1:${port}`],
  );
  assert.deepEqual(
    config?.nodes[0]?.models?.map(({ name }) => name),
    ["true: {x} #y"],
  );
});

test("- prints the file", async (t) => {
  const fake = await fakeNode(t);
  const { code, stdout } = await run(t, [`H100=${fake.url}`], { output: "-" });
  assert.equal(code, 0);
  assert.match(stdout, /^# Made by zml init/);
});
