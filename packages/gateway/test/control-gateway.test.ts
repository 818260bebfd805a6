import assert from "node:assert/strict";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { StartError } from "../src/control/start-error.ts";
import { explainText } from "../src/evidence/explain.ts";
import { chat, decisionOf, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const node = (id: string, url: string, rest = "family: H100") => `  - { id: ${id}, url: "${url}", ${rest} }\n`;

test("a node that only has an address is detected, asked for its models and served", async (t) => {
  const fake = await fakeNode(t);
  const { gateway } = await startOn(t, `${PORTS}workers: 2\nnodes:\n${node("a", fake.url)}`);
  const response = await chat(gateway);
  assert.equal(response.status, 200);
  const [report] = gateway.stats().fleet.nodes;
  assert.equal(report?.engine, "vllm");
  assert.equal(report?.state, "healthy");
  assert.deepEqual(report?.models, ["m"]);
});

test("the admin port tells the story of a decision and the state of the fleet", async (t) => {
  const fake = await fakeNode(t);
  const { gateway } = await startOn(t, `${PORTS}nodes:\n${node("a", fake.url)}`);
  const response = await chat(gateway);
  await response.text();
  const id = decisionOf(response);
  await until("the outcome is recorded", () => gateway.explain(id)?.outcome.kind === "success");
  const found = await fetch(`${gateway.adminUrl}/admin/v1/decisions/${id}`);
  assert.deepEqual(await found.json(), gateway.explain(id));
  const decision = gateway.explain(id);
  assert.ok(decision !== null);
  assert.equal(decision.choice.node, "a");
  assert.equal(decision.policy.name, "zml-default");
  assert.match(explainText(decision), /result {4}a \(H100\).*attempt 1/);
  const fleet = await fetch(`${gateway.adminUrl}/admin/v1/fleet`);
  assert.equal(((await fleet.json()) as { totals: { nodes: number } }).totals.nodes, 1);
  await until("the sample came in", () => gateway.stats().fleet.nodes[0]?.last_success_age_ms !== null);
  assert.equal(gateway.stats().fleet.totals.in_flight, 0);
});

test("the admin port answers what it does not know in the shape of its errors", async (t) => {
  const { gateway } = await startOn(t, PORTS);
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${gateway.adminUrl}${path}`, init);
    const { code, detail } = (await response.json()) as { code: string; detail: string };
    return { status: response.status, code, detail };
  };
  const unknown = await ask("/admin/v1/decisions/01890000-0000-7000-8000-000000000000");
  assert.deepEqual([unknown.status, unknown.code], [404, "not_found"]);
  assert.match(unknown.detail, /there is no decision .*x-zml-routing/);
  assert.equal((await ask("/nothing")).status, 404);
  assert.equal((await ask("/admin/v1/fleet", { method: "POST", body: "{}" })).status, 405);
});

test("M04: with an admin key only that key gets in, except for the probes", async (t) => {
  const keys =
    "keys:\n  - { name: ops, value_env: OPS, scopes: [admin] }\n  - { name: app, value_env: APP, scopes: [infer] }\n";
  const { gateway } = await startOn(t, `${PORTS}${keys}`, { env: { OPS: "ops-secret", APP: "app-secret" } });
  const status = async (path: string, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return (await fetch(`${gateway.adminUrl}${path}`, { headers })).status;
  };
  assert.equal(await status("/admin/v1/fleet"), 401);
  assert.equal(await status("/admin/v1/fleet", "app-secret"), 403, "a key of this gateway, for the other port");
  assert.equal(await status("/admin/v1/fleet", "nobody's"), 401);
  assert.equal(await status("/admin/v1/fleet", "ops-secret"), 200);
  assert.equal(await status("/nothing"), 401, "not even which paths exist");
  assert.equal(await status("/healthz"), 200);
  assert.equal(await status("/readyz"), 200);
});

test("a port that is taken is refused with its address and what to do, and nothing keeps running", async (t) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  const taken = `127.0.0.1:${address.port}`;
  const said = (what: string) => (error: unknown) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, new RegExp(`^${what} ${taken} is taken by another process: stop that one, or set`));
    return true;
  };
  await assert.rejects(
    startOn(t, `data: { listen: "${taken}" }\nadmin: { listen: 127.0.0.1:0 }\n`),
    said("data\\.listen"),
  );
  await assert.rejects(
    startOn(t, `data: { listen: 127.0.0.1:0 }\nadmin: { listen: "${taken}" }\n`),
    said("admin\\.listen"),
  );
});

test("two gateways on one data port: the second is refused although workers share ports", async (t) => {
  const { gateway } = await startOn(t, `${PORTS}workers: 2\n`);
  const { port } = gateway.dataAddress;
  await assert.rejects(
    startOn(t, `data: { listen: 127.0.0.1:${port} }\nadmin: { listen: 127.0.0.1:0 }\nworkers: 2\n`),
    /is taken by another process/,
  );
});

test("a reload adds and removes nodes without touching the others", async (t) => {
  const [one, two] = [await fakeNode(t), await fakeNode(t, { model: "n" })];
  const { gateway, write } = await startOn(t, `${PORTS}nodes:\n${node("a", one.url)}`);
  await (await chat(gateway)).text();
  await until("the sample came in", () => gateway.stats().fleet.nodes[0]?.last_success_age_ms !== null);
  assert.equal((await chat(gateway, { model: "n" })).status, 404);

  write(`${PORTS}nodes:\n${node("a", one.url)}${node("b", two.url, "family: MI300X")}`);
  const added = await gateway.reload();
  assert.ok(added.kind === "applied" && added.isAcknowledged);
  await until("the new node serves", async () => (await chat(gateway, { model: "n" })).status === 200);
  assert.notEqual(gateway.stats().fleet.nodes[0]?.last_success_age_ms, null, "the old one kept what it knew");

  write(`${PORTS}nodes:\n${node("b", two.url, "family: MI300X")}`);
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal((await chat(gateway)).status, 404);
  await until("the row is freed", () => gateway.stats().fleet.nodes.length === 1);
  assert.equal((await gateway.reload()).kind, "unchanged");
});

test("a reload of an unchanged file waits for nothing, not even for a change that is under way", async (t) => {
  const reading = Promise.withResolvers<void>();
  const started = await startOn(t, PORTS, {
    readAgain: async () => {
      await reading.promise;
      return null;
    },
  });
  const { gateway, path, write } = started;
  const text = readFileSync(path, "utf8");
  write(`${text}policies: [{ name: p }]\n`);
  const pending = gateway.reload();
  write(text);
  assert.equal((await gateway.reload()).kind, "unchanged");
  reading.resolve();
  assert.equal((await pending).kind, "unchanged", "it was read when it was its turn");
});

test("K05: a request on a node that leaves ends as if nothing had happened", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 40 });
  const { gateway, write } = await startOn(t, `${PORTS}nodes:\n${node("a", fake.url)}`);
  const response = await chat(gateway, { stream: true });
  assert.equal(response.status, 200);
  write(PORTS);
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal(gateway.stats().fleet.nodes[0]?.state, "draining");
  assert.match(await response.text(), /data: \[DONE\]/);
  await until("the row is freed", () => gateway.stats().fleet.nodes.length === 0);
});

test("L02: a bad file is refused as a whole with its lines, and the old one runs on", async (t) => {
  const fake = await fakeNode(t);
  const { gateway, write, log } = await startOn(t, `${PORTS}nodes:\n${node("a", fake.url)}`);
  write(`${PORTS}nodes:\n${node("a", fake.url)}${node("a", "ftp://x")}polcies: []\n`);
  const result = await gateway.reload();
  assert.ok(result.kind === "refused");
  assert.ok(result.problems.length >= 2, "all problems at once");
  assert.match(result.problems.join("\n"), /zml\.yaml:\d+:\d+ .*polcies/);
  assert.ok(log.has("error", /refused/));
  assert.equal((await chat(gateway)).status, 200);
  assert.equal(gateway.stats().refusedReloads, 1);
});

test("a change that needs a restart is refused with that text", async (t) => {
  const { gateway, write } = await startOn(t, `${PORTS}workers: 1\n`);
  write(`${PORTS}workers: 2\n`);
  assert.deepEqual(await gateway.reload(), {
    kind: "refused",
    problems: ["workers changed from 1 to 2: needs a restart"],
  });
});

test("the file is watched: written in parts or renamed over, it is applied once it is whole", async (t) => {
  const fake = await fakeNode(t);
  const { gateway, path, write } = await startOn(t, PORTS, { isWatched: true });
  const whole = `${PORTS}nodes:\n${node("a", fake.url)}`;
  write("");
  write(whole.slice(0, 40));
  write(whole);
  await until("the written file is in force", () => gateway.stats().fleet.nodes.length === 1);
  writeFileSync(`${path}.new`, `${whole}${node("b", fake.url)}`);
  renameSync(`${path}.new`, path);
  await until("the renamed file is in force", () => gateway.stats().fleet.nodes.length === 2);
});

test("a drain lets a running stream end, refuses new requests and reports that nothing was cut", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 40 });
  const { gateway } = await startOn(t, `${PORTS}workers: 2\nnodes:\n${node("a", fake.url)}`);
  const response = await chat(gateway, { stream: true });
  const stopped = gateway.stop(20_000);
  assert.match(await response.text(), /data: \[DONE\]/);
  assert.deepEqual(await stopped, { interrupted: 0, isClean: true });
  await assert.rejects(chat(gateway), "nobody listens any more");
});

test("a stream that outlives the grace is cut and counted", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 4000 });
  const { gateway } = await startOn(t, `${PORTS}nodes:\n${node("a", fake.url)}`);
  const response = await chat(gateway, { stream: true });
  const { interrupted } = await gateway.stop(50);
  assert.equal(interrupted, 1);
  await response.text().catch(() => "");
});

test("a parked request is woken by the end of a cooldown, which nothing else announces", async (t) => {
  const fake = await fakeNode(t);
  const policy = "policies: [{ name: wait, queue_on_saturation: true, max_queue_ms: 15000 }]\n";
  const rest = "health: { poll_interval_ms: 3600000 }\nfailover: { cooldown_ms: 600 }\n";
  const { gateway } = await startOn(t, `${PORTS}${rest}${policy}nodes:\n${node("a", fake.url)}`);
  fake.faults.status(500, "", {}, 1);
  assert.equal((await chat(gateway)).status, 500);
  assert.equal(gateway.stats().fleet.nodes[0]?.state, "cooling_down");
  const response = await chat(gateway, { policy: "wait" });
  assert.equal(response.status, 200);
  assert.equal(gateway.explain(decisionOf(response))?.choice.is_trial, true);
});

test("a worker that dies leaves no booking behind and is started again on the same port", async (t) => {
  const workerUrl = new URL("./dying-worker.ts", import.meta.url);
  const text = `${PORTS}workers: 1\nnodes:\n${node("a", "http://127.0.0.1:1", "family: H100, models: [m]")}`;
  const { gateway, log } = await startOn(t, text, { workerUrl });
  const say = (word: string) =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(gateway.dataAddress.port, "127.0.0.1", () => socket.write(word));
      socket.resume();
      socket.on("close", () => resolve());
      socket.on("error", (error) => ("code" in error && error.code === "ECONNRESET" ? resolve() : reject(error)));
    });
  for (const deaths of [1, 2]) {
    await say("book");
    assert.equal(gateway.stats().fleet.totals.in_flight, 1);
    await say("die");
    await until("the worker is back", () => {
      const { worker_crashes: crashes, listening_workers: listening } = gateway.stats().fleet.totals;
      return crashes === deaths && listening === 1;
    });
    assert.equal(gateway.stats().fleet.totals.in_flight, 0);
  }
  assert.ok(log.has("error", /a worker died.*told to die/));
});

test("a worker that was started again and can't listen tries on until it can", async (t) => {
  const listens = join(folder(t), "listens");
  writeFileSync(listens, "ok fail fail ok");
  const dying = new URL("./dying-worker.ts", import.meta.url);
  dying.searchParams.set("listens", listens);
  // a thread's own file loses its query
  const entry = join(folder(t), "entry.mjs");
  writeFileSync(entry, `import ${JSON.stringify(dying.href)};`);
  const { gateway, log } = await startOn(t, `${PORTS}workers: 1\n`, { workerUrl: pathToFileURL(entry) });
  const socket = connect(gateway.dataAddress.port, "127.0.0.1", () => socket.write("die"));
  socket.on("error", () => {});
  await until("the worker listens again", () => {
    const { worker_crashes: crashes, listening_workers: listening } = gateway.stats().fleet.totals;
    return crashes === 1 && listening === 1;
  });
  assert.equal(readFileSync(listens, "utf8"), "");
  assert.equal(log.lines.filter(({ message }) => /can't listen/.test(message)).length, 2);
});

test("a worker that can't start ends the start with its error", async (t) => {
  const file = join(folder(t), "broken.mjs");
  writeFileSync(file, 'throw new Error("broken on purpose");');
  await assert.rejects(
    startOn(t, PORTS, { workerUrl: pathToFileURL(file) }),
    /worker 0 died while it started.*on purpose/,
  );
});
