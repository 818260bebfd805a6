import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { EXIT } from "./exit-codes.ts";
import { simulate } from "./simulate.ts";
import { keptTerminal } from "./testing/kept-terminal.ts";

const folder = mkdtempSync(join(tmpdir(), "zml-simulate-"));
after(() => rmSync(folder, { recursive: true }));

async function run(yaml: string, { json = false, window = false } = {}) {
  const file = join(folder, "scenario.yaml");
  writeFileSync(file, yaml);
  const terminal = keptTerminal({ env: { NO_COLOR: "1" }, screen: window ? { columns: 200, rows: 40 } : null });
  const code = await simulate(terminal, { file, json });
  return { code, out: terminal.stdout(), error: terminal.stderr().replaceAll(`${file}:`, "S:") };
}

const SHORT = "workload: { preset: W1, rps: 5, duration_s: 20 }\npolicies: [WLR, zml-cost]\n";

describe("zml simulate refuses, before any work, with path and line", () => {
  const refused = async (yaml: string) => {
    const { code, out, error } = await run(yaml);
    assert.deepEqual([code, out], [EXIT.failed, ""]);
    return error;
  };
  it("keys that it does not know, and says what was meant", async () => {
    assert.equal(await refused(`gateway: 4\n`), 'S:1:1 gateway: unknown key "gateway": did you mean gateways?\n');
    assert.match(
      await refused("workload:\n  preset: W1\n  colour: red\n"),
      /^S:3:3 workload.colour: unknown key "colour": it is no key of workload/,
    );
    assert.match(
      await refused("fleet:\n  - { family: A, hardware: x, usd_per_hour: 1, nodez: 2 }\n"),
      /^S:2:\d+ fleet\[0\].nodez: unknown key/,
    );
  });
  it("values that make no sense", async () => {
    assert.match(await refused("fleet: F9\n"), /^S:1:8 fleet: this is no fleet: one of F1, F2/);
    assert.match(await refused("policies: [WLR, FAST]\n"), /^S:1:\d+ policies\[1\]: /);
    assert.match(await refused("workload: { rps: -1 }\n"), /^S:1:\d+ workload.rps: /);
    assert.match(
      await refused("workload: { rps: 1, load: 0.5 }\n"),
      /workload.rps: load and rps both say how much comes/,
    );
    assert.match(
      await refused("failures: [{ kind: down, from_s: 5, to_s: 5 }]\n"),
      /to_s \(5\) is not after from_s \(5\)/,
    );
  });
  it("more than can be simulated, and steps of time too short for it", async () => {
    assert.match(
      await refused("workload:\n  rps: 1000000\n  duration_s: 864000\n"),
      /^S:1:1 workload: 1\.00e\+6 requests\/s for 864000 s are 8\.64e\+11 requests: at most 10000000 are simulated/,
    );
    const days = Array.from({ length: 300 }, (_, day) => new Date(Date.UTC(2023, 0, 1 + day)).toISOString());
    const rows = days.map((day) => `${day.slice(0, 19)},100,10\n`);
    writeFileSync(join(folder, "thin.csv"), `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows.join("")}`);
    assert.match(
      await refused("workload: { sources: [{ trace: thin.csv }], rps: 1000 }\n"),
      /^S:1:1 workload: a trace of 0\.0000116 requests\/s can't be scaled to 1\.00e\+3: lower the rate, or let its/,
    );
    assert.match(await refused("metrics_interval_ms: 0.001\n"), /^S:1:\d+ metrics_interval_ms: too small: expected 0/);
    assert.match(
      await refused("prices: [{ kind: mean_reverting, every_s: 0.001 }]\n"),
      /^S:1:\d+ prices\[0\]\.every_s: too small/,
    );
  });
  it("families that would name their nodes alike", async () => {
    const group = (family: string) =>
      `  - { family: ${family}, hardware: H100-SXM-80GB/llama-3-8b/bf16/1, usd_per_hour: 1 }\n`;
    assert.equal(
      await refused(`fleet:\n${group("H100")}${group("h100")}`),
      "S:3:15 fleet[1].family: h100 and H100 name their nodes alike: rename one of them\n",
    );
  });
  it("what is no YAML", async () => {
    assert.match(await refused("fleet: [F3\n"), /^S:/);
  });
  it("nodes, families and hardware that are not there, and a fleet of two models", async () => {
    assert.match(
      await refused("failures: [{ kind: slow, families: [TPU], from_s: 1, to_s: 2, factor: 3 }]\n"),
      /^S:1:\d+ failures\[0\]: no family TPU: the fleet has MI300X, H100, A100, L40S/,
    );
    assert.match(
      await refused("prices: [{ kind: step, nodes: [h100-9], at_s: 1, factor: 3 }]\n"),
      /^S:1:\d+ prices\[0\]: no node h100-9/,
    );
    assert.match(
      await refused("fleet: [{ family: A, hardware: x, usd_per_hour: 1 }]\n"),
      /^S:1:\d+ fleet\[0\].hardware: unknown hardware key x: use one of/,
    );
    const two = ["H100-SXM-80GB/llama-3-8b/bf16/1", "H100-SXM-80GB/llama-3-70b/fp8/2"];
    const groups = two.map((hardware, index) => `  - { family: A${index}, hardware: ${hardware}, usd_per_hour: 1 }\n`);
    assert.match(
      await refused(`fleet:\n${groups.join("")}`),
      /^S:1:1 fleet: the fleet serves more than one model \(llama-3-8b, llama-3-70b\)/,
    );
  });
  it("a trace with a bad line, and a prompt that no node holds", async () => {
    const head = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,100,10\n";
    writeFileSync(join(folder, "bad.csv"), `${head}2023-11-16 18:15:47,-5,10\n`);
    assert.match(
      await refused("workload: { sources: [{ trace: bad.csv }] }\n"),
      /bad\.csv:3: ContextTokens is -5: it must be 0 or more/,
    );
    writeFileSync(join(folder, "long.csv"), `${head}2023-11-16 18:15:47,40000,10\n`);
    const l4 = "fleet: [{ family: L4, hardware: L4-24GB/llama-3-8b/bf16/1, usd_per_hour: 1 }]\n";
    assert.match(
      await refused(`${l4}workload: { sources: [{ trace: long.csv }] }\n`),
      /^S:1:1 fleet: request 2 of the trace takes 40010 tokens of context, and the largest node holds 30000/,
    );
  });
});

