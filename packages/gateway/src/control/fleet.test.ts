import assert from "node:assert/strict";
import { test } from "node:test";
import {
  applyUpdate,
  CELL,
  createDirectory,
  createFleetTable,
  DEFAULT_TOKENS_PER_SECOND,
  type Directory,
  type FleetTable,
} from "@zml/engine";
import { reportedModel } from "../availability/adapters/adapter.ts";
import type { WorkerUpdate } from "../thread-messages.ts";
import { Fleet, type FleetChange } from "./fleet.ts";
import { createNameRegistry } from "./name-registry.ts";
import { configured } from "./testing/configured.ts";

interface Setup {
  table: FleetTable;
  fleet: Fleet;
  directory: Directory;
  /** Puts a file in force and lets the directory of a worker follow. */
  apply(text: string, env?: Record<string, string>): FleetChange;
  commit(): FleetChange;
}

function setUp(rows = 64): Setup {
  const table = createFleetTable({ nodes: rows, workers: 1 });
  const fleet = new Fleet(table, createNameRegistry());
  const directory = createDirectory();
  const commit = () => {
    const change = fleet.commit();
    for (const update of change.updates) {
      if (update.directory !== undefined) applyUpdate(directory, update.directory);
    }
    return change;
  };
  const apply = (text: string, env?: Record<string, string>) => {
    const { config, secrets } = configured(text, env);
    fleet.setConfig(config, secrets);
    return commit();
  };
  return { table, fleet, directory, apply, commit };
}

const node = (id: string, rest = "family: H100, models: [m]", url = `http://${id}:8000`) =>
  `  - { id: ${id}, url: "${url}", ${rest} }\n`;
const nodes = (...lines: string[]) => `nodes:\n${lines.join("")}`;

function rowOf(fleet: Fleet, id: string): number {
  const found = [...fleet.nodes].find(({ config, leftAtVersion }) => config.id === id && leftAtVersion === Infinity);
  assert.ok(found !== undefined, `node ${id} has a row`);
  return found.row;
}

function modelRows(directory: Directory, name: string, account = "default"): number[] {
  return [...(directory.accounts.get(account)?.models.get(name)?.rows ?? [])];
}

test("a price by reference is written for the nodes that name it, and a stated one counts until there is one", () => {
  const prices = new Map<string, number>();
  const table = createFleetTable({ nodes: 8, workers: 1 });
  const source = { usdPerGpuHour: (key: string) => prices.get(key) ?? Number.NaN };
  const fleet = new Fleet(table, createNameRegistry(), source);
  const feeds = "prices:\n  feeds:\n    - { name: f, provider: lambda }\n";
  const cost = (text: string) => `family: H100, models: [m], gpus: 8, cost: { ${text} }`;
  const { config, secrets } = configured(
    feeds +
      nodes(
        node("a", cost("price: f/any/x/on_demand, usd_per_gpu_hour: 3")),
        node("b", cost("price: f/any/x/on_demand")),
        node("c", cost("price: f/any/y/on_demand")),
        node("d", cost("usd_per_gpu_hour: 1")),
      ),
  );
  fleet.setConfig(config, secrets);
  fleet.commit();
  const row = (id: string) => table.priceUsdPerHour[rowOf(fleet, id)];
  assert.deepEqual(["a", "b", "c", "d"].map(row), [24, Number.NaN, Number.NaN, 8]);
  const before = Atomics.load(table.cells, CELL.sequence);
  prices.set("f/any/x/on_demand", 2).set("f/any/y/on_demand", 5);
  fleet.writePrices(new Set(["f/any/x/on_demand"]));
  assert.deepEqual(["a", "b", "c", "d"].map(row), [16, 16, Number.NaN, 8], "only what changed is written");
  assert.equal(Atomics.load(table.cells, CELL.sequence), before + 2, "published");
  fleet.commit();
  assert.deepEqual(["a", "b", "c", "d"].map(row), [16, 16, 40, 8]);
});

test("a node gets a row with what its configuration says", () => {
  const { fleet, table, apply } = setUp();
  const { added } = apply(
    nodes(node("a", "family: H100, models: [m], gpus: 8, cost: { usd_per_gpu_hour: 2 }, max_in_flight: 7")),
  );
  const row = rowOf(fleet, "a");
  assert.equal(table.isLive[row], 1);
  assert.equal(table.priceUsdPerHour[row], 16);
  assert.equal(table.maxInFlight[row], 7);
  assert.deepEqual(
    added.map(({ id, row: polled, placements }) => ({ id, polled, models: placements.map(({ name }) => name) })),
    [{ id: "a", polled: row, models: ["m"] }],
  );
});

