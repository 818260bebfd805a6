import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeConfig } from "@zml/protocol";
import { configured } from "../control/testing/configured.ts";
import { mergeNodes } from "./merge-nodes.ts";

function node(id: string, url: string, more: Partial<NodeConfig> = {}): NodeConfig {
  const { config } = configured(`nodes: [{ id: "${id}", url: "${url}", family: F }]\n`);
  const [own] = config.nodes;
  assert.ok(own !== undefined);
  return { ...own, ...more };
}

test("the file has the place of an id, then the first source", () => {
  const one = node("s:a:1", "http://a:1", { origin: "s" });
  const other = node("s:a:1", "http://b:1", { origin: "s:a" });
  const third = node("x", "http://c:1", { origin: "t" });
  const { found, clashes } = mergeNodes(
    [node("x", "http://d:1")],
    [
      { source: "s", nodes: [one] },
      { source: "s:a", nodes: [other] },
      { source: "t", nodes: [third] },
    ],
  );
  assert.deepEqual(found, [one]);
  assert.deepEqual(
    [...clashes],
    [
      ["s:a", [{ target: "s:a:1", reason: "a node has the same id, from s" }]],
      ["t", [{ target: "x", reason: "a node has the same id, from file" }]],
    ],
  );
});

test("one server is one node, also under two ids", () => {
  const { found, clashes } = mergeNodes(
    [node("x", "http://a:1")],
    [
      {
        source: "s",
        nodes: [node("s:a:1", "http://a:1", { origin: "s" }), node("s:b:1", "http://b:1", { origin: "s" })],
      },
      { source: "t", nodes: [node("t:b:1", "http://b:1", { origin: "t", serverName: "pool" })] },
    ],
  );
  assert.deepEqual(
    found.map(({ id }) => id),
    ["s:b:1"],
  );
  assert.deepEqual([...clashes.values()].flat(), [
    { target: "s:a:1", reason: "the node x has the same url, from file" },
    { target: "t:b:1", reason: "the node s:b:1 has the same url, from s" },
  ]);
});

test("two names at one address are two servers behind one door, and another account's node is another node", () => {
  const { found } = mergeNodes(
    [],
    [
      {
        source: "s",
        nodes: [node("s", "http://a:1", { serverName: "one" }), node("t", "http://a:1", { serverName: "two" })],
      },
      { source: "u", nodes: [node("u", "http://a:1", { serverName: "one", account: "other" })] },
    ],
  );
  assert.equal(found.length, 3);
});
