/** Callers of HTTP/2 who leave no room for their answers or don't end their bodies: each is let go in time. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { identity, pem } from "./certificates.ts";
import { block, FLAG, FRAME, FrameClient, frame, setting, uint32 } from "./h2-frames.ts";
import { type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody } from "./raw-client.ts";
import { healthy, startScriptedNode } from "./scripted-node.ts";

const NO_ERROR = 0;
const INTERNAL_ERROR = 2;
const CANCEL = 8;

/** What callers say of their windows. */
const NO_WINDOW = setting(4, 0);
const OPEN_WINDOW = setting(4, 1_000_000);

/** What a caller sends of a body that it does not end. */
const PART = Buffer.from('{"model":');

for (const [name, tls, serverTls] of [
  ["in clear text", undefined, undefined],
  [
    "under TLS",
    { ca: pem("ca"), servername: "localhost" },
    { ...identity("server"), clientCa: null, minVersion: "1.2" as const },
  ],
] as const) {
  async function gateway(t: TestContext, file: Record<string, Record<string, unknown>> = {}) {
    const node = await startScriptedNode(healthy("a"));
    const plane = await startPlane([{ id: "a", url: node.url }], {
      file: {
        ...file,
        data: { body_ms: 100, keep_alive_ms: 200, ...file.data },
        timeouts: { slow_client_ms: 300, ...file.timeouts },
      },
      ...(serverTls === undefined ? {} : { tls: serverTls }),
    });
    t.after(async () => {
      await plane.stop();
      await node.stop();
    });
    return plane;
  }
  const open = (plane: PlaneFixture, settings: Buffer) => FrameClient.open(plane.port, settings, tls);

  test(`${name}: with no window and a body that never ends, the stream is reset, and its connection ends`, async (t) => {
    const plane = await gateway(t);
    const client = await open(plane, NO_WINDOW);
    client.post(1, null);
    client.send(frame(FRAME.data, 0, 1, PART));
    assert.equal(await client.resetCode(1), INTERNAL_ERROR);
    assert.equal(await client.goaway(), NO_ERROR);
    await plane.settled();
  });

  test(`${name}: with no window and a body that has ended, the same`, async (t) => {
    const plane = await gateway(t);
    const client = await open(plane, NO_WINDOW);
    client.post(1, chatBody());
    assert.equal(await client.resetCode(1), INTERNAL_ERROR);
    assert.equal(await client.goaway(), NO_ERROR);
    await plane.settled();
  });

  test(`${name}: such streams of a connection in use give their places back`, async (t) => {
    const plane = await gateway(t, { data: { http2: { max_streams: 4 } } });
    const client = await open(plane, NO_WINDOW);
    let stream = 1;
    for (let round = 0; round < 5; round++, stream += 8) {
      for (let at = stream; at < stream + 8; at += 2) {
        client.post(at, null);
        client.send(frame(FRAME.data, 0, at, PART));
      }
      for (let at = stream; at < stream + 8; at += 2) assert.equal(await client.resetCode(at), INTERNAL_ERROR);
    }
    client.post(stream, chatBody());
    client.send(frame(FRAME.windowUpdate, 0, stream, uint32(100_000)));
    await client.answered(stream);
    await plane.settled();
    client.close();
  });

  test(`${name}: a window that is opened in time takes the answer whole, and the rest of the body is not asked for`, async (t) => {
    const plane = await gateway(t, { timeouts: { slow_client_ms: 10_000 } });
    const client = await open(plane, NO_WINDOW);
    client.post(1, null);
    client.send(frame(FRAME.data, 0, 1, PART));
    await client.waitFor(({ type, stream }) => type === FRAME.headers && stream === 1, "a head");
    assert.equal(client.bodyBytes(1), 0);
    client.send(frame(FRAME.windowUpdate, 0, 1, uint32(100_000)));
    assert.equal(await client.resetCode(1), NO_ERROR);
    await client.answered(1);
    const body = client.frames.flatMap(({ type, payload }) => (type === FRAME.data ? [payload] : []));
    assert.equal(JSON.parse(Buffer.concat(body).toString()).error.code, "body_timeout");
    assert.equal(await client.goaway(), NO_ERROR);
    await plane.settled();
  });

  test(`${name}: a stream that its caller resets, whatever the reason, leaves nothing`, async (t) => {
    for (const code of [NO_ERROR, CANCEL]) {
      for (const when of ["before its answer", "behind its answer's head"]) {
        const plane = await gateway(t, {
          data: { body_ms: when === "before its answer" ? 60_000 : 100 },
          timeouts: { slow_client_ms: 60_000 },
        });
        const client = await open(plane, NO_WINDOW);
        client.post(1, null);
        client.send(frame(FRAME.data, 0, 1, PART));
        if (when === "before its answer") await until(() => plane.server.runningCount === 1, "the request");
        else await client.waitFor(({ type, stream }) => type === FRAME.headers && stream === 1, "a head");
        client.send(frame(FRAME.rstStream, 0, 1, uint32(code)));
        await plane.settled();
        assert.equal(await client.goaway(), NO_ERROR, `${when}, code ${code}`);
      }
    }
  });

  test(`${name}: with an open window, a body that never ends is answered, and its stream ends at once`, async (t) => {
    const plane = await gateway(t, { timeouts: { slow_client_ms: 60_000 }, limits: { body_bytes: 1024 } });
    const bodies: [string, Buffer[]][] = [
      ["that stops", [PART]],
      ["that is too large", [Buffer.alloc(2000, " ")]],
      ["that is too large and goes on", Array.from({ length: 50 }, () => Buffer.alloc(2000, " "))],
    ];
    for (const [body, pieces] of bodies) {
      const client = await open(plane, OPEN_WINDOW);
      client.post(1, null);
      client.send(...pieces.map((piece) => frame(FRAME.data, 0, 1, piece)));
      await client.answered(1);
      assert.equal(await client.resetCode(1), NO_ERROR, body);
      assert.equal(await client.goaway(), NO_ERROR, body);
      await plane.settled();
    }
  });

  test(`${name}: answers of every other route are watched as well`, async (t) => {
    const plane = await gateway(t);
    const fields = (method: string, path: string): [string, string][] => [
      [":method", method],
      [":scheme", "http"],
      [":path", path],
      [":authority", "x"],
    ];
    const requests: [string, string][] = [
      ["GET", "/v1/models"],
      ["GET", "/healthz"],
      ["GET", "/nowhere"],
      ["POST", "/nowhere"],
      ["POST", "/healthz"],
      ["PUT", "/v1/chat/completions"],
    ];
    const ask = async ([method, path]: [string, string]): Promise<void> => {
      const client = await open(plane, NO_WINDOW);
      const end = method === "GET" ? FLAG.endStream : 0;
      client.send(frame(FRAME.headers, FLAG.endHeaders | end, 1, block(fields(method, path))));
      assert.equal(await client.resetCode(1), INTERNAL_ERROR, `${method} ${path}`);
      assert.equal(await client.goaway(), NO_ERROR, `${method} ${path}`);
    };
    await Promise.all(requests.map(ask));
    await plane.settled();
  });

  test(`${name}: a drain waits for an answer that has not been taken, as long as its grace allows`, async (t) => {
    const plane = await gateway(t, { timeouts: { slow_client_ms: 60_000 } });
    const client = await open(plane, NO_WINDOW);
    client.post(1, null);
    client.send(frame(FRAME.data, 0, 1, PART));
    await client.waitFor(({ type, stream }) => type === FRAME.headers && stream === 1, "a head");
    const drained = plane.server.drain(10_000);
    client.send(frame(FRAME.windowUpdate, 0, 1, uint32(100_000)));
    await client.answered(1);
    assert.equal(await drained, 0);
  });
}
