/** Nodes that come and go by themselves, through the whole gateway. */

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import type { FakeNode } from "@zml/simulator";
import type { NodeReportJson } from "../src/control/fleet-report.ts";
import type { Gateway } from "../src/control/gateway-interface.ts";
import type { DiscoveryReportJson } from "../src/discovery/index.ts";
import { apiServer, kubeconfigFor, slice } from "../src/discovery/testing/api-server.ts";
import { dnsServer, RCODE } from "../src/discovery/testing/dns-server.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const portOf = ({ url }: { url: string }) => Number(new URL(url).port);
const targetOf = (node: { url: string }) => `127.0.0.1:${portOf(node)}`;

function sources(...yaml: string[]): string {
  return `${PORTS}discovery:\n  sources:\n${yaml.map((one) => `    - ${one}\n`).join("")}`;
}

const nodes = (gateway: Gateway): readonly NodeReportJson[] => gateway.stats().fleet.nodes;
const nodeOf = ({ headers }: Response) => decodeRoutingHeader(headers.get("x-zml-routing") ?? "")?.node;
const stateOf = (gateway: Gateway, id: string) => nodes(gateway).find((node) => node.id === id)?.state;

async function sourcesOf(gateway: Gateway): Promise<DiscoveryReportJson["sources"]> {
  const report = (await (await fetch(`${gateway.adminUrl}/admin/v1/discovery`)).json()) as DiscoveryReportJson;
  return report.sources;
}

/** A list of targets in a file. */
function listFile(t: TestContext): { path: string; write(...targets: string[]): void } {
  const path = join(folder(t), "nodes.json");
  return {
    path,
    write: (...targets) => writeFileSync(path, JSON.stringify([{ targets, labels: { family: "H100" } }])),
  };
}

test("nodes of a file are there at the start, more come, and those that go end their streams unbroken", async (t) => {
  const slow = { speedUp: 1, outputTokens: 60 };
  const [a, b, c] = [await fakeNode(t, slow), await fakeNode(t, slow), await fakeNode(t, slow)];
  const list = listFile(t);
  list.write(targetOf(a));
  const { gateway } = await startOn(t, sources(`{ name: rack, kind: file_sd, paths: ["${list.path}"], node: {} }`));
  assert.deepEqual(
    nodes(gateway).map(({ id, origin, family, state }) => ({ id, origin, family, state })),
    [{ id: `rack:${targetOf(a)}`, origin: "rack", family: "H100", state: "healthy" }],
    "ready comes with what is there",
  );
  list.write(targetOf(a), targetOf(b), targetOf(c));
  await until("all three are healthy", () => nodes(gateway).filter(({ state }) => state === "healthy").length === 3);

  const streams: Response[] = [];
  const used = new Set<string | undefined>();
  await until("each node has some of the streams", async () => {
    const stream = await chat(gateway, { stream: true });
    streams.push(stream);
    return used.add(nodeOf(stream)).size === 3;
  });
  list.write(targetOf(b));
  await until("two are draining", () => nodes(gateway).filter(({ state }) => state === "draining").length === 2);
  const answer = await chat(gateway, { stream: true, max_tokens: 2 });
  assert.equal(nodeOf(answer), `rack:${targetOf(b)}`);
  for (const stream of [...streams, answer]) assert.match(await stream.text(), /data: \[DONE\]/);
  await until("the rows are freed", () => nodes(gateway).length === 1);
});

