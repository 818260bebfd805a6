/** The log of `zml serve` as whoever runs it sees it: who reads it, who does not, and what must never stand in it. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { FakeNode } from "@zml/simulator";
import { fakeNode, folder, PORTS, until } from "./control-fixture.ts";

/** A process starts in half a second on a machine that does nothing else. */
const START_MS_MAX = 60_000;
const ZML = join(import.meta.dirname, "..", "bin", "zml.mjs");

interface Served {
  readonly child: ChildProcess;
  readonly data: string;
  readonly admin: string;
  readonly path: string;
  /** What the log had so far, where it is read. */
  log(): string;
  lines(): Record<string, unknown>[];
}

/** Starts `zml serve`. @param options `isRead` false: nobody reads its log. */
async function serve(
  t: TestContext,
  text: string,
  { args = [], env = {}, isRead = true }: { args?: string[]; env?: Record<string, string>; isRead?: boolean } = {},
): Promise<Served> {
  const path = join(folder(t), "zml.yaml");
  writeFileSync(path, text);
  const child = spawn(process.execPath, [ZML, "serve", "-c", path, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  t.after(() => child.kill("SIGKILL"));
  let [out, log] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    out += piece;
  });
  if (isRead) {
    child.stderr.setEncoding("utf8").on("data", (piece: string) => {
      log += piece;
    });
  }
  const deadline = performance.now() + START_MS_MAX;
  while (!out.includes("\n")) {
    assert.ok(child.exitCode === null && performance.now() < deadline, `it did not start: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const [, data = "", admin = ""] = /^zml ready data=(\S+) admin=(\S+)\n/.exec(out) ?? [];
  const lines = () =>
    log
      .slice(0, log.lastIndexOf("\n") + 1)
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { child, data, admin, path, log: () => log, lines };
}

function nodesYaml(nodes: readonly FakeNode[], more = ""): string {
  return `nodes:\n${nodes.map(({ url }, index) => `  - { id: n${index}, url: "${url}", family: H100${more} }\n`).join("")}`;
}

function ask(data: string, headers: Record<string, string> = {}, body: unknown = {}): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify({ model: "m", messages: PROMPT, ...(body as object) });
  return fetch(`http://${data}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: text,
  });
}

const PROMPT = [{ role: "user", content: "a prompt that nobody may read" }];

const USAGE = { include_usage: true };

const accessLines = (served: Served) => served.lines().filter(({ msg }) => msg === "request");

test("a log that nobody reads stops no request and holds up no end, and its reader hears what was left out", async (t) => {
  const node = await fakeNode(t, { speedUp: 10_000, outputTokens: 1 });
  const text = `${PORTS}${nodesYaml([node], ", max_in_flight: 4096")}telemetry: { access_log: { ratio: 1 }, log: { buffer_bytes: 65536 } }\n`;
  const served = await serve(t, text, { isRead: false });
  const leftOut = async () => {
    const page = await (await fetch(`http://${served.admin}/metrics`)).text();
    return Number(/^zml_log_lines_left_out_total\{cause="unread"\} (\d+)/m.exec(page)?.[1]);
  };
  const many = async (turns: number) => {
    for (let turn = 0; turn < turns; turn++) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => ask(served.data)));
      for (const answer of answers) {
        assert.equal(answer.status, 200);
        await answer.arrayBuffer();
      }
    }
  };
  await many(30);
  await until("lines are left out", async () => (await leftOut()) > 0);
  let log = "";
  served.child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    log += piece;
  });
  await until("what was kept is read", () => log.includes('"msg":"request"'));
  await many(1);
  await until("the reader hears of it", () => /lines were left out: nobody read the log/.test(log));
  for (const line of log.slice(0, log.lastIndexOf("\n")).split("\n")) assert.doesNotThrow(() => JSON.parse(line), line);

  const stuck = await serve(t, text, { isRead: false });
  await Promise.all(Array.from({ length: 8 }, () => manyOn(stuck.data, 100)));
  stuck.child.kill("SIGTERM");
  assert.deepEqual(await once(stuck.child, "exit"), [0, null]);
});

async function manyOn(data: string, count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await (await ask(data)).arrayBuffer();
}

