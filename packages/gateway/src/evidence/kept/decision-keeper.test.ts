import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { nextSequence } from "@zml/engine";
import { decodeDecisionId, encodeDecisionId } from "../../decision-id.ts";
import { DecisionDatabase } from "./decision-database.ts";
import { DecisionKeeper } from "./decision-keeper.ts";
import { findKept, pageOfKept } from "./read-kept.ts";
import { ringFixture } from "./testing/ring-fixture.ts";

const ORIGIN_MS = 1_800_000_000_000;
const DAY_MS = 86_400_000;
const TAIL = 5;
const ALL = {
  account: null,
  policy: null,
  model: null,
  node: null,
  reason: null,
  family: null,
  slowerThanMs: null,
  isRedispatched: null,
  limit: 50,
};

function fixture(t: TestContext, { records = 64, days = 7, bytes = 2 ** 30, path = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "zml-kept-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path === "" ? join(folder, "decisions.sqlite") : path;
  const fleet = ringFixture(records);
  const keeper = new DecisionKeeper({
    path: file,
    rings: [{ buffer: fleet.ring.buffer, records, from: 0 }],
    originMs: ORIGIN_MS,
    tail: TAIL,
    keep: { days, bytes },
  });
  keeper.note(ORIGIN_MS, fleet.names, null, []);
  const idOf = (sequence: number, nowMs: number) =>
    encodeDecisionId({ worker: 0, sequence, unixMs: ORIGIN_MS + nowMs }, TAIL);
  const find = (sequence: number, nowMs: number, at = ORIGIN_MS + nowMs) => {
    const id = idOf(sequence, nowMs);
    const place = decodeDecisionId(id);
    assert.ok(place !== null);
    return findKept(keeper.reading(at), { ...place, id });
  };
  return { ...fleet, folder, file, keeper, find, idOf };
}

test("a record is kept with its outcome once its attempt has ended, and found by its id after the ring forgot it", (t) => {
  const { decide, end, keeper, find, ring } = fixture(t, { records: 16 });
  const first = decide(1000, { promptTokens: 321, key: 0 });
  keeper.tick(ORIGIN_MS + 1100);
  keeper.flush(ORIGIN_MS + 1100);
  assert.equal(keeper.counts(0).records, 0, "its attempt runs");
  end(first);
  keeper.tick(ORIGIN_MS + 1200);
  keeper.flush(ORIGIN_MS + 1200);
  for (let more = 0; more < 16; more++) end(decide(2000 + more));
  assert.equal(nextSequence(ring), 17);
  const told = find(first, 1000);
  assert.equal(told?.request.prompt_tokens, 321);
  assert.equal(told?.request.key, "app");
  assert.equal(told?.choice.node, "h100-a");
  assert.equal(told?.choice.price_usd_per_hour, 3);
  assert.equal(told?.outcome.kind, "success");
  assert.equal(told?.outcome.output_tokens, 64);
  assert.equal(told?.decided_at, new Date(ORIGIN_MS + 1000).toISOString());
  assert.equal(find(first, 1000 - 60_000), null, "an id of another time is another decision");
  assert.equal(find(99, 1000), null);
});

test("earlier attempts of the request come with it", (t) => {
  const { decide, end, keeper, find } = fixture(t);
  const first = decide(1000);
  end(first, { outcome: "failure", status: -1, fault: "reset" });
  const second = decide(1010, { previous: first, row: 1 });
  end(second);
  keeper.flush(ORIGIN_MS + 1100);
  assert.deepEqual(
    find(second, 1010)?.earlier.map(({ node, outcome }) => [node, outcome.fault]),
    [["h100-a", "reset"]],
  );
});

test("records that were overwritten before they were read are counted, and the file is told of them", (t) => {
  const { decide, end, keeper, file } = fixture(t, { records: 16 });
  for (let more = 0; more < 40; more++) end(decide(1000 + more));
  keeper.flush(ORIGIN_MS + 2000);
  const counts = keeper.counts(0);
  assert.deepEqual([counts.kept, counts.overwritten, counts.lostToStore], [16, 24, 0]);
  keeper.close(ORIGIN_MS + 2000);
  const database = new DecisionDatabase(file);
  assert.deepEqual(
    database.losses(0, Number.MAX_SAFE_INTEGER).map(({ records, reason }) => [records, reason]),
    [[24, "overwritten"]],
  );
  database.close();
});

test("an attempt that outlives the ring is kept without its outcome, and counted", (t) => {
  const { decide, end, keeper, find } = fixture(t, { records: 16 });
  const long = decide(1000);
  keeper.tick(ORIGIN_MS + 1000);
  for (let more = 0; more < 13; more++) {
    end(decide(1001 + more));
    keeper.tick(ORIGIN_MS + 1001 + more);
  }
  keeper.flush(ORIGIN_MS + 1100);
  assert.equal(keeper.counts(0).unfinished, 1);
  assert.equal(find(long, 1000)?.outcome.kind, "running");
  assert.equal(keeper.counts(0).kept, 14);
});

test("what still runs at the end is kept as it is", (t) => {
  const { decide, keeper, file } = fixture(t);
  decide(1000);
  keeper.tick(ORIGIN_MS + 1000);
  keeper.close(ORIGIN_MS + 1100);
  const database = new DecisionDatabase(file);
  assert.equal(database.span().records, 1);
  database.close();
});

test("records wait for their chunk to fill, but not for ever", (t) => {
  const { decide, end, keeper } = fixture(t);
  end(decide(1000));
  keeper.tick(ORIGIN_MS + 1000);
  keeper.tick(ORIGIN_MS + 10_999);
  assert.equal(keeper.counts(0).kept, 0);
  keeper.tick(ORIGIN_MS + 11_000);
  assert.equal(keeper.counts(0).kept, 1);
});

test("what is older than days is taken out", (t) => {
  const { decide, end, keeper, find } = fixture(t, { days: 2 });
  const old = decide(1000);
  end(old);
  keeper.flush(ORIGIN_MS + 1000);
  const young = decide(DAY_MS);
  end(young);
  keeper.flush(ORIGIN_MS + DAY_MS);
  assert.notEqual(find(old, 1000, ORIGIN_MS + DAY_MS), null);
  end(decide(2 * DAY_MS + 2000));
  keeper.flush(ORIGIN_MS + 2 * DAY_MS + 2000);
  assert.equal(find(old, 1000, ORIGIN_MS + 2 * DAY_MS + 2000), null);
  assert.notEqual(find(young, DAY_MS, ORIGIN_MS + 2 * DAY_MS + 2000), null);
});

test("the file never grows beyond bytes: the oldest records go", (t) => {
  const bytes = 1_600_000;
  const { decide, end, keeper, file, find } = fixture(t, { records: 1024, bytes });
  const first = decide(0);
  end(first);
  for (let round = 0; round < 60; round++) {
    for (let more = 0; more < 1024; more++)
      end(decide(1 + round * 1024 + more, { promptTokens: (more * 7919) % 10_007 }));
    keeper.tick(ORIGIN_MS + (round + 1) * 1024);
    assert.ok(statSync(file).size <= bytes, `${statSync(file).size} bytes in round ${round}`);
  }
  const counts = keeper.counts(0);
  assert.ok(counts.records < counts.kept, "some went");
  assert.ok(counts.records > 5_000, `the bound is used: ${counts.records} records`);
  assert.ok(counts.bytes <= bytes);
  assert.equal(find(first, 0, ORIGIN_MS + 70_000), null);
});

test("a locked file costs records and nothing else: they are counted, and writing goes on when it is free", (t) => {
  const { decide, end, keeper, file } = fixture(t, { records: 2048 });
  end(decide(1000));
  keeper.flush(ORIGIN_MS + 1000);
  const other = new DatabaseSync(file);
  other.exec("BEGIN IMMEDIATE");
  for (let round = 0; round < 4; round++) {
    for (let more = 0; more < 1024; more++) end(decide(2000 + round));
    // each failed try comes a second after the one before
    keeper.tick(ORIGIN_MS + 2000 + round * 100);
  }
  const locked = keeper.counts(0);
  assert.equal(locked.state, "degraded");
  assert.match(locked.reason ?? "", /another process holds it/);
  assert.equal(locked.kept, 1);
  other.exec("ROLLBACK");
  other.close();
  keeper.tick(ORIGIN_MS + 10_000);
  keeper.flush(ORIGIN_MS + 10_000);
  const free = keeper.counts(0);
  assert.deepEqual([free.state, free.reason], ["ok", null]);
  assert.equal(free.kept + free.lostToStore, 4097, "every record is kept or counted");
  assert.ok(free.lostToStore > 0);
});

test("a file that can't be used is told of, and traffic does not hear of it", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zml-kept-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "decisions.sqlite");
  writeFileSync(
    path,
    "this is no database, and it is long enough to be looked at as one of SQLite's pages ".repeat(20),
  );
  const { decide, end, keeper } = fixture(t, { path });
  end(decide(1000));
  keeper.tick(ORIGIN_MS + 1000);
  keeper.tick(ORIGIN_MS + 20_000);
  const counts = keeper.counts(0);
  assert.equal(counts.state, "degraded");
  assert.match(counts.reason ?? "", /can't be used/);
});

