/** Dollars, from the attempts that callers caused to what an operator and a tenant read. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { MoneyJson } from "@zml/protocol/admin";
import { chat, fakeNode, PORTS, startOn, until } from "./control-fixture.ts";

/** The node tells 8 tokens of each answer; learned speeds are assumptions at first, so that prices alone differ. */
const POLICY = `policies:
  - { name: saving, accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }], cost_priority: cost }
models: [{ name: m, policy: saving }]
`;

async function startTwo(t: TestContext) {
  const [a, b] = [await fakeNode(t), await fakeNode(t)];
  const nodes = `nodes:
  - { id: a, url: "${a.url}", family: H100, cost: { usd_per_gpu_hour: 4 } }
  - { id: b, url: "${b.url}", family: MI300X, cost: { usd_per_gpu_hour: 1 } }
`;
  const started = await startOn(t, PORTS + nodes + POLICY);
  const money = async (query = ""): Promise<MoneyJson> => {
    const response = await fetch(`${started.gateway.adminUrl}/admin/v1/money?window=start${query}`);
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as MoneyJson;
  };
  const answered = async (answers: number, query = ""): Promise<MoneyJson> => {
    let told = await money(query);
    await until(`${answers} answers are counted`, async () => {
      told = await money(query);
      return told.total.answers >= answers;
    });
    return told;
  };
  return { a, b, ...started, money, answered };
}

test("what callers got on the cheap family is told with what it would have cost on the preferred one", async (t) => {
  const { gateway, answered } = await startTwo(t);
  for (let each = 0; each < 3; each++) await (await chat(gateway)).text();
  const { total, rows, fleet_usd_per_hour } = await answered(3, "&by=family");
  assert.deepEqual(
    rows.map(({ name, answers }) => [name, answers]),
    [["MI300X", 3]],
  );
  assert.equal(fleet_usd_per_hour, 5);
  assert.ok(total.usd > 0 && total.output_tokens === 24, JSON.stringify(total));
  assert.ok(Math.abs(total.compared_usd - total.usd) < 1e-12);
  assert.ok(total.savings_usd > 0, JSON.stringify(total));
  const page = gateway.metrics();
  const line =
    /^zml_cost_usd_total\{account="default",policy="saving",family="MI300X",gen_ai_request_model="m",outcome="delivered"\} (\S+)$/m;
  assert.ok(Math.abs(Number(line.exec(page)?.[1]) - total.usd) < 1e-9);
});

test("an attempt that broke off after its first token has cost its node's time, on that node's family", async (t) => {
  const { b, gateway, answered } = await startTwo(t);
  b.faults.cutAfterEvents(5, "rst", 1);
  const broken = await chat(gateway, { stream: true });
  await broken.text().catch(() => undefined);
  await until("it is counted", async () => (await answered(0, "&by=family")).total.failed_usd > 0);
  const { total, rows } = await answered(0, "&by=family");
  assert.deepEqual([rows.length, rows[0]?.name, total.answers], [1, "MI300X", 0]);
  assert.equal(total.usd, total.failed_usd);
  assert.ok(total.savings_usd < 0);
});