test("the level changes while it runs: by the admin port, by a signal, by the file", async (t) => {
  const served = await serve(t, PORTS);
  const level = async () =>
    ((await (await fetch(`http://${served.admin}/admin/v1/log/level`)).json()) as { level: string }).level;
  assert.equal(await level(), "info");
  const put = (body: object) =>
    fetch(`http://${served.admin}/admin/v1/log/level`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  assert.equal((await put({ level: "loud" })).status, 400);
  assert.equal((await put({ level: "warn" })).status, 200);
  assert.equal(await level(), "warn");
  served.child.kill("SIGUSR2");
  await until("it logs everything", async () => (await level()) === "debug");
  served.child.kill("SIGUSR2");
  await until("it logs what it did at the start", async () => (await level()) === "info");
  writeFileSync(served.path, `${PORTS}telemetry: { log: { level: error } }\n`);
  served.child.kill("SIGHUP");
  await until("the file's level is in force", async () => (await level()) === "error");
  assert.equal((await put({ level: "debug" })).status, 200);
  // another change of the file leaves what an operator set
  writeFileSync(served.path, `${PORTS}telemetry: { log: { level: error } }\nhealth: { timeout_ms: 3000 }\n`);
  served.child.kill("SIGHUP");
  await until("it is applied", () => served.log().split("the configuration was applied").length > 1);
  assert.equal(await level(), "debug");
  writeFileSync(served.path, PORTS);
  served.child.kill("SIGHUP");
  await until("the level of the command line is back", async () => (await level()) === "info");
});

test("a request has a line when that is on, with who asked, where it went and how it ended, and no prompt", async (t) => {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const off = `${PORTS}${nodesYaml([a, b])}policies: [{ name: p, accelerator_preference: [{ family: H100, priority: 1 }], cost_priority: latency }]
models: [{ name: m, policy: p }]
keys: [{ name: app, value_env: APP_KEY, scopes: [infer] }, { name: ops, value_env: OPS_KEY, scopes: [admin] }]
`;
  const served = await serve(t, off, { env: { APP_KEY: "app-key-1234567", OPS_KEY: "ops-key-1234567" } });
  const key = { authorization: "Bearer app-key-1234567" };
  await (await ask(served.data, key)).text();
  writeFileSync(served.path, `${off}telemetry: { access_log: { ratio: 1, client_address: true } }\n`);
  served.child.kill("SIGHUP");
  await until("it is applied", () => served.log().includes("the configuration was applied"));
  const answer = await ask(served.data, { ...key, "x-request-id": "mine" }, { stream: true, stream_options: USAGE });
  await answer.text();
  a.faults.status(500, "{}");
  b.faults.status(500, "{}");
  await (await ask(served.data, key)).text();
  await (await ask(served.data, {}, {})).text();
  await until("there are three lines", () => accessLines(served).length === 3);
  const [first, second, third] = accessLines(served);
  const [, decision] = /decision="([^"]+)"/.exec(answer.headers.get("x-zml-routing") ?? "") ?? [];
  const { time, trace_id, decide_ms, wait_ms, ttft_ms, duration_ms, input_tokens, node, ...rest } = first ?? {};
  assert.deepEqual(rest, {
    ...{ level: "info", msg: "request", request_id: "mine", decision, method: "POST", route: "/v1/chat/completions" },
    ...{ http_version: "1.1", client_address: "127.0.0.1", account: "default", key: "app", status: 200 },
    ...{ outcome: "delivered", model: "m", policy: "p", family: "H100", reason: "first_acceptable", stream: true },
    ...{ redispatches: 0, output_tokens: 8 },
  });
  assert.match(String(node), /^n[01]$/);
  assert.ok(Number(ttft_ms) > 0 && Number(duration_ms) >= Number(ttft_ms) && Number(input_tokens) > 0);
  assert.ok(Number(decide_ms) > 0 && wait_ms === 0 && String(trace_id).length === 32);
  assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < 60_000);
  assert.equal(second?.["redispatches"], 1);
  assert.equal(second?.["outcome"], "given_up");
  assert.deepEqual([third?.["status"], third?.["code"], third?.["key"]], [401, "missing_api_key", undefined]);
  assert.doesNotMatch(served.log(), /nobody may read|key-1234567/);
});

