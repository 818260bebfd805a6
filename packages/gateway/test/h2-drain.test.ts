/**
 * Callers of HTTP/2 who send while their connection is told to end: what crosses the first GOAWAY is served, and nobody is
 * waited for who does not answer.
 */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { identity, pem } from "./certificates.ts";
import { FLAG, FRAME, type Frame, FrameClient, frame, PREFACE, postFrames } from "./h2-frames.ts";
import { type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody } from "./raw-client.ts";
import { healthy, startScriptedNode } from "./scripted-node.ts";

const NO_ERROR = 0;
const HIGHEST_STREAM = 2 ** 31 - 1;
const TLS = {
  client: { ca: pem("ca"), servername: "localhost" },
  server: { ...identity("server"), clientCa: null, minVersion: "1.2" as const },
};

/** A gateway, a connection to it that has been answered once, and how to let the node answer what is held. */
async function begin(t: TestContext, { isTls = false, keepAliveMs = 60_000 } = {}) {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const node = await startScriptedNode(async (call, index) => {
    if (call.body.includes('"held"')) await opened;
    return healthy("a")(call, index);
  });
  const plane = await startPlane([{ id: "a", url: node.url }], {
    file: { data: { keep_alive_ms: keepAliveMs } },
    ...(isTls ? { tls: TLS.server } : {}),
  });
  t.after(async () => {
    await plane.stop();
    await node.stop();
  });
  const client = await FrameClient.open(plane.port, undefined, isTls ? TLS.client : undefined);
  t.after(() => client.close());
  client.post(1, chatBody());
  await client.answered(1);
  return { plane, client, open };
}

const ofGoaway = ({ type }: Frame): boolean => type === FRAME.goaway;
/** What the GOAWAYs say, each once. */
const lastStreams = (client: FrameClient): number[] => [
  ...new Set(client.frames.filter(ofGoaway).map(({ payload }) => payload.readUInt32BE(0))),
];

async function answerPing(client: FrameClient): Promise<void> {
  const ping = await client.waitFor(({ type, flags }) => type === FRAME.ping && flags === 0, "a PING");
  client.send(frame(FRAME.ping, FLAG.ack, 0, ping.payload));
}

/** Has a request run that the node does not answer yet. */
async function hold(client: FrameClient, plane: PlaneFixture, stream: number): Promise<void> {
  client.post(stream, chatBody({ user: "held" }));
  await until(() => plane.inFlight() === 1, "the held request");
}

test("a drain lasts no longer than a round trip may for a caller who never answers its PING", async (t) => {
  const { plane, client } = await begin(t);
  const sinceMs = performance.now();
  assert.equal(await plane.server.drain(20_000), 0);
  assert.ok(performance.now() - sinceMs < 10_000, "it was waited for");
  assert.equal(await client.goaway(), NO_ERROR);
});

test("a drain's time bounds that, too", async (t) => {
  const { plane } = await begin(t);
  const sinceMs = performance.now();
  await plane.server.drain(10);
  assert.ok(performance.now() - sinceMs < 900, "it took a round trip");
});

test("a request that crosses the GOAWAY of a drain is served, on a connection that had none", async (t) => {
  const { plane, client } = await begin(t);
  const drained = plane.server.drain(10_000);
  // it was sent before the GOAWAY was read, for all that the gateway knows
  client.post(3, chatBody());
  await client.answered(3);
  await answerPing(client);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.deepEqual(lastStreams(client), [HIGHEST_STREAM, 3]);
  assert.equal(await drained, 0);
});

test("one that crosses it is served beside one that runs, and what runs is waited for", async (t) => {
  const { plane, client, open } = await begin(t);
  await hold(client, plane, 3);
  const drained = plane.server.drain(10_000);
  client.post(5, chatBody());
  await client.answered(5);
  await answerPing(client);
  await until(() => lastStreams(client).length === 2, "the last GOAWAY");
  open();
  await client.answered(3);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.deepEqual(lastStreams(client), [HIGHEST_STREAM, 5]);
  assert.equal(await drained, 0);
});

test("behind the last GOAWAY nothing is begun", async (t) => {
  const { plane, client, open } = await begin(t);
  await hold(client, plane, 3);
  const drained = plane.server.drain(10_000);
  await answerPing(client);
  await until(() => lastStreams(client).length === 2, "the last GOAWAY");
  client.post(5, chatBody());
  open();
  await client.answered(3);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.equal(client.frames.filter(({ stream }) => stream === 5).length, 0);
  assert.equal(await drained, 0);
});

