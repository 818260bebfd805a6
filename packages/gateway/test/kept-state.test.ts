/** What outlives a gateway, through the whole gateway. */

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "./control-fixture.ts";

const reportOf = (gateway: Gateway) => gateway.stats().fleet.nodes[0];

async function ask(gateway: Gateway, times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    const response = await chat(gateway, { stream: true });
    await response.text();
    assert.equal(response.status, 200);
  }
}

test("what a gateway learned of a node is there after its restart", async (t) => {
  const node = await fakeNode(t);
  const storeFolder = folder(t);
  const text = `${PORTS}nodes: [{ id: a, url: "${node.url}", family: H100 }]\n`;
  const first = await startOn(t, text, { storeFolder });
  await ask(first.gateway, 3);
  await until("the speed is learned", () => reportOf(first.gateway)?.last_success_age_ms !== null);
  await first.gateway.stop();
  const before = reportOf(first.gateway);
  const meanBefore = first.gateway.stats().fleet.models[0]?.mean_output_tokens;

  const second = await startOn(t, text, { storeFolder });
  const after = reportOf(second.gateway);
  assert.equal(after?.error_rate, before?.error_rate);
  assert.equal(after?.stream_tokens_per_second, before?.stream_tokens_per_second);
  assert.equal(second.gateway.stats().fleet.models[0]?.mean_output_tokens, meanBefore);
  assert.notEqual(after?.last_success_age_ms, null);
  assert.ok((after?.last_success_age_ms ?? 0) >= 0);
  await second.gateway.stop();
});

test("what predictions are made with is there after a restart, from the first poll on", async (t) => {
  const node = await fakeNode(t);
  const storeFolder = folder(t);
  const text = `${PORTS}nodes: [{ id: a, url: "${node.url}", family: H100 }]\n`;
  const predicted = (gateway: Gateway) => reportOf(gateway)?.predictions.m;
  const first = await startOn(t, text, { storeFolder });
  await ask(first.gateway, 40);
  await until("answers were learned from", () => {
    const { samples, step_ms: stepMs } = predicted(first.gateway) ?? { samples: 0, step_ms: 0 };
    return samples >= 40 && stepMs < 20;
  });
  await first.gateway.stop();
  const before = predicted(first.gateway);

  const second = await startOn(t, text, { storeFolder });
  await until("the family is known", () => predicted(second.gateway) !== undefined);
  const after = predicted(second.gateway);
  assert.ok(before !== undefined && after !== undefined);
  assert.ok(after.samples >= before.samples - 1 && after.samples <= before.samples, `${after.samples}`);
  // all but the node's own slowness, which a minute forgets; this node takes microseconds, an unknown one is given 20 ms
  const family = before.step_ms / (before.slowness ?? 1);
  assert.ok(
    Math.abs(after.step_ms - family) <= 0.1 * family + 1,
    `${before.step_ms} ${before.slowness} ${after.step_ms}`,
  );
  assert.equal(second.gateway.stats().fleet.models[0]?.mean_output_tokens, 8);
  await second.gateway.stop();

  // other hardware under the same name of a node begins anew
  const third = await startOn(t, text.replace("H100", "L4"), { storeFolder });
  await ask(third.gateway, 1);
  await until("the answer was learned from", () => predicted(third.gateway) !== undefined);
  assert.ok((predicted(third.gateway)?.samples ?? 99) < 40);
});

test("a store that can't be made is said once, and traffic runs", async (t) => {
  const node = await fakeNode(t);
  const blocked = join(folder(t), "blocked");
  writeFileSync(blocked, "");
  const text = `${PORTS}nodes: [{ id: a, url: "${node.url}", family: H100 }]\n`;
  const { gateway, log } = await startOn(t, text, { storeFolder: join(blocked, "store") });
  await ask(gateway, 2);
  assert.ok(log.has("error", /the store .* can't be used .*check that the folder exists.*traffic runs on/));
  const { isClean } = await gateway.stop();
  assert.equal(isClean, true);
});

test("a gateway without a store folder writes nothing", async (t) => {
  const node = await fakeNode(t);
  const { gateway, path } = await startOn(t, `${PORTS}nodes: [{ id: a, url: "${node.url}", family: H100 }]\n`);
  await ask(gateway, 1);
  await gateway.stop();
  assert.equal(existsSync(join(path, "..", "zml-data")), false);
});