test("no secret of the configuration comes out of any error, wherever it is put in", async (t) => {
  const odd = () => `${Math.random().toString(36).slice(2)}"\\%41&'<>${Math.random().toString(36).slice(2)}`;
  const [app, ops, own, token] = [`app${odd()}`, `ops${odd()}`, `own${odd()}`, `tok${odd()}`];
  const secrets = [app, ops, own, token];
  const exports: string[] = [];
  const receiver = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    exports.push(Buffer.concat(pieces).toString("latin1"));
    // an error that tells the exporter its own header
    response.writeHead(400, `no ${encodeURIComponent(token)}`).end(`bad token ${request.headers.authorization}`);
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  t.after(() => receiver.close());
  const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const text = `${PORTS}${nodesYaml([a, b], ", api_key_env: NODE_KEY")}models: [{ name: m }]
keys: [{ name: app, value_env: APP_KEY, scopes: [infer] }, { name: ops, value_env: OPS_KEY, scopes: [admin] }]
telemetry:
  traces: { endpoint: "${endpoint}", ratio: 1, export_every_ms: 50, headers: [{ name: authorization, value_env: TOKEN }] }
  access_log: { ratio: 1 }
`;
  const env = { APP_KEY: app, OPS_KEY: ops, NODE_KEY: own, TOKEN: token };
  const served = await serve(t, text, { env, args: ["--log-level", "debug"] });
  const auth = { authorization: `Bearer ${app}` };
  let asked = 0;
  const send = async (headers: Record<string, string>, body: unknown = {}) => {
    asked += 1;
    const answer = await ask(served.data, headers, body).catch(() => null);
    await answer?.text().catch(() => undefined);
  };
  for (const secret of secrets) {
    await send({ authorization: `Bearer ${secret}x` });
    await send({ authorization: secret });
    await send({ "x-api-key": `${secret}!` });
    for (const name of [
      "x-request-id",
      "traceparent",
      "tracestate",
      "x-zml-policy",
      "x-zml-accelerator",
      "user-agent",
    ]) {
      await send({ ...auth, [name]: secret });
    }
    for (const field of ["model", "policy", "accelerator", "stream", "n", "max_tokens", "user"]) {
      await send(auth, { [field]: secret });
    }
    await send(auth, `{"model": "${secret}`);
    await send({ ...auth, "content-encoding": secret });
    for (const status of [400, 401, 404, 429, 500, 503]) {
      const echo = JSON.stringify({ error: { message: `your key ${secret} is ${own}`, type: secret, code: secret } });
      for (const node of [a, b]) node.faults.status(status, echo);
      await send(auth);
      await send(auth, { stream: true });
      for (const node of [a, b]) await node.faults.clear();
      await fetch(`http://${served.admin}/admin/v1/nodes/n0/clear-cooldown`, adminPost(ops, {}));
      await fetch(`http://${served.admin}/admin/v1/nodes/n1/clear-cooldown`, adminPost(ops, {}));
    }
    for (const call of adminCalls(served.admin, ops, secret))
      await call().then(
        (answer) => answer.text(),
        () => "",
      );
    writeFileSync(
      served.path,
      `${text}policies: [{ name: "${encodeURIComponent(secret)}", cost_priority: "x" }]\nworkers: "1`,
    );
    served.child.kill("SIGHUP");
    const refused = () => served.lines().filter(({ msg }) => String(msg).includes("is refused")).length;
    await until("the file is refused", () => refused() > secrets.indexOf(secret));
  }
  await until("each request has its line", () => accessLines(served).length >= asked);
  await until("the exports have failed", () => /traces can't be exported/.test(served.log()));
  const told = [served.log(), ...exports].join("\n");
  assert.match(told, /\[secret\]/, "there was something to take out");
  for (const secret of secrets) {
    const inJson = JSON.stringify(secret).slice(1, -1);
    for (const form of [secret, inJson, encodeURIComponent(secret), Buffer.from(secret).toString("base64")]) {
      assert.ok(!told.includes(form), `${form} in ${told.slice(told.indexOf(form) - 300, told.indexOf(form) + 100)}`);
    }
  }
  assert.doesNotMatch(told, /nobody may read/);
});

function adminPost(key: string, body: unknown): RequestInit {
  return {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  };
}

/** Ways to put a text into the admin API that end in an error or in a record. */
function adminCalls(admin: string, key: string, text: string): (() => Promise<Response>)[] {
  const at = (path: string) => `http://${admin}/admin/v1/${path}`;
  const path = encodeURIComponent(text);
  const auth = { authorization: `Bearer ${key}` };
  return [
    () => fetch(at("fleet"), { headers: { authorization: `Bearer ${text}?` } }),
    () => fetch(at(`decisions/${path}`), { headers: auth }),
    () => fetch(at(`nodes/${path}`), { headers: auth }),
    () => fetch(at(`nodes/${path}/drain`), adminPost(key, {})),
    () => fetch(at(`decisions?policy=${path}`), { headers: auth }),
    () => fetch(at("apply"), adminPost(key, { nodes: [{ id: text, url: text, family: text, api_key_env: text }] })),
    () => fetch(at("apply"), adminPost(key, { keys: [{ name: text, value_env: text }] })),
    () => fetch(at("store/backup"), adminPost(key, { path: `/nowhere/${path}` })),
    () => fetch(at("log/level"), { ...adminPost(key, { level: text }), method: "PUT" }),
    () =>
      fetch(at("configuration/dry-run"), {
        method: "POST",
        headers: { ...auth, "content-type": "application/yaml" },
        body: `nodes: [{ id: a, api_key_env: '${text.replaceAll("'", "''")}' }`,
      }),
  ];
}
