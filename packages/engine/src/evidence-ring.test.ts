import assert from "node:assert/strict";
import { test } from "node:test";
import { EVIDENCE_FAMILIES_MAX } from "./bounds.ts";
import { decide } from "./decide.ts";
import { createDecision } from "./decision.ts";
import {
  attachEvidenceRing,
  copyCells,
  createEvidenceCells,
  createEvidenceRing,
  EVIDENCE_SHAPE,
  readRecord,
  stateOfRecord,
  writeDecision,
  writeOutcome,
} from "./evidence-ring.ts";
import { buildFleet, type FleetSpec } from "./testing/fleet.ts";

const ORDINARY: FleetSpec = {
  nodes: [{ family: "A", foreign: 2, isDraining: true }, { family: "A", foreign: 3 }, { family: "B" }],
  policies: [{ chain: [["A"], ["B"]], costPriority: "balanced", latencyTargetMs: 20_000 }],
};
const ENDED = {
  outcome: "success",
  status: 200,
  fault: null,
  firstByteMs: 5,
  firstTokenMs: 9,
  durationMs: 70,
  promptTokens: 11,
  outputTokens: 12,
  costUsd: 0.25,
  cachedTokens: 7,
} as const;

function written(spec: FleetSpec, records = 4) {
  const fleet = buildFleet(spec);
  const decision = createDecision();
  const request = fleet.request({ hint: "B", isStream: true, endpoint: "completions", maxTokens: 99 });
  decide(fleet.decider(), request, 1000, 0, decision);
  const ring = createEvidenceRing(records);
  const write = (nowMs: number) => writeDecision(ring, fleet.table, request, decision, { nowMs, previous: -1 });
  return { fleet, decision, request, ring, write };
}

test("a record says what was decided, on what, and what each family had to offer", () => {
  const { decision, ring, write } = written(ORDINARY);
  const record = readRecord(ring, write(1234));
  assert.ok(record !== null);
  assert.equal(record.decidedAtMs, 1234);
  assert.deepEqual([record.reason, record.hint, record.endpoint], ["hinted", "used", "completions"]);
  assert.deepEqual([record.costPriority, record.policySource, record.isStream], ["balanced", "call", true]);
  assert.deepEqual([record.identity, record.family, record.depth], [1002, 1, 0]);
  assert.deepEqual([record.maxTokens, record.latencyTargetMs, record.estimateMs], [99, 20_000, decision.estimateMs]);
  assert.deepEqual([record.outcome, record.status, record.fault], ["running", -1, null]);
  assert.equal(record.families.length, 2);
  const [a, b] = record.families;
  assert.deepEqual([a?.nodes, a?.bestIdentity, a?.depth, a?.excluded], [2, 1001, 3, { draining: 1 }]);
  assert.deepEqual([b?.nodes, b?.bestIdentity, b?.tier, b?.excluded], [1, 1002, 1, {}]);
});

test("a decision without a node is recorded with the reasons that left all out", () => {
  const { ring, write } = written({
    nodes: [
      { family: "A", maxInFlight: 0 },
      { family: "B", isUnhealthy: true },
    ],
  });
  const record = readRecord(ring, write(1));
  assert.deepEqual([record?.reason, record?.identity, record?.family], ["queue_saturated", -1, -1]);
  assert.deepEqual(
    record?.families.map((family) => family.excluded),
    [{ at_capacity: 1 }, { unhealthy: 1 }],
  );
});

for (const past of [
  { cooldownUntilMs: 500 },
  { misconfiguredUntilMs: 500 },
  { endpointUntilMs: { completions: 500 } },
] as const) {
  test(`a record says that its request is the trial of what failed before: ${Object.keys(past)}`, () => {
    const { ring, write } = written({ nodes: [{ family: "B", ...past }] });
    assert.equal(readRecord(ring, write(1))?.isTrial, true);
  });
}

test("the outcome joins its decision", () => {
  const { ring, write } = written(ORDINARY);
  const sequence = write(1);
  writeOutcome(ring, sequence, { ...ENDED, outcome: "failure", status: -1, fault: "reset" });
  const record = readRecord(ring, sequence);
  assert.deepEqual([record?.outcome, record?.status, record?.fault], ["failure", -1, "reset"]);
  assert.deepEqual([record?.durationMs, record?.reportedOutputTokens, record?.spentUsd], [70, 12, 0.25]);
});

