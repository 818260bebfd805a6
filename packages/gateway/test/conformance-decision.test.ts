/** The decision that the vectors show: one as this gateway renders it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { readRecord } from "@zml/engine";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { decodeDecisionId } from "../src/decision-id.ts";
import { renderDecision } from "../src/evidence/render-decision.ts";
import { readVectors } from "./conformance-vectors.ts";
import { startPair } from "./pair-fixture.ts";
import { chat, FIXTURE_MODEL } from "./plane-fixture.ts";
import { healthy } from "./scripted-node.ts";

/** Paths of all members, list entries by their first. */
function memberPaths(value: unknown, path = "$"): string[] {
  if (typeof value !== "object" || value === null) return [path];
  if (Array.isArray(value)) return value.length === 0 ? [path] : memberPaths(value[0], `${path}[]`);
  const members = Object.entries(value);
  return members.length === 0 ? [path] : members.flatMap(([name, each]) => memberPaths(each, `${path}.${name}`));
}

test("the decision of the vectors has no member that a real one lacks", async (t) => {
  const { a, b, plane } = await startPair(healthy("a"));
  t.after(() => Promise.all([plane.stop(), a.stop(), b.stop()]));
  const response = await chat(plane.url);
  await response.text();
  await plane.settled();
  const { decision: id = "" } = decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "") ?? {};
  const record = readRecord(plane.ring, decodeDecisionId(id)?.sequence ?? -1);
  assert.ok(record !== null);
  const names = {
    model: () => ({ account: "default", name: FIXTURE_MODEL }),
    policy: () => "p",
    family: (index: number) => ["H100", "MI300X"][index] ?? null,
    node: () => ({ id: "a", url: a.url }),
    key: () => null,
  };
  const real = memberPaths(renderDecision(record, names, { id, worker: 0, unixOriginMs: 0, earlier: [] }));
  const shown = readVectors("embeddings-models-decisions.json").find(
    ({ name }) => name === "a decision has its evidence",
  );
  assert.deepEqual(
    memberPaths(shown?.answers[0]?.body).filter((path) => !real.includes(path)),
    [],
  );
});
