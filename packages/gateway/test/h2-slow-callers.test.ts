/** Callers of HTTP/2 who take a large answer slowly: whoever goes on taking it gets it whole, whoever stops is let go in time. */

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { identity, pem } from "./certificates.ts";
import { FRAME, FrameClient, frame, setting, uint32 } from "./h2-frames.ts";
import { startPlane, until } from "./plane-fixture.ts";
import { chatBody } from "./raw-client.ts";
import { chatAnswer, DONE, healthy, plain, startScriptedNode, streaming, token } from "./scripted-node.ts";

const INTERNAL_ERROR = 2;
const SLOW_CLIENT_MS = 800;
/** What a slow caller opens of its window at a time: 64 KiB take it twice as long as one may take nothing. */
const STEP_BYTES = 4096;
const STEP_MS = 100;

const LARGE = chatAnswer(randomBytes(60_000).toString("hex"));
const EVENTS = [...Array.from({ length: 900 }, (_, at) => token(`word ${at}`)), token("", "stop"), DONE];

for (const [name, tls, serverTls] of [
  ["in clear text", undefined, undefined],
  [
    "under TLS",
    { ca: pem("ca"), servername: "localhost" },
    { ...identity("server"), clientCa: null, minVersion: "1.2" as const },
  ],
] as const) {
  /** A gateway whose node gives the first caller a large answer, and others a small one. */
  async function begin(t: TestContext, { isStream = false } = {}) {
    const node = await startScriptedNode((call, index) => {
      if (index > 0) return healthy("a")(call, index);
      return isStream ? streaming(...EVENTS)(call, index) : call.write(plain(200, LARGE));
    });
    const plane = await startPlane([{ id: "a", url: node.url }], {
      file: { timeouts: { slow_client_ms: SLOW_CLIENT_MS } },
      ...(serverTls === undefined ? {} : { tls: serverTls }),
    });
    t.after(async () => {
      await plane.stop();
      await node.stop();
    });
    const client = await FrameClient.open(plane.port, setting(4, STEP_BYTES), tls);
    t.after(() => client.close());
    client.send(frame(FRAME.windowUpdate, 0, 0, uint32(2 ** 30)));
    client.post(1, chatBody({ stream: isStream }));
    return { plane, client };
  }

  /** Opens the window of stream 1 a little more, again and again. */
  function takeSteadily(t: TestContext, client: FrameClient): { stop(): void } {
    const timer = setInterval(() => client.send(frame(FRAME.windowUpdate, 0, 1, uint32(STEP_BYTES))), STEP_MS);
    t.after(() => clearInterval(timer));
    return { stop: () => clearInterval(timer) };
  }

  test(`${name}: a caller who takes a large answer slowly and steadily gets it whole`, async (t) => {
    const { plane, client } = await begin(t);
    takeSteadily(t, client);
    await client.answered(1);
    assert.equal(digest(client.body(1)), digest(Buffer.from(LARGE)));
    await plane.settled();
  });

  test(`${name}: one who takes many small events slowly and steadily gets each of them`, async (t) => {
    const { plane, client } = await begin(t, { isStream: true });
    takeSteadily(t, client);
    await client.answered(1);
    assert.equal(client.body(1).toString(), EVENTS.join(""));
    await plane.settled();
  });

  test(`${name}: one who stops in the middle is reset in time, however busy its connection is`, async (t) => {
    const { plane, client } = await begin(t);
    const steps = takeSteadily(t, client);
    await until(() => client.bodyBytes(1) > 10 * STEP_BYTES, "some of the answer");
    steps.stop();
    const sinceMs = performance.now();
    let stream = 1;
    while (!client.frames.some(({ type, stream: id }) => type === FRAME.rstStream && id === 1)) {
      assert.ok(performance.now() - sinceMs < 5 * SLOW_CLIENT_MS, "it was not reset");
      stream += 2;
      client.post(stream, chatBody());
      client.send(frame(FRAME.windowUpdate, 0, stream, uint32(100_000)));
      await client.answered(stream);
    }
    assert.equal(await client.resetCode(1), INTERNAL_ERROR);
    assert.ok(performance.now() - sinceMs > SLOW_CLIENT_MS - 2 * STEP_MS, "it was reset too early");
    await plane.settled();
  });

  test(`${name}: a caller who leaves with most of it untaken leaves nothing`, async (t) => {
    const { plane, client } = await begin(t);
    await until(() => client.bodyBytes(1) === STEP_BYTES, "what the window allows");
    client.send(frame(FRAME.rstStream, 0, 1, uint32(8)));
    await plane.settled();
    client.post(3, chatBody());
    client.send(frame(FRAME.windowUpdate, 0, 3, uint32(100_000)));
    await client.answered(3);
    await plane.settled();
  });
}

function digest(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
