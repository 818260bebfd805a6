/** Decisions that outlive ring and process: `evidence.keep`, over a whole gateway. */

import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { DecisionJson } from "@zml/protocol/admin";
import { DecisionDatabase } from "../src/evidence/kept/decision-database.ts";
import { decodeFleetState } from "../src/evidence/kept/fleet-state.ts";
import { restoreStore } from "../src/store/restore-store.ts";
import { chat, decisionOf, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const KEEP = "evidence: { ring_records: 128, keep: { days: 3 } }\n";

/** An id that no gateway made. */
const NOWHERE = "019876aa-0000-7000-8000-000000000000";

async function keeping(t: TestContext, evidence = KEEP) {
  const node = await fakeNode(t);
  const storeFolder = join(folder(t), "zml-data");
  const text = `${PORTS}workers: 1\n${evidence}nodes: [{ id: a, url: "${node.url}", family: H100, cost: { usd_per_gpu_hour: 3 } }]
policies: [{ name: fast, cost_priority: latency, latency_target_ms: 5000 }]
models: [{ name: m, policy: fast }]
`;
  const started = await startOn(t, text, { storeFolder });
  return { ...started, text, node, storeFolder };
}

/** What is read of answers. */
type Answer = Partial<DecisionJson> & {
  readonly items?: readonly DecisionJson[];
  readonly next_cursor?: string | null;
  readonly decisions?: { readonly state: string; readonly kept: number };
  readonly decisions_bytes?: number | null;
};

async function admin(gateway: { adminUrl: string }, path: string, init: RequestInit = {}) {
  const response = await fetch(`${gateway.adminUrl}/admin/v1/${path}`, init);
  return { status: response.status, body: (await response.json()) as Answer };
}

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

async function asked(gateway: Parameters<typeof chat>[0], times: number): Promise<string[]> {
  const ids: string[] = [];
  for (let call = 0; call < times; call++) {
    const response = await chat(gateway, { messages: [{ role: "user", content: "a secret of the caller" }] });
    ids.push(decisionOf(response));
    await response.arrayBuffer();
  }
  return ids;
}

test("decisions are found after their ring forgot them, and after a restart", async (t) => {
  const { gateway, text, storeFolder } = await keeping(t);
  const ids: string[] = [];
  for (let round = 0; round < 6; round++) {
    ids.push(...(await asked(gateway, 50)));
    // whoever asks for one has those that wait written
    await admin(gateway, `decisions/${NOWHERE}`);
  }
  const first = ids[0] as string;
  assert.equal(gateway.explain(first), null, "the ring has forgotten it");
  const { status, body } = await admin(gateway, `decisions/${first}`);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual([body.decision, body.choice?.node, body.outcome?.kind], [first, "a", "success"]);
  const listed: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page = await admin(gateway, `decisions?limit=70${cursor === "" ? "" : `&cursor=${cursor}`}`);
    assert.equal(page.status, 200, JSON.stringify(page.body));
    listed.push(...(page.body.items ?? []).map(({ decision }) => decision));
    cursor = page.body.next_cursor ?? null;
  }
  assert.deepEqual(listed, ids.toReversed(), "rings and store tell each decision once, newest first");
  await gateway.stop();

  const { gateway: second } = await startOn(t, text, { storeFolder });
  const again = await admin(second, `decisions/${ids.at(-1)}`);
  assert.equal(again.status, 200, JSON.stringify(again.body));
  const missing = await admin(second, `decisions/${NOWHERE}`);
  assert.equal(missing.status, 404);
  const message = JSON.stringify(missing.body);
  assert.match(message, /remembers its last 128 decisions since the start; the store keeps those since 20/);
  assert.match(message, /evidence\.keep: 3 days/);
});