test("applying the same configuration again changes nothing and makes no version", () => {
  const { apply } = setUp();
  const first = apply(nodes(node("a"), node("b")));
  const again = apply(nodes(node("a"), node("b")));
  assert.deepEqual(again, { updates: [], version: first.version, added: [], updated: [], removed: [], warnings: [] });
});

test("a change of one node sends that node only", () => {
  const { apply } = setUp();
  apply(nodes(node("a"), node("b")));
  const { updates, updated } = apply(nodes(node("a", "family: H100, models: [m], max_connections: 9"), node("b")));
  assert.equal(updates.length, 1);
  assert.deepEqual(
    updates[0]?.nodes?.map(({ id, maxConnections }) => ({ id, maxConnections })),
    [{ id: "a", maxConnections: 9 }],
  );
  assert.equal(updates[0]?.directory, undefined);
  assert.deepEqual(updated, [], "the poller is not told of what does not concern it");
});

test("a node that leaves takes no traffic, and keeps its row while a request stands on it", () => {
  const { fleet, table, directory, apply } = setUp();
  apply(nodes(node("a"), node("b")));
  const row = rowOf(fleet, "a");
  Atomics.add(table.total.inFlight, row, 1);
  const { version, removed, updates } = apply(nodes(node("b")));
  assert.deepEqual(removed, [row]);
  assert.deepEqual(updates[0]?.removeNodes, [row]);
  assert.equal(table.isDraining[row], 1);
  assert.ok(!modelRows(directory, "m").includes(row));
  assert.equal(fleet.collect(version), 0);
  assert.equal(table.isLive[row], 1);
  Atomics.sub(table.total.inFlight, row, 1);
  assert.equal(fleet.collect(version), 1);
  assert.equal(table.isLive[row], 0);
});

test("a row is not freed before every worker has acknowledged a version without its node", () => {
  const { fleet, table, apply } = setUp();
  const before = apply(nodes(node("a"), node("b"))).version;
  const row = rowOf(fleet, "a");
  const { version } = apply(nodes(node("b")));
  assert.equal(fleet.collect(before), 0);
  assert.equal(table.isLive[row], 1);
  assert.equal(fleet.isAnyLeaving, true);
  assert.equal(fleet.collect(version), 1);
  assert.equal(fleet.isAnyLeaving, false);
});

test("the same id at the same url comes back to its row, its counts and its figures", () => {
  const { fleet, table, directory, apply } = setUp();
  apply(nodes(node("a"), node("b")));
  const row = rowOf(fleet, "a");
  Atomics.add(table.total.inFlight, row, 3);
  table.lastSuccessAtMs[row] = 42;
  const placement = fleet.nodeAt(row)?.placements.get("m");
  apply(nodes(node("b")));
  const { added } = apply(nodes(node("a"), node("b")));
  assert.equal(rowOf(fleet, "a"), row);
  assert.equal(table.isDraining[row], 0);
  assert.equal(table.total.inFlight[row], 3);
  assert.equal(table.lastSuccessAtMs[row], 42);
  assert.equal(fleet.nodeAt(row)?.placements.get("m"), placement);
  assert.deepEqual(
    added.map(({ row: polled }) => polled),
    [row],
  );
  assert.ok(modelRows(directory, "m").includes(row));
  assert.equal(fleet.collect(fleet.version), 0);
});

test("another url under the same id is another endpoint: a new row, while the old one empties", () => {
  const { fleet, table, directory, apply } = setUp();
  apply(nodes(node("a")));
  const old = rowOf(fleet, "a");
  Atomics.add(table.total.inFlight, old, 1);
  apply(nodes(node("a", "family: H100, models: [m]", "http://elsewhere:8000")));
  const row = rowOf(fleet, "a");
  assert.notEqual(row, old);
  assert.deepEqual(modelRows(directory, "m"), [row]);
  assert.equal(table.total.inFlight[old], 1);
  assert.equal(table.total.inFlight[row], 0);
});

test("a node that moves to another account gets a row of its own, while the old one empties", () => {
  const { fleet, table, directory, apply } = setUp();
  const accounts = "accounts: [{ name: one }, { name: two }]\n";
  apply(accounts + nodes(node("a", "family: H100, models: [m], account: one")));
  const old = rowOf(fleet, "a");
  table.errorRate[old] = 0.5;
  Atomics.add(table.total.inFlight, old, 1);
  apply(accounts + nodes(node("a", "family: H100, models: [m], account: two")));
  const row = rowOf(fleet, "a");
  assert.notEqual(row, old);
  assert.equal(table.isDraining[old], 1);
  assert.equal(table.total.inFlight[row], 0);
  assert.deepEqual(modelRows(directory, "m", "one"), []);
  assert.deepEqual(modelRows(directory, "m", "two"), [row]);
});

