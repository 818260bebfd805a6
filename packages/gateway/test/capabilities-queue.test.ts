/** What a request needs of a node while it waits for room. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { writeCapabilities } from "@zml/engine";
import { endAfterEach } from "./pair-fixture.ts";
import { chat, errorOf, type FixtureNode, startPlane, until } from "./plane-fixture.ts";
import { chatAnswer, type NodeCall, plain, startScriptedNode } from "./scripted-node.ts";

const started = endAfterEach();

/** Two nodes with one place each, whose calls the test answers, and a policy that waits. */
async function queueOf(a: Partial<FixtureNode>, b: Partial<FixtureNode>, maxQueueMs = 30_000) {
  const nodes = [await startScriptedNode(() => {}), await startScriptedNode(() => {})] as const;
  const plane = await startPlane(
    nodes.map(({ url }, row) => ({ id: "ab"[row] ?? "", url, maxInFlight: 1, ...(row === 0 ? a : b) })),
    { policy: { queueOnSaturation: true, maxQueueMs } },
  );
  started.push(...nodes, plane);
  return { calls: nodes.map(({ calls }) => calls), plane };
}

const answer = (call: NodeCall | undefined): void => call?.write(plain(200, chatAnswer("a")));

const part = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
const image = { messages: [{ role: "user", content: [part] }] };

test("a request that no node could ever take does not wait", async () => {
  const { calls, plane } = await queueOf({ readsImages: false }, { readsImages: false });
  const response = await chat(plane.url, image);
  assert.deepEqual([response.status, (await errorOf(response)).code], [400, "images_unsupported"]);
  assert.deepEqual(
    calls.map(({ length }) => length),
    [0, 0],
  );
  await plane.settled();
});

test("a request with an image waits for the node that reads it, and holds no text back that needs another", async () => {
  const { calls, plane } = await queueOf({ readsImages: false }, {});
  const [ofText = [], ofImages = []] = calls;
  const first = chat(plane.url, image);
  await until(() => ofImages.length === 1);
  const second = chat(plane.url, image);
  await until(() => plane.plane.parked.count === 1);
  const text = chat(plane.url);
  await until(() => ofText.length === 1, "the text reaches the free node while the image waits");
  answer(ofText[0]);
  assert.equal((await text).status, 200);
  assert.equal(plane.plane.parked.count, 1, "the text node's room is of no use to the image");
  answer(ofImages[0]);
  assert.equal((await first).status, 200);
  await until(() => ofImages.length === 2);
  answer(ofImages[1]);
  assert.equal((await second).status, 200);
  await plane.settled();
});

test("a request whose last capable node leaves while it waits is told what no node can do, not that all are full", async () => {
  const { calls, plane } = await queueOf({ readsImages: false }, {}, 200);
  const [, ofImages = []] = calls;
  const first = chat(plane.url, image);
  await until(() => ofImages.length === 1);
  const second = chat(plane.url, image);
  await until(() => plane.plane.parked.count === 1);
  const { table } = plane.plane;
  writeCapabilities(table, 1, { contextTokens: Number.NaN, readsImages: false, endpoints: null });
  const response = await second;
  assert.deepEqual([response.status, (await errorOf(response)).code], [400, "images_unsupported"]);
  answer(ofImages[0]);
  assert.equal((await first).status, 200);
  await plane.settled();
});

test("text that waits takes the room that an older image has no use for", async () => {
  const { calls, plane } = await queueOf({ readsImages: false }, {});
  const [ofText = [], ofImages = []] = calls;
  const running = [chat(plane.url, image), chat(plane.url)];
  await until(() => ofImages.length === 1 && ofText.length === 1);
  const waiting = chat(plane.url, image);
  await until(() => plane.plane.parked.count === 1);
  const text = chat(plane.url);
  await until(() => plane.plane.parked.count === 2);
  answer(ofText[0]);
  await until(() => ofText.length === 2, "the text passes the image that waits");
  answer(ofText[1]);
  assert.equal((await text).status, 200);
  answer(ofImages[0]);
  await until(() => ofImages.length === 2);
  answer(ofImages[1]);
  for (const response of await Promise.all([...running, waiting])) assert.equal(response.status, 200);
  await plane.settled();
});