test("a DNS server that fails keeps the fleet, one that says that there is nothing empties it after the grace", async (t) => {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const records = (...some: FakeNode[]) => ({ srv: some.map((node) => ({ name: "gpu.test", port: portOf(node) })) });
  const server = await dnsServer(t, (type) => {
    if (type === "SRV") return records(a, b);
    return type === "A" ? { a: ["127.0.0.1"] } : { aaaa: [] };
  });
  const good = server.answer;
  const yaml = `{ name: pool, kind: dns, hostname: _http._tcp.gpu.test, record: srv, servers: ["${server.address}"], refresh_ms: 100, empty_grace_ms: 1500, node: { family: H100 } }`;
  const { gateway, log } = await startOn(t, sources(yaml));
  assert.equal(nodes(gateway).filter(({ state }) => state === "healthy").length, 2);
  assert.equal((await chat(gateway)).status, 200);
  const hosts = new Set([...a.received.all, ...b.received.all].map(({ headers }) => headers.host));
  assert.deepEqual(
    hosts,
    new Set([`gpu.test:${portOf(a)}`, `gpu.test:${portOf(b)}`]),
    "the name stays in the host field",
  );

  server.answer = () => ({ rcode: RCODE.servFail });
  await until("the source fails", async () => (await sourcesOf(gateway))[0]?.state === "failing");
  const [failing] = await sourcesOf(gateway);
  assert.equal(failing?.error, "looking up _http._tcp.gpu.test failed: the DNS server has a problem (SERVFAIL)");
  assert.equal(failing.nodes, 2);
  assert.ok(log.has("warn", /a source of nodes fails: its last list stays.*SERVFAIL/));
  assert.equal((await chat(gateway)).status, 200);

  server.answer = () => ({ rcode: RCODE.nxDomain });
  await until("the empty list waits", async () => (await sourcesOf(gateway))[0]?.empty_in_ms !== null);
  await until("the grace is over", () => nodes(gateway).length === 0);
  await until("there is no node and no model", async () => (await chat(gateway)).status === 404);
  server.answer = good;
  await until("they are back", () => nodes(gateway).filter(({ state }) => state === "healthy").length === 2);
});

test("a node that comes back under its name with another model is read again", async (t) => {
  const first = await fakeNode(t, { model: "m" });
  const list = listFile(t);
  list.write(targetOf(first));
  const { gateway } = await startOn(t, sources(`{ name: rack, kind: file_sd, paths: ["${list.path}"], node: {} }`));
  assert.equal((await chat(gateway, { model: "m" })).status, 200);
  list.write();
  await until("it left", () => nodes(gateway).every(({ state }) => state === "draining"));
  await first.stop();
  await fakeNode(t, { model: "other", port: portOf(first) });
  list.write(targetOf(first));
  await until("it serves the model of now", async () => (await chat(gateway, { model: "other" })).status === 200);
  assert.equal((await chat(gateway, { model: "m" })).status, 404);
});

test("a node that flaps keeps its row: what runs on it counts on", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 200 });
  const list = listFile(t);
  list.write(targetOf(fake));
  const { gateway } = await startOn(t, sources(`{ name: rack, kind: file_sd, paths: ["${list.path}"], node: {} }`));
  const id = `rack:${targetOf(fake)}`;
  const streams = await Promise.all([chat(gateway, { stream: true }), chat(gateway, { stream: true })]);
  list.write();
  await until("it is draining", () => stateOf(gateway, id) === "draining");
  list.write(targetOf(fake));
  await until("it is back", () => stateOf(gateway, id) === "healthy");
  assert.equal(nodes(gateway).length, 1);
  assert.equal(nodes(gateway)[0]?.in_flight, 2);
  for (const stream of streams) assert.match(await stream.text(), /data: \[DONE\]/);
  await until("the places are given back", () => nodes(gateway)[0]?.in_flight === 0);
});