test("pages go from the newest to the oldest, through what filters leave, over several runs", (t) => {
  const { decide, end, keeper, file, ring, names } = fixture(t);
  for (let more = 0; more < 30; more++) end(decide(1000 + more, { row: more % 2 }));
  keeper.flush(ORIGIN_MS + 1100);
  for (let more = 30; more < 40; more++) end(decide(1000 + more, { row: more % 2 }));
  keeper.close(ORIGIN_MS + 1200);
  const later = new DecisionKeeper({
    path: file,
    rings: [{ buffer: ring.buffer, records: 64, from: 40 }],
    originMs: ORIGIN_MS + 5000,
    tail: TAIL,
    keep: { days: 7, bytes: 2 ** 30 },
  });
  later.note(ORIGIN_MS + 5000, names, null, []);
  end(decide(1));
  later.flush(ORIGIN_MS + 6000);
  const database = later.reading(ORIGIN_MS + 6000);
  const seen: string[] = [];
  let from: { chunk: number; skip: number } | null = null;
  for (let page = 0; page < 20; page++) {
    const found = pageOfKept(database, { filter: { ...ALL, node: "mi300x-a", limit: 7 }, from, inRing: [] }, later.run);
    seen.push(...found.items.map(({ decided_at }) => decided_at));
    from = found.next;
    if (from === null) break;
  }
  assert.equal(seen.length, 20);
  assert.deepEqual(seen, [...seen].sort().reverse());
  const inRing = pageOfKept(database, { filter: { ...ALL, limit: 50 }, from: null, inRing: [40] }, later.run);
  assert.equal(inRing.items.length, 40, "what the ring tells is not told twice");
  later.close(ORIGIN_MS + 6000);
});