test("the file holds numbers and names, and nothing of a prompt or an address", async (t) => {
  const { gateway, storeFolder } = await keeping(t);
  await asked(gateway, 3);
  await gateway.stop();
  const file = join(storeFolder, "decisions.sqlite");
  assert.ok(!readFileSync(file).includes("a secret of the caller"));
  const database = new DecisionDatabase(file);
  t.after(() => database.close());
  const [run] = database.runs();
  assert.ok(run !== undefined);
  assert.equal(database.span().records, 3);
  const [state] = database.fleetStates(run.id, 0, Number.MAX_SAFE_INTEGER);
  assert.ok(state !== undefined);
  const fleet = decodeFleetState(state.body);
  assert.deepEqual(
    fleet.nodes.map(({ id, usdPerHour, models }) => [id, usdPerHour, models.length]),
    [["a", 3, 1]],
  );
  assert.deepEqual(
    fleet.policies.map(({ name, latencyTargetMs }) => [name, latencyTargetMs]),
    [
      ["fast", 5000],
      ["zml-default", Number.NaN],
    ],
  );
});

test("a node that goes down is noted, so that a replay takes it down too", async (t) => {
  const quick = `${KEEP}health: { poll_interval_ms: 200, timeout_ms: 200 }\n`;
  const { gateway, node, storeFolder } = await keeping(t, quick);
  await asked(gateway, 1);
  await node.kill("rst");
  await until("the node is down", async () => gateway.stats().fleet.totals.healthy_nodes === 0);
  await gateway.stop();
  const database = new DecisionDatabase(join(storeFolder, "decisions.sqlite"));
  t.after(() => database.close());
  const states = database.runs().flatMap(({ id }) => database.nodeChanges(id, 0, Number.MAX_SAFE_INTEGER));
  assert.equal(states.at(-1)?.state, 0);
});

test("status and metrics tell what is kept; a reload begins and ends it", async (t) => {
  const { gateway, text, write } = await keeping(t, "evidence: { ring_records: 128 }\n");
  await asked(gateway, 1);
  assert.equal((await admin(gateway, "status")).body.decisions?.state, "off");
  assert.ok(!gateway.metrics().includes("zml_decisions_kept_total "));
  write(text.replace("evidence: { ring_records: 128 }\n", KEEP));
  assert.equal((await gateway.reload()).kind, "applied");
  await asked(gateway, 2);
  const kept = async () => (await admin(gateway, "status")).body.decisions;
  await admin(gateway, `decisions/${NOWHERE}`);
  await until("records are kept", async () => ((await kept())?.kept ?? 0) >= 2);
  assert.equal((await kept())?.state, "ok");
  assert.match(gateway.metrics(), /^zml_decisions_kept_total [23]$/m);
  assert.match(gateway.metrics(), /^zml_decisions_dropped_total\{reason="overwritten"\} 0$/m);
  write(text);
  await gateway.reload();
  assert.equal((await kept())?.state, "off");
});

test("a backup takes kept decisions along when it is asked to, and a restore brings them back", async (t) => {
  const { gateway, text, storeFolder } = await keeping(t);
  const [id] = await asked(gateway, 1);
  const plain = join(folder(t), "plain.sqlite");
  const without = await admin(gateway, "store/backup", post({ path: plain }));
  assert.equal(without.body.decisions_bytes, null);
  assert.ok(!existsSync(`${plain}.decisions`));
  const path = join(folder(t), "copy.sqlite");
  const copied = await admin(gateway, "store/backup", post({ path, decisions: true }));
  assert.equal(copied.status, 201, JSON.stringify(copied.body));
  assert.equal(copied.body.decisions_bytes, statSync(`${path}.decisions`).size);
  await gateway.stop();
  const elsewhere = join(folder(t), "zml-data");
  assert.equal(restoreStore({ backup: path, folder: elsewhere, force: false }).hasDecisions, true);
  const { gateway: second } = await startOn(t, text, { storeFolder: elsewhere });
  assert.equal((await admin(second, `decisions/${id}`)).status, 200);
  await second.stop();
  assert.ok(statSync(join(storeFolder, "decisions.sqlite")).size > 0);
});