test("a freed row serves another node", () => {
  const { fleet, table, apply } = setUp(1);
  apply(nodes(node("a")));
  const { version, warnings } = apply(nodes(node("b")));
  assert.match(warnings.join("\n"), /node b has no row yet/);
  assert.equal(fleet.collect(version), 1);
  const next = apply(nodes(node("b")));
  assert.equal(next.added[0]?.id, "b");
  assert.equal(table.isLive[0], 1);
});

test("reported models are served under their own name, and stay when the node says nothing", () => {
  const { fleet, directory, apply, commit } = setUp();
  apply(nodes(node("a", "family: H100")));
  const row = rowOf(fleet, "a");
  assert.equal(directory.accounts.get("default")?.isCatalogComplete, false);
  fleet.noteModels(row, [reportedModel("reported", { contextTokens: 8192 })]);
  const { updated } = commit();
  assert.deepEqual(modelRows(directory, "reported"), [row]);
  assert.equal(directory.accounts.get("default")?.models.get("reported")?.isRegistered, false);
  assert.equal(directory.accounts.get("default")?.isCatalogComplete, true);
  assert.equal(updated[0]?.placements[0]?.upstreamId, "reported");
  assert.equal(commit().updates.length, 0);
});

test("declared models are what a node serves, whatever it reports", () => {
  const { fleet, directory, apply, commit } = setUp();
  apply(nodes(node("a", "family: H100, models: [{ name: big, upstream_model: org/big }]")));
  const row = rowOf(fleet, "a");
  fleet.noteModels(row, [reportedModel("org/big", { contextTokens: 1 })]);
  assert.deepEqual(commit().updates, []);
  assert.deepEqual(modelRows(directory, "big"), [row]);
  assert.deepEqual(modelRows(directory, "org/big"), []);
});

test("a model's other name on the node reaches workers and poller", () => {
  const { apply } = setUp();
  const { updates, added } = apply(nodes(node("a", "family: H100, models: [{ name: big, upstream_model: org/big }]")));
  assert.deepEqual(updates[0]?.nodes?.[0]?.upstreamModels, { 0: "org/big" });
  assert.equal(added[0]?.placements[0]?.upstreamId, "org/big");
});

test("a node that answers without telling its models completes the catalog", () => {
  const { fleet, directory, apply, commit } = setUp();
  apply(nodes(node("a", "family: H100, engine: custom")));
  assert.equal(fleet.noteAnswer(rowOf(fleet, "a")), true);
  assert.equal(fleet.noteAnswer(rowOf(fleet, "a")), false);
  commit();
  assert.equal(directory.accounts.get("default")?.isCatalogComplete, true);
});

test("nodes serve the models of their own account only", () => {
  const { fleet, directory, apply } = setUp();
  apply(`accounts: [{ name: other }]\n${nodes(node("a"), node("b", "family: H100, models: [m], account: other"))}`);
  assert.deepEqual(modelRows(directory, "m"), [rowOf(fleet, "a")]);
  assert.deepEqual(modelRows(directory, "m", "other"), [rowOf(fleet, "b")]);
});

test("a detected engine reaches the workers, a configured one is never replaced", () => {
  const { fleet, apply, commit } = setUp();
  apply(nodes(node("a"), node("b", "family: H100, models: [m], engine: tgi")));
  fleet.noteEngine(rowOf(fleet, "a"), "vllm");
  fleet.noteEngine(rowOf(fleet, "b"), "vllm");
  const { updates } = commit();
  assert.deepEqual(
    updates.flatMap(({ nodes: sent = [] }) => sent.map(({ id, engine }) => ({ id, engine }))),
    [{ id: "a", engine: "vllm" }],
  );
});

test("a node that is of another family from now on starts without what the old hardware showed", () => {
  const { table, fleet, apply } = setUp();
  apply(nodes(node("a")));
  const placement = [...fleet.nodes][0]?.placements.get("m") ?? assert.fail();
  table.measuredTokensPerSecond[placement] = 9_000;
  table.tokensPerSecond[placement] = 9_000;
  apply(nodes(node("a", "family: H100, models: [m], gpus: 4")));
  assert.equal(table.tokensPerSecond[placement], 9_000, "what did not change keeps its figures");
  apply(nodes(node("a", "family: MI300X, models: [m]")));
  assert.ok(Number.isNaN(table.measuredTokensPerSecond[placement] as number));
  assert.equal(table.tokensPerSecond[placement], DEFAULT_TOKENS_PER_SECOND);
});