describe("zml simulate", () => {
  it("prints a table with a row for each policy, and shows progress on a window only", async () => {
    const { code, out, error } = await run(SHORT);
    assert.deepEqual([code, error], [EXIT.ok, ""]);
    assert.match(out, /^11 nodes \(MI300X, H100, A100, L40S\), 17\.87 USD\/h\n\d+ requests, 5\.00\/s, /);
    assert.match(out, /\nWLR +\d/);
    assert.match(out, /\nzml-cost +\d/);
    assert.match((await run(SHORT, { window: true })).error, /WLR: 100 %/);
  });
  it("prints the same bytes for the same seed", async () => {
    const first = await run(SHORT, { json: true });
    assert.equal(first.out, (await run(SHORT, { json: true })).out);
    assert.notEqual(first.out, (await run(`${SHORT}seed: 2\n`, { json: true })).out);
    const { policies } = JSON.parse(first.out);
    assert.equal(policies.WLR.requests, policies["zml-cost"].requests);
  });
  it("runs a trace that is not in the repository, by path beside the scenario", async () => {
    const lines = Array.from({ length: 40 }, (_, index) =>
      JSON.stringify({ timestamp: index * 100, input_length: 1_100, output_length: 20, hash_ids: [1, 2, 100 + index] }),
    );
    writeFileSync(join(folder, "own.jsonl"), `${lines.join("\n")}\n`);
    const yaml = "workload: { sources: [{ trace: own.jsonl }], rps: 10, duration_s: 10 }\npolicies: [PFX]\nseed: 3\n";
    const { policies } = JSON.parse((await run(yaml, { json: true })).out);
    assert.ok(policies.PFX.requests > 60);
    assert.ok(policies.PFX.prefix_share > 0.5, "two of three blocks are shared");
  });
  it("runs the scenario of its page", async () => {
    const page = readFileSync(new URL("../../../../docs/operations/simulate.md", import.meta.url), "utf8");
    const yaml = /```yml\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
    const { code, out, error } = await run(yaml.replace("load: 0.5 ", "load: 0.05 "));
    assert.deepEqual([code, error], [EXIT.ok, ""]);
    assert.match(out, /\nzml-latency +\d/);
  });
  it("says that there is no such file", async () => {
    const terminal = keptTerminal();
    assert.equal(await simulate(terminal, { file: join(folder, "none.yaml"), json: false }), EXIT.failed);
    assert.match(terminal.stderr(), /: there is no such file: name the scenario with -f FILE/);
  });
});
