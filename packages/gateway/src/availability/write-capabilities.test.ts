import assert from "node:assert/strict";
import { test } from "node:test";
import { contextBit, createFleetTable, needsOf, type PlacementCapabilities, takePlacementRow } from "@zml/engine";
import { type Capabilities, type ReportedModel, reportedModel, UNKNOWN_READING } from "./adapters/adapter.ts";
import { writePlacements } from "./write-capabilities.ts";

const ENGINE: Capabilities = { endpoints: null, readsImages: null, refusesUnknownFields: false, speaksHttp2: null };
const [CHAT, EMBEDDINGS] = [0, 4];

/** What stands in the table of a node with the model `up`, known as `m`. */
function written(
  models: readonly ReportedModel[] | null,
  { stated, ofEngine = ENGINE }: { stated?: Partial<PlacementCapabilities>; ofEngine?: Capabilities } = {},
) {
  const table = createFleetTable({ nodes: 1, workers: 1 });
  takePlacementRow(table, 2);
  const nothing = { contextTokens: Number.NaN, readsImages: null, endpoints: null };
  const placement = { model: 0, name: "m", upstreamId: "up", placement: 2 };
  const health = { pollIntervalMs: 5000, timeoutMs: 4000, unhealthyAfter: 2, healthyAfter: 1 };
  const spec = {
    ...{ row: 0, id: "a", url: "http://a:1", engine: null, apiKey: null, healthPath: null, health, maxInFlight: null },
    placements: [stated === undefined ? placement : { ...placement, stated: { ...nothing, ...stated } }],
  };
  writePlacements(table, spec, models === null ? null : { ...UNKNOWN_READING, models }, ofEngine);
  const lacks = table.lacks[2] ?? 0;
  return {
    contextTokens: table.contextTokens[2],
    isSmallFor: (tokens: number) => (lacks & contextBit(tokens)) !== 0,
    lacksImages: (lacks & needsOf(CHAT, true) & ~needsOf(CHAT, false)) !== 0,
    lacksChat: (lacks & needsOf(CHAT, false)) !== 0,
    lacksEmbeddings: (lacks & needsOf(EMBEDDINGS, false)) !== 0,
  };
}

const nothing = { contextTokens: Number.NaN, lacksImages: false, lacksChat: false, lacksEmbeddings: false };
const known = ({ isSmallFor: _, ...rest }: ReturnType<typeof written>) => rest;

test("what nobody tells is no lack", () => {
  assert.deepEqual(known(written(null)), nothing);
  assert.deepEqual(known(written([])), nothing);
  assert.deepEqual(known(written([reportedModel("up")])), nothing);
  assert.equal(written(null).isSmallFor(1e9), false);
});

test("what the node tells of a model is its own, and the engine's where it tells nothing", () => {
  const told = reportedModel("up", { contextTokens: 4096, readsImages: false, endpoints: ["embeddings"] });
  const other = reportedModel("other", { readsImages: true });
  const expected = { contextTokens: 4096, lacksImages: true, lacksChat: true, lacksEmbeddings: false };
  assert.deepEqual(known(written([other, told])), expected);
  const ofEngine: Capabilities = { ...ENGINE, endpoints: ["chat_completions"], readsImages: false };
  assert.deepEqual(known(written([other, reportedModel("up")], { ofEngine })), {
    ...nothing,
    lacksImages: true,
    lacksEmbeddings: true,
  });
});

test("a server with one model answers as that; one with several that lists another name tells nothing of it", () => {
  const one = reportedModel("x", { contextTokens: 100 });
  assert.equal(written([one]).contextTokens, 100);
  assert.equal(written([one, reportedModel("y")]).contextTokens, Number.NaN);
});

test("what the operator states wins, member by member, before the node has told anything too", () => {
  const told = reportedModel("up", { contextTokens: 4096, readsImages: false, endpoints: ["embeddings"] });
  const stated = { contextTokens: 99, readsImages: true };
  const expected = { contextTokens: 99, lacksImages: false, lacksChat: true, lacksEmbeddings: false };
  assert.deepEqual(known(written([told], { stated })), expected);
  assert.deepEqual(known(written(null, { stated: { endpoints: ["chat_completions"] } })), {
    ...nothing,
    lacksEmbeddings: true,
  });
});

test("a context has the bit of every need that it cannot hold", () => {
  for (const contextTokens of [1, 511, 512, 513, 4096, 8191, 131_072, 10_000_000]) {
    const { isSmallFor } = written([reportedModel("up", { contextTokens })]);
    for (const tokens of [1, 511, 512, 513, 4095, 4096, 4097, 8192, 100_000, 131_073, 9_000_000, 16_000_000]) {
      if (contextTokens < tokens) assert.ok(isSmallFor(tokens), `${contextTokens} is small for ${tokens}`);
      if (contextTokens >= 2 * Math.max(tokens, 256))
        assert.ok(!isSmallFor(tokens), `${contextTokens} holds ${tokens}`);
    }
  }
});
