import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { configured } from "../control/testing/configured.ts";
import { FoundNodes } from "./found-nodes.ts";
import type { Found, Look, Target } from "./source.ts";

const target = (host: string, labels: Record<string, string> = {}): Target => ({
  host,
  port: 1,
  serverName: null,
  displayName: null,
  labels,
});

const list = (hosts: readonly string[], more: Partial<Found> = {}): Look => ({
  found: { targets: hosts.map((host) => target(host)), leaving: [], dropped: [], note: null, ...more },
  error: null,
});

const FAILED: Look = { found: null, error: "it is down" };

function configOf(more = "", top = "") {
  const text = `${top}discovery:\n  sources:\n    - { name: s, kind: file_sd, paths: [x], node: { family: F }, empty_grace_ms: 1000, ${more} }\n`;
  const { config } = configured(text);
  const [source] = config.discovery.sources;
  assert.ok(source !== undefined);
  return { config, source };
}

function foundNodes(more = "") {
  const { config, source } = configOf(more);
  const nodes = new FoundNodes(source, config);
  return { nodes, hosts: () => nodes.nodes.map(({ id }) => id.split(":")[1]) };
}

describe("a source that fails", () => {
  test("keeps its last list, with the time of its last success", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a", "b"]), 10);
    assert.equal(nodes.take(FAILED, 20), false);
    assert.deepEqual(hosts(), ["a", "b"]);
    assert.deepEqual([nodes.lastSuccessMs, nodes.lastLookMs, nodes.error], [10, 20, "it is down"]);
    nodes.take(list(["a"]), 30);
    assert.deepEqual([nodes.lastSuccessMs, nodes.error], [30, null]);
  });

  test("in part gives what it found, and no success", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take({ ...list(["a"]), error: "one file is broken" }, 10);
    assert.deepEqual(hosts(), ["a"]);
    assert.ok(Number.isNaN(nodes.lastSuccessMs));
  });
});

describe("an empty list", () => {
  test("counts after empty_grace_ms, and what was there stays until then", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a", "b"]), 0);
    nodes.take(list([]), 100);
    assert.equal(nodes.emptyAtMs, 1100);
    assert.equal(nodes.tick(1099), false);
    assert.deepEqual(hosts(), ["a", "b"]);
    assert.equal(nodes.tick(1100), true);
    assert.deepEqual(hosts(), []);
    assert.ok(Number.isNaN(nodes.emptyAtMs));
  });

  test("that is followed by another list was a slip", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a"]), 0);
    nodes.take(list([]), 100);
    nodes.take(list([]), 500);
    assert.equal(nodes.emptyAtMs, 1100, "from the first one on");
    nodes.take(list(["a"]), 600);
    nodes.tick(2000);
    assert.deepEqual(hosts(), ["a"]);
  });

  test("does not count while the source fails, however long that takes", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a"]), 0);
    nodes.take(list([]), 100);
    nodes.take(FAILED, 200);
    nodes.tick(5000);
    assert.deepEqual(hosts(), ["a"]);
    nodes.take(list([]), 6000);
    assert.deepEqual(hosts(), [], "the source confirms it");
  });

  test("lets go at once of what ends by itself", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a", "b"]), 0);
    nodes.take(list([], { leaving: [{ host: "a", port: 1 }] }), 100);
    assert.deepEqual(hosts(), ["b"]);
    nodes.take(list([], { leaving: [{ host: "b", port: 1 }] }), 200);
    assert.deepEqual(hosts(), []);
    assert.ok(Number.isNaN(nodes.emptyAtMs), "nothing waits");
  });

  test("counts at once without a grace", () => {
    const { config, source } = configOf();
    const nodes = new FoundNodes({ ...source, emptyGraceMs: 0 }, config);
    nodes.take(list(["a"]), 0);
    assert.equal(nodes.take(list([]), 1), true);
    assert.deepEqual(nodes.nodes, []);
  });
});

describe("a list", () => {
  test("that says the same changes nothing, and a node that stays is the very object that it was", () => {
    const { nodes } = foundNodes();
    nodes.take(list(["a", "b"]), 0);
    const before = nodes.nodes;
    assert.equal(nodes.take(list(["b", "a"]), 1), false);
    assert.equal(nodes.nodes, before);
    assert.equal(nodes.take(list(["b", "c"]), 2), true);
    assert.equal(nodes.nodes[0], before[1]);
  });

  test("with other labels makes a target another node", () => {
    const { nodes } = foundNodes();
    nodes.take(
      { found: { targets: [target("a", { family: "G" })], leaving: [], dropped: [], note: null }, error: null },
      0,
    );
    assert.equal(nodes.nodes[0]?.family, "G");
    nodes.take(
      { found: { targets: [target("a", { family: "H" })], leaving: [], dropped: [], note: null }, error: null },
      1,
    );
    assert.equal(nodes.nodes[0]?.family, "H");
  });

  test("keeps its good targets when others are bad", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a", "169.254.0.1", "b"], { dropped: [{ target: "x", reason: "no target" }] }), 0);
    assert.deepEqual(hosts(), ["a", "b"]);
    assert.deepEqual(
      nodes.dropped.map((one) => one.target),
      ["x", "169.254.0.1:1"],
    );
  });

  test("that names a target twice has it once, and says so where the two differ", () => {
    const { nodes, hosts } = foundNodes();
    nodes.take(list(["a", "a"]), 0);
    assert.deepEqual([hosts(), nodes.dropped], [["a"], []]);
    const targets = [target("a"), target("a", { gpus: "2" })];
    nodes.take({ found: { targets, leaving: [], dropped: [], note: null }, error: null }, 1);
    assert.deepEqual([hosts(), nodes.dropped], [["a"], [{ target: "a:1", reason: "it is named twice" }]]);
  });

  test("of more than max_nodes leaves the others out, and those that are there stay", () => {
    const { nodes, hosts } = foundNodes("max_nodes: 2");
    nodes.take(list(["c", "b"]), 0);
    nodes.take(list(["a", "b", "c", "d"]), 1);
    assert.deepEqual(hosts(), ["b", "c"]);
    assert.deepEqual(nodes.dropped, [
      { target: "a:1", reason: "max_nodes (2) are there: raise it" },
      { target: "d:1", reason: "max_nodes (2) are there: raise it" },
    ]);
    nodes.take(list(["a", "c", "d"]), 2);
    assert.deepEqual(hosts(), ["a", "c"]);
  });
});

describe("another configuration", () => {
  test("with another template makes other nodes of the same list", () => {
    const { nodes } = foundNodes();
    nodes.take(list(["a"]), 0);
    const { config, source } = configOf();
    nodes.configure({ ...source, node: { ...source.node, family: "G" } }, config);
    assert.equal(nodes.nodes[0]?.family, "G");
  });

  test("with another section that nodes inherit makes other nodes too", () => {
    const { nodes } = foundNodes();
    nodes.take(list(["a"]), 0);
    const { config, source } = configOf("", "health: { timeout_ms: 777 }\n");
    nodes.configure(source, config);
    assert.equal(nodes.nodes[0]?.health.timeoutMs, 777);
  });

  test("that says the same leaves the very nodes", () => {
    const { nodes } = foundNodes();
    nodes.take(list(["a"]), 0);
    const before = nodes.nodes;
    const { config, source } = configOf();
    nodes.configure(source, config);
    assert.equal(nodes.nodes, before);
  });
});