test("a node that lists other models each time takes no names and no room from others", () => {
  const { table, fleet, directory, apply, commit } = setUp(2_048);
  apply(nodes(node("liar", "family: H100"), node("a", "family: H100")));
  const liar = rowOf(fleet, "liar");
  // requests run on it all the time, so that no row of a model that left can be freed
  Atomics.store(table.total.inFlight, liar, 1);
  const warnings: string[] = [];
  for (let round = 0; round < 20; round++) {
    const models = Array.from({ length: 1_000 }, (_, index) => reportedModel(`m-${round}-${index}`));
    fleet.noteModels(liar, models);
    warnings.push(...commit().warnings);
  }
  fleet.noteModels(rowOf(fleet, "a"), [reportedModel("new")]);
  commit();
  assert.deepEqual(modelRows(directory, "new"), [rowOf(fleet, "a")]);
  assert.deepEqual(modelRows(directory, "m-0-0"), [], "what it lists no more");
  assert.deepEqual(modelRows(directory, "m-1-0").length, 0);
  assert.equal(warnings.filter((warning) => /node liar has listed 2048 names/.test(warning)).length, 1);
  Atomics.store(table.total.inFlight, liar, 0);
});

test("keys cross as hashes, node keys as they are", () => {
  const { apply } = setUp();
  const text = `keys: [{ name: app, value_env: APP }]\n${nodes(node("a", "family: H100, models: [m], api_key_env: A"))}`;
  const { updates } = apply(text, { APP: "caller-key", A: "node-key" });
  assert.equal(updates[0]?.nodes?.[0]?.apiKey, "node-key");
  assert.equal(updates[0]?.keys?.list[0]?.digest.length, 64);
  assert.ok(!JSON.stringify(updates[0]?.keys).includes("caller-key"));
});

test("what a new worker is sent is what the others have", () => {
  const { fleet, directory, apply, commit } = setUp();
  apply(nodes(node("a"), node("b", "family: MI300X")));
  fleet.noteModels(rowOf(fleet, "b"), [reportedModel("x", { contextTokens: 1 })]);
  commit();
  apply(nodes(node("b", "family: MI300X")));
  const fresh = createDirectory();
  const full = fleet.fullUpdates();
  for (const update of full) if (update.directory !== undefined) applyUpdate(fresh, update.directory);
  assert.deepEqual(fresh.accounts, directory.accounts);
  assert.deepEqual(fresh.families, directory.families);
  assert.equal(fresh.version, fleet.version);
  assert.deepEqual(
    full.flatMap(({ nodes: sent = [] }) => sent.map(({ id }) => id)),
    ["b"],
  );
  assert.ok(full[0]?.settings !== undefined, "the first message holds the settings");
});

test("a large first version comes in slices, nodes before what refers to them, and only the last one counts", () => {
  const { fleet, apply } = setUp(4096);
  const lines = Array.from({ length: 1201 }, (_, index) => node(`n${index}`));
  const { updates, version } = apply(nodes(...lines));
  const kinds = updates.map((update: WorkerUpdate) => ({
    version: update.version,
    nodes: update.nodes?.length ?? 0,
    models: update.directory?.models?.length ?? 0,
  }));
  assert.deepEqual(kinds, [
    { version: 0, nodes: 500, models: 0 },
    { version: 0, nodes: 500, models: 0 },
    { version: 0, nodes: 201, models: 0 },
    { version: 0, nodes: 0, models: 0 },
    { version: 0, nodes: 0, models: 1 },
    { version, nodes: 0, models: 0 },
  ]);
  assert.ok(updates[0]?.settings !== undefined, "the first message holds the settings");
  assert.equal(fleet.version, version);
});

test("an adapter is told by the node under its own names, or stated in the file, which wins", () => {
  const { fleet, apply, directory, commit } = setUp();
  const both = "models: [{ name: big, upstream_model: org/big }, { name: tuned, upstream_model: org/lora }]";
  apply(
    nodes(
      node("a", `family: H100, ${both}`),
      node("b", "family: H100, models: [{ name: big, upstream_model: x }]"),
      node("c", "family: H100, models: [big, other, { name: stated, adapter_of: big }]"),
    ),
  );
  fleet.noteModels(rowOf(fleet, "a"), [reportedModel("org/big"), reportedModel("org/lora", { parent: "org/big" })]);
  fleet.noteModels(rowOf(fleet, "c"), [reportedModel("stated", { parent: "other" })]);
  commit();
  const missing = (name: string) => directory.accounts.get("default")?.models.get(name)?.adapterMissing;
  assert.deepEqual(missing("tuned"), Int32Array.of(2));
  assert.deepEqual(missing("stated"), Int32Array.of(2));
  assert.equal(missing("big"), undefined);
});

test("what the file states about a model reaches the poller", () => {
  const { apply } = setUp();
  const { added } = apply(
    nodes(node("a", "family: H100, models: [m, { name: v, images: false, context_tokens: 99 }]")),
  );
  assert.deepEqual(
    added[0]?.placements.map(({ name, upstreamId, stated }) => [name, upstreamId, stated]),
    [
      ["m", "m", undefined],
      ["v", "v", { contextTokens: 99, readsImages: false, endpoints: null }],
    ],
  );
});