for (const isTakenOver of [false, true]) {
  const what = isTakenOver ? "a takeover" : "a drain";

  test(`a connection whose first bytes come in ${what} hears our settings before its GOAWAY, and is served`, async (t) => {
    const { plane, client } = await begin(t);
    // a drain waits for those alone whom it knows
    if (isTakenOver) client.close();
    const late = await FrameClient.connect(plane.port);
    t.after(() => late.close());
    const drained = plane.server.drain(10_000, isTakenOver);
    late.send(PREFACE, frame(FRAME.settings, 0, 0), ...postFrames(1, chatBody()));
    await late.answered(1);
    assert.equal(late.frames[0]?.type, FRAME.settings);
    late.send(frame(FRAME.settings, FLAG.ack, 0));
    await answerPing(late);
    assert.equal(await late.goaway(), NO_ERROR);
    assert.deepEqual(lastStreams(late), [HIGHEST_STREAM, 1]);
    assert.equal(await drained, 0);
  });

  test(`one that comes in ${what} and never takes our settings ends, too`, async (t) => {
    const { plane, client } = await begin(t);
    // a drain waits for those alone whom it knows
    if (isTakenOver) client.close();
    const late = await FrameClient.connect(plane.port);
    t.after(() => late.close());
    const drained = plane.server.drain(10_000, isTakenOver);
    late.send(PREFACE, frame(FRAME.settings, 0, 0));
    assert.equal(await late.goaway(), NO_ERROR);
    assert.equal(late.frames[0]?.type, FRAME.settings);
    assert.equal(await drained, 0);
  });
}

test("an idle connection that asks nothing ends, whether its caller answers the PING or not", async (t) => {
  const { client } = await begin(t, { keepAliveMs: 100 });
  assert.equal(await client.goaway(), NO_ERROR);
  assert.deepEqual(lastStreams(client), [HIGHEST_STREAM, 1]);
});

test("a request that crosses the GOAWAY of an idle connection is served, and is its last one", async (t) => {
  const { client, plane } = await begin(t, { keepAliveMs: 100 });
  await client.waitFor(ofGoaway, "a GOAWAY");
  client.post(3, chatBody());
  await client.answered(3);
  await answerPing(client);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.deepEqual(lastStreams(client), [HIGHEST_STREAM, 3]);
  await plane.settled();
});

test("a caller who goes on asking behind that GOAWAY has no connection for ever", async (t) => {
  const { client, plane } = await begin(t, { keepAliveMs: 20 });
  await client.waitFor(ofGoaway, "a GOAWAY");
  for (let stream = 3; !client.isClosed; stream += 2) {
    assert.ok(stream < 2000, "it is served on and on");
    client.post(stream, chatBody());
    const isAnswered = ({ stream: id, flags }: Frame): boolean => id === stream && (flags & FLAG.endStream) !== 0;
    await until(() => client.isClosed || lastStreams(client).length > 1 || client.frames.some(isAnswered), "an answer");
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  assert.equal(await client.goaway(), NO_ERROR);
  await plane.settled();
});

test("under TLS, a takeover lets an idle connection ask once more, and says that it ends before it answers", async (t) => {
  const { plane, client } = await begin(t, { isTls: true });
  const drained = plane.server.drain(10_000, true);
  // several in one write: none of them may be left behind the GOAWAY
  client.send(...[3, 5, 7].flatMap((stream) => postFrames(stream, chatBody())));
  for (const stream of [3, 5, 7]) await client.answered(stream);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.deepEqual(lastStreams(client), [7]);
  const firstAnswer = client.frames.findIndex(({ type, stream }) => type === FRAME.headers && stream >= 3);
  assert.ok(
    client.frames.findIndex(ofGoaway) < firstAnswer,
    "a caller who waits for its answer sends nothing meanwhile",
  );
  assert.equal(await drained, 0);
});

test("under TLS, a connection in use is told at once, and an idle one that asks nothing in the end", async (t) => {
  const { plane, client, open } = await begin(t, { isTls: true });
  const idle = await FrameClient.open(plane.port, undefined, TLS.client);
  t.after(() => idle.close());
  await hold(client, plane, 3);
  const drained = plane.server.drain(20_000, true);
  await until(() => lastStreams(client).length > 0, "a GOAWAY");
  assert.deepEqual(lastStreams(client), [3]);
  assert.deepEqual(lastStreams(idle), []);
  open();
  await client.answered(3);
  assert.equal(await idle.goaway(), NO_ERROR);
  assert.equal(await drained, 0);
});