test("old records are overwritten and then absent, and so are ones never written", () => {
  const { ring, write } = written(ORDINARY);
  const sequences = Array.from({ length: 6 }, (_, step) => write(step));
  assert.deepEqual(
    sequences.map((sequence) => readRecord(ring, sequence)?.decidedAtMs),
    [undefined, undefined, 2, 3, 4, 5],
  );
  assert.equal(readRecord(ring, 6), null);
  assert.equal(readRecord(ring, -1), null);
});

test("an outcome that comes after its record was overwritten changes nothing", () => {
  const { ring, write } = written(ORDINARY);
  const late = write(0);
  for (let step = 1; step <= 4; step++) write(step);
  writeOutcome(ring, late, ENDED);
  assert.equal(readRecord(ring, 4)?.outcome, "running");
});

test("another thread reads the same records through the buffer", () => {
  const { ring, write } = written(ORDINARY);
  const sequence = write(77);
  assert.equal(readRecord(attachEvidenceRing(ring.buffer, 4), sequence)?.decidedAtMs, 77);
  assert.throws(() => attachEvidenceRing(ring.buffer, 8), /size of the ring/);
});

test("a chain longer than the record keeps is decided in full and recorded up to its bound", () => {
  const families = Array.from({ length: EVIDENCE_FAMILIES_MAX + 3 }, (_, index) => `family-${index}`);
  const { ring, write, decision } = written({
    nodes: families.map((family, index) => ({ family, priceUsdPerHour: 100 - index })),
    policies: [{ chain: families.map((family) => [family]) }],
  });
  const record = readRecord(ring, write(1));
  assert.equal(record?.families.length, EVIDENCE_FAMILIES_MAX);
  assert.equal(decision.family, families.length - 1);
  assert.equal(record?.identity, 1000 + families.length - 1);
});

test("a slot whose writer died in the middle is absent until it is written again, and then whole", () => {
  const { ring, write } = written(ORDINARY, 1);
  const sequence = write(1);
  Atomics.add(ring.ints, 0, 1);
  assert.equal(readRecord(ring, sequence), null);
  assert.equal(readRecord(ring, write(2))?.decidedAtMs, 2);
});

test("a ring holds a power of two of records", () => {
  assert.throws(() => createEvidenceRing(3), /power of two/);
});

test("cells are the same numbers as the record, and say when nothing more is written to it", () => {
  const { ring, write, request } = written(ORDINARY);
  request.key = 7;
  const sequence = write(1234);
  assert.equal(stateOfRecord(ring, sequence), "running");
  writeOutcome(ring, sequence, ENDED);
  assert.equal(stateOfRecord(ring, sequence), "final");
  const record = readRecord(ring, sequence);
  const cells = createEvidenceCells();
  assert.ok(record !== null && copyCells(ring, sequence, cells));
  for (const [index, name] of EVIDENCE_SHAPE.numbers.entries()) assert.equal(cells.numbers[index], record[name], name);
  for (const name of ["model", "policy", "identity", "family", "key", "answers", "attempt"] as const) {
    assert.equal(cells.integers[EVIDENCE_SHAPE.integers.indexOf(name)], record[name], name);
  }
  assert.deepEqual([record.key, record.answers], [7, 1]);
  assert.equal(cells.families, 2);
  assert.deepEqual(Array.from(cells.familyIntegers.subarray(0, 8)), [0, 0, 2, 1001, 1, 1, 1, 1002]);
  assert.equal(cells.familyNumbers[0], record.families[0]?.depth);
  for (let more = 0; more < 4; more++) write(2000 + more);
  assert.equal(stateOfRecord(ring, sequence), "gone");
  assert.equal(copyCells(ring, sequence, cells), false);
});

test("a decision without a node is final as it is written", () => {
  const { ring, write } = written({ nodes: [{ family: "A", maxInFlight: 0 }] });
  assert.equal(stateOfRecord(ring, write(1)), "final");
});