test("a terminating endpoint of a service drains at once, also when it is the last one", async (t) => {
  const fake = await fakeNode(t, { speedUp: 1, outputTokens: 60 });
  const api = await apiServer(t);
  const endpoint = (conditions: object) =>
    slice("s", [{ ip: "127.0.0.1", pod: "vllm-0", ...conditions }], {
      ports: [{ port: portOf(fake) }],
      labels: { gpu: "MI300X" },
    });
  api.set(endpoint({ ready: true }));
  const yaml = `{ name: k8s, kind: kubernetes, service: vllm, kubeconfig: "${kubeconfigFor(t, api)}", labels: { family: gpu }, node: {} }`;
  const { gateway, log } = await startOn(t, sources(yaml));
  const id = `k8s:${targetOf(fake)}`;
  assert.deepEqual(
    nodes(gateway).map((node) => [node.id, node.family, node.state]),
    [[id, "MI300X", "healthy"]],
  );
  const stream = await chat(gateway, { stream: true });
  await until("it watches", () => api.watches.size === 1);
  api.set(endpoint({ ready: false, serving: true, terminating: true }));
  await until("it is draining", () => stateOf(gateway, id) === "draining");
  assert.match(await stream.text(), /data: \[DONE\]/);
  await until("it is gone", () => nodes(gateway).length === 0);
  assert.ok(!JSON.stringify(log.lines).includes(api.token), "the token is in no line of the log");
});

test("the start waits start_wait_ms for a source that does not answer, and its nodes come when they come", async (t) => {
  const fake = await fakeNode(t);
  const server = await dnsServer(t, () => "silence");
  const yaml = `{ name: pool, kind: dns, hostname: gpu.test, port: ${portOf(fake)}, servers: ["${server.address}"], refresh_ms: 100, node: { family: H100 } }`;
  const startMs = performance.now();
  const { gateway } = await startOn(t, sources(yaml).replace("discovery:\n", "discovery:\n  start_wait_ms: 300\n"));
  assert.ok(performance.now() - startMs >= 300, "it waited");
  assert.equal(nodes(gateway).length, 0, "it is ready with what is there");
  assert.equal((await sourcesOf(gateway))[0]?.state, "waiting");
  server.answer = () => ({ a: ["127.0.0.1"] });
  await until("its node serves", async () => (await chat(gateway)).status === 200);
});

test("a reload keeps the sources that did not change, and gives found nodes what the file says anew", async (t) => {
  const fake = await fakeNode(t);
  const api = await apiServer(t);
  api.set(slice("s", [{ ip: "127.0.0.1" }], { ports: [{ port: portOf(fake) }] }));
  const source = (family: string) =>
    sources(`{ name: k8s, kind: kubernetes, service: vllm, kubeconfig: "${kubeconfig}", node: { family: ${family} } }`);
  const kubeconfig = kubeconfigFor(t, api);
  const { gateway, write } = await startOn(t, source("H100"));
  await until("it watches", () => api.watches.size === 1);
  write(source("MI300X"));
  assert.equal((await gateway.reload()).kind, "applied");
  assert.equal(nodes(gateway)[0]?.family, "MI300X");
  assert.equal(api.lists, 1);
  write(PORTS);
  assert.equal((await gateway.reload()).kind, "applied");
  await until("its node is gone", () => nodes(gateway).length === 0);
  await until("its watch ended", () => api.watches.size === 0);
});

test("a node of the file has its place before one that was found, and bad targets are named with their reasons", async (t) => {
  const fake = await fakeNode(t);
  const list = listFile(t);
  list.write(targetOf(fake), "169.254.169.254:80", "no target");
  const text = `${sources(`{ name: rack, kind: file_sd, paths: ["${list.path}"], node: {} }`)}nodes:\n  - { id: mine, url: "${fake.url}", family: F }\n`;
  const { gateway, log } = await startOn(t, text);
  assert.deepEqual(
    nodes(gateway).map(({ id, origin }) => [id, origin]),
    [["mine", "file"]],
  );
  const [rack] = await sourcesOf(gateway);
  assert.equal(rack?.state, "degraded");
  assert.deepEqual(
    rack.dropped.map(({ target }) => target),
    ['"no target"', "169.254.169.254:80", `rack:${targetOf(fake)}`],
  );
  assert.deepEqual(rack.dropped.at(-1)?.reason, "the node mine has the same url, from file");
  assert.ok(log.has("warn", /targets of a source are no nodes/));
});
