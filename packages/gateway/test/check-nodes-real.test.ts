/** The operator's commands against a real llama.cpp: what they say is what the server's own metrics say. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, type TestContext, test } from "node:test";
import type { FleetReportJson, NodeReportJson } from "zml";
import { ensureLlamaServer, startLlamaServer, writeTinyGguf } from "../../simulator/real/index.ts";
import { folder, until } from "./control-fixture.ts";

const zml = join(import.meta.dirname, "..", "bin", "zml.mjs");
const SLOTS = 4;
const CONTEXT = 2048;
const limits = { timeout: 120_000 };

let directory = "";
let model = "";

before(
  async () => {
    directory = await mkdtemp(join(tmpdir(), "zml-check-"));
    model = join(directory, "story.gguf");
    // wide enough that 64 tokens take some tens of milliseconds
    await Promise.all([writeTinyGguf(model, { dim: 512, layers: 4, heads: 8 }), ensureLlamaServer()]);
  },
  { timeout: 150_000 },
);

after(() => rm(directory, { recursive: true, force: true }));

async function server(t: TestContext) {
  const options = { model, alias: "story", slots: SLOTS, contextTokens: CONTEXT, startDeadlineMs: 60_000 };
  const started = await startLlamaServer(options);
  t.after(() => started.stop());
  return started;
}

function run(args: readonly string[], cwd: string): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [zml, ...args], { cwd, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** A number of llama.cpp's metrics page. */
async function metricOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const [, value = ""] = new RegExp(`^llamacpp:${name} (\\S+)$`, "m").exec(text) ?? [];
  assert.notEqual(value, "", name);
  return Number(value);
}

test("init writes a file for a real llama.cpp, whose check is green but for the price", limits, async (t) => {
  const { url } = await server(t);
  const cwd = folder(t);
  const made = await run(["init", `CPU=${url}`], cwd);
  assert.equal(made.status, 0, made.stderr);
  const text = await readFile(join(cwd, "zml.yaml"), "utf8");
  assert.match(text, / {4}family: CPU\n {4}# engine: llamacpp, detected \(b\d+/);
  assert.match(text, / {6}- story {2}# context 2048 tokens\n/);
  assert.match(text, /# max_in_flight: 5 +# from the engine, of which it runs 4 at once\n/);

  const checked = await run(["nodes", "check"], cwd);
  assert.equal(checked.status, 0, checked.stdout);
  const points = [...checked.stdout.matchAll(/^ {2}(green|yellow|red) +(\w+) /gm)].map(([, level, name]) => [
    name,
    level,
  ]);
  assert.deepEqual(points, [
    ["reachable", "green"],
    ["ready", "green"],
    ["engine", "green"],
    ["model", "green"],
    ["context", "green"],
    ["limit", "green"],
    ["metrics", "green"],
    ["keep_alive", "green"],
    ["price", "yellow"],
  ]);
  assert.match(checked.stdout, /context {5}story: 2048 tokens\n/);
  assert.match(checked.stdout, /max_in_flight 5, from the engine; the engine runs 4 at once\n/);

  const wrong = join(cwd, "wrong.yaml");
  await writeFile(wrong, text.replace("- story ", "- another "));
  const other = await run(["nodes", "check", "-c", wrong, "--problems"], cwd);
  assert.match(other.stdout, /yellow {2}model {7}another: .* although another is not in its list: it lists story\n/);
});

test(
  "depth and limit of zml nodes are what a real llama.cpp says itself under load, and go when callers leave",
  limits,
  async (t) => {
    const { url } = await server(t);
    const cwd = folder(t);
    await writeFile(
      join(cwd, "zml.yaml"),
      `data: { listen: 127.0.0.1:0 }\nadmin: { listen: 127.0.0.1:0 }\nstore: { path: ":memory:" }\n` +
        `health: { poll_interval_ms: 250 }\nnodes:\n  - { id: a, url: "${url}", family: CPU }\n`,
    );
    const child = spawn(process.execPath, [zml, "serve"], { cwd, stdio: ["ignore", "pipe", "pipe"] });
    t.after(() => child.kill("SIGKILL"));
    let stdout = "";
    child.stdout.on("data", (text) => {
      stdout += String(text);
    });
    await until("it is ready", () => stdout.includes("\n"));
    const [, data = "", admin = ""] = /data=(\S+) admin=(\S+)\n$/.exec(stdout) ?? [];

    // four run and two wait there: those past the gateway are seen by the node's own numbers only
    const ended = new AbortController();
    t.after(() => ended.abort());
    // streams: a plain answer is computed to its end there, whether anybody waits for it or not
    const body = {
      model: "story",
      stream: true,
      max_tokens: 1900,
      ignore_eos: true,
      messages: [{ role: "user", content: "go" }],
    };
    const send = async (base: string): Promise<void> => {
      const init = { method: "POST", body: JSON.stringify(body), signal: ended.signal };
      const answer = fetch(`${base}/v1/chat/completions`, init).then((response) => response.text());
      await answer.catch(() => "");
    };
    const requests = [`http://${data}`, `http://${data}`, `http://${data}`, url, url, url].map(send);
    const seen = async (): Promise<NodeReportJson> => {
      const { stdout: text } = await run(["nodes", "--json", "--admin", admin], cwd);
      const [node] = (JSON.parse(text) as FleetReportJson).nodes;
      return node ?? assert.fail(text);
    };
    let busy = await seen();
    await until("all six are seen", async () => {
      busy = await seen();
      return busy.depth === 6;
    });
    const own = {
      running: await metricOf(url, "requests_processing"),
      waiting: await metricOf(url, "requests_deferred"),
    };
    assert.deepEqual({ running: busy.running, waiting: busy.waiting }, own);
    assert.equal(own.running + own.waiting, 6);
    assert.deepEqual([busy.in_flight, busy.foreign, busy.concurrency_limit, busy.max_in_flight], [3, 3, SLOTS, 5]);

    ended.abort();
    await Promise.all(requests);
    await until("it is calm", async () => (await seen()).depth === 0);
    assert.equal(await metricOf(url, "requests_processing"), 0);
  },
);
