import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAIN_FAMILIES_MAX } from "@zml/engine";
import { type CompiledDirectory, compileDirectory, entryKey } from "./compile-directory.ts";
import { createNameRegistry, type NameRegistry } from "./name-registry.ts";
import { configured } from "./testing/configured.ts";

function compile(text: string, names: NameRegistry = createNameRegistry()): CompiledDirectory {
  return compileDirectory(configured(text).config, [], names);
}

function chainOf(directory: CompiledDirectory, policy: string): { family: string | undefined; priority: number }[] {
  const data = directory.policies.get(entryKey("default", policy)) ?? directory.accounts.get("default")?.builtIn;
  return (data?.chain ?? []).map(({ family, priority }) => ({ family: directory.families[family], priority }));
}

const node = (id: string, family: string) =>
  `  - { id: ${id}, url: "http://${id}:1", family: ${family}, models: [m] }\n`;

test("the built-in policy is balanced over the families in order of first registration, each its own tier", () => {
  const directory = compile(
    `nodes:\n${node("a", "H100")}${node("b", "MI300X")}${node("c", "H100")}${node("d", "A100")}`,
  );
  const builtIn = directory.accounts.get("default")?.builtIn;
  assert.equal(builtIn?.name, "zml-default");
  assert.equal(builtIn?.costPriority, "balanced");
  assert.equal(builtIn?.latencyTargetMs, Number.NaN);
  assert.deepEqual(chainOf(directory, "zml-default"), [
    { family: "H100", priority: 1 },
    { family: "MI300X", priority: 2 },
    { family: "A100", priority: 3 },
  ]);
});

test("a policy without a preference means the same families", () => {
  const directory = compile(`nodes:\n${node("a", "H100")}${node("b", "MI300X")}policies: [{ name: p }]\n`);
  assert.deepEqual(chainOf(directory, "p"), chainOf(directory, "zml-default"));
});

test("a policy keeps its priorities and may name a family that no node has yet", () => {
  const directory = compile(
    `nodes:\n${node("a", "H100")}policies:\n  - name: p\n    accelerator_preference: [{ family: B200, priority: 5 }, { family: H100, priority: 5 }]\n`,
  );
  assert.deepEqual(chainOf(directory, "p"), [
    { family: "B200", priority: 5 },
    { family: "H100", priority: 5 },
  ]);
});

test("more families than a chain holds: the first ones, with a warning", () => {
  const lines = Array.from({ length: CHAIN_FAMILIES_MAX + 2 }, (_, index) => node(`n${index}`, `F${index}`));
  const directory = compile(`nodes:\n${lines.join("")}`);
  const chain = chainOf(directory, "zml-default");
  assert.equal(chain.length, CHAIN_FAMILIES_MAX);
  assert.equal(chain.at(-1)?.family, `F${CHAIN_FAMILIES_MAX - 1}`);
  assert.match(directory.warnings.join("\n"), /18 families; policies that name none use the first 16/);
});

test("a registered model without nodes is known, with no rows", () => {
  const model = compile("models: [{ name: later }]\n").models.get(entryKey("default", "later"));
  assert.equal(model?.isRegistered, true);
  assert.equal(model?.rows.length, 0);
});

test("models beyond what can be told apart are left out with a warning that says what to do", () => {
  const directory = compile("models: [{ name: one }, { name: two }]\n", createNameRegistry({ models: 1 }));
  assert.deepEqual([...directory.models.keys()], [entryKey("default", "one")]);
  assert.match(directory.warnings.join("\n"), /1 models are left out.*restart/);
});

/** The directory of nodes that serve these models in these families; "lora:base" is an adapter of base. */
function compileNodes(...nodes: [family: string, ...models: string[]][]) {
  const names = createNameRegistry();
  const { config } = configured(`nodes:\n${nodes.map(([family], row) => node(`n${row}`, family)).join("")}`);
  const placed = nodes.map(([family, ...models], row) => ({
    row,
    accounts: ["default"],
    family,
    areModelsKnown: true,
    models: models.map((model, index) => {
      const [name = "", adapterOf = null] = model.split(":");
      return { name, placement: 4 * row + index, adapterOf };
    }),
  }));
  const { models, families } = compileDirectory(config, placed, names);
  return (name: string) => {
    const missing = models.get(entryKey("default", name))?.adapterMissing;
    return missing && Object.fromEntries(families.map((family, index) => [family, missing[index] ?? 0]));
  };
}

test("an adapter's entry counts, by family, the nodes that serve its base without it", () => {
  const missing = compileNodes(["B", "base"], ["A", "base", "lora:base"], ["A", "base"], ["A", "base"], ["A", "other"]);
  assert.deepEqual(missing("lora"), { B: 1, A: 2 });
  assert.equal(missing("base"), undefined);
  assert.equal(missing("other"), undefined);
});

test("an adapter that every node of its base has misses nowhere, nor does one whose base nobody serves", () => {
  assert.equal(compileNodes(["A", "base", "lora:base"], ["B", "lora:base", "base"])("lora"), undefined);
  assert.equal(compileNodes(["A", "lora:base"], ["A", "other"])("lora"), undefined);
});

test("an adapter that is served alone on one node misses on the nodes of its base alone", () => {
  assert.deepEqual(compileNodes(["A", "lora:base"], ["A", "base"])("lora"), { A: 1 });
});

test("an index survives that its family, policy or model goes and comes back", () => {
  const names = createNameRegistry();
  const text = `nodes:\n${node("a", "H100")}models: [{ name: x }]\npolicies: [{ name: p }]\n`;
  const before = compile(text, names);
  compile("nodes:\n  - { id: z, url: http://z:1, family: Z, models: [q] }\n", names);
  const after = compile(text, names);
  assert.equal(after.models.get(entryKey("default", "x"))?.index, before.models.get(entryKey("default", "x"))?.index);
  assert.equal(
    after.policies.get(entryKey("default", "p"))?.index,
    before.policies.get(entryKey("default", "p"))?.index,
  );
  assert.equal(after.families.indexOf("H100"), before.families.indexOf("H100"));
});

test("a shared node's family joins the chain of whom it is shared with, in order of registration", () => {
  const shared = (id: string, family: string, whom: string) =>
    node(id, family).replace("models:", `shared_with: ${whom}, models:`);
  const directory = compile(
    `accounts: [{ name: red }, { name: blue }]\nnodes:\n${shared("a", "A100", "[blue]")}${shared("b", "H100", '["*"]')}${node("c", "B200")}`,
  );
  const chain = (account: string) =>
    directory.accounts.get(account)?.builtIn.chain.map(({ family }) => directory.families[family]);
  assert.deepEqual(chain("default"), ["A100", "H100", "B200"]);
  assert.deepEqual(chain("blue"), ["A100", "H100"]);
  assert.deepEqual(chain("red"), ["H100"]);
});
