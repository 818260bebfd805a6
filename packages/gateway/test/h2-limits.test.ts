/** What a caller's HTTP/2 connection may do, frame by frame. Unhappy paths only. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { block, FLAG, FRAME, FrameClient, frame, PREFACE, postFields, setting, uint32 } from "./h2-frames.ts";
import { type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import { chunk, healthy, type NodeScript, STREAM_HEAD, startScriptedNode, token } from "./scripted-node.ts";

const ENHANCE_YOUR_CALM = 11;
const PROTOCOL_ERROR = 1;
const REFUSED_STREAM = 7;
const NO_ERROR = 0;

async function gateway(t: TestContext, data: Record<string, unknown> = {}, script: NodeScript = healthy("a")) {
  const node = await startScriptedNode(script);
  const plane = await startPlane([{ id: "a", url: node.url }], { file: { data } });
  t.after(async () => {
    await plane.stop();
    await node.stop();
  });
  return { node, plane };
}

/** Another caller is still served, and nothing is left of this one. */
async function isUnharmed(plane: PlaneFixture): Promise<void> {
  const other = await FrameClient.open(plane.port);
  other.post(1, chatBody());
  await other.answered(1);
  other.close();
  await plane.settled();
}

test("the preface", async (t) => {
  const { plane } = await gateway(t, { head_ms: 300 });

  await t.test("may come byte by byte", async () => {
    const client = await FrameClient.connect(plane.port);
    for (const byte of PREFACE) {
      client.send(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    client.send(frame(FRAME.settings, 0, 0));
    client.post(1, chatBody());
    await client.answered(1);
    client.close();
  });

  await t.test("may come in one packet with everything else", async () => {
    const client = await FrameClient.connect(plane.port);
    client.send(
      PREFACE,
      frame(FRAME.settings, 0, 0),
      frame(FRAME.headers, FLAG.endHeaders, 1, block(postFields())),
      frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())),
    );
    await client.answered(1);
    client.close();
  });

  await t.test("of which only a part comes is a slow head", async () => {
    const client = await FrameClient.connect(plane.port);
    client.send(PREFACE.slice(0, 20));
    await until(() => client.isClosed, "the close");
    assert.match(client.text, /^HTTP\/1\.1 408 /);
  });

  await t.test("without a request behind it ends like a slow head", async () => {
    const client = await FrameClient.open(plane.port);
    assert.equal(await client.goaway(), NO_ERROR);
  });

  await t.test("and a head that never ends is a slow head", async () => {
    const client = await FrameClient.open(plane.port);
    client.send(frame(FRAME.headers, 0, 1, block(postFields())));
    assert.equal(await client.goaway(), NO_ERROR);
  });

  await t.test("behind a request of HTTP/1.1 is none", async () => {
    const client = await RawClient.open(plane.port);
    client.send(Buffer.concat([post(chatBody()), Buffer.from(PREFACE)]));
    await client.closed();
    assert.ok(client.answers().length <= 2);
    assert.ok(!client.text.includes("\x00\x00\x12\x04"), "frames were sent into HTTP/1.1");
  });

  await t.test("with junk behind it ends the connection", async () => {
    const client = await FrameClient.connect(plane.port);
    client.send(PREFACE, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert.ok((await client.goaway()) !== NO_ERROR);
  });
  await isUnharmed(plane);
});

test("a slow head of HTTP/1.1 still ends its connection on a port that speaks both", async (t) => {
  const { plane } = await gateway(t, { head_ms: 300 });
  const client = await RawClient.open(plane.port);
  client.send("POST /v1/chat/completions HTTP/1.1\r\n");
  await client.closed();
  assert.match(client.text, /^HTTP\/1\.1 408 /);
});

test("an idle connection is told to go, and ends", async (t) => {
  const { plane } = await gateway(t, { keep_alive_ms: 200 });
  const client = await FrameClient.open(plane.port);
  client.post(1, chatBody());
  await client.answered(1);
  assert.equal(await client.goaway(), NO_ERROR);
  await plane.settled();
});

test("rapid resets (CVE-2023-44487) end the connection, and leave nothing in flight", async (t) => {
  const { plane, node } = await gateway(t, { http2: { reset_burst: 50, resets_per_second: 10 } }, () => {});
  const client = await FrameClient.open(plane.port);
  for (let index = 0; index < 500; index++) {
    const stream = 2 * index + 1;
    client.post(stream, chatBody());
    client.send(frame(FRAME.rstStream, 0, stream, uint32(8)));
  }
  assert.notEqual(await client.goaway(), NO_ERROR);
  assert.ok(node.calls.length < 500, `${node.calls.length} requests reached the node`);
  node.script = healthy("a");
  await isUnharmed(plane);
});

test("resets below the limit are only cancelled requests", async (t) => {
  const { plane, node } = await gateway(t, {}, () => {});
  const client = await FrameClient.open(plane.port);
  for (let index = 0; index < 100; index++) {
    client.post(2 * index + 1, chatBody());
    client.send(frame(FRAME.rstStream, 0, 2 * index + 1, uint32(8)));
  }
  await plane.settled();
  node.script = healthy("a");
  client.post(201, chatBody());
  await client.answered(201);
  assert.equal(client.isClosed, false);
  client.close();
});

test("a client that keeps to no limit of streams is refused, and loses its connection once it knew it", async (t) => {
  const { plane, node } = await gateway(t, { http2: { max_streams: 4 } }, () => {});
  const early = await FrameClient.connect(plane.port);
  early.send(PREFACE, frame(FRAME.settings, 0, 0));
  for (let index = 0; index < 6; index++) early.post(2 * index + 1, chatBody());
  assert.equal(await early.resetCode(9), REFUSED_STREAM);
  assert.equal(await early.resetCode(11), REFUSED_STREAM);
  await until(() => node.calls.length === 4, "four requests at the node");
  early.close();
  await plane.settled();

  const client = await FrameClient.open(plane.port);
  const settings = client.frames.find((one) => one.type === FRAME.settings && one.flags === 0);
  assert.ok(settings?.payload.includes(setting(3, 4)), "the limit is announced");
  for (let index = 0; index < 6; index++) client.post(2 * index + 1, chatBody());
  assert.equal(await client.goaway(), PROTOCOL_ERROR);
  await plane.settled();
});

test("floods of control frames end the connection", async (t) => {
  const floods: [string, () => Buffer][] = [
    ["PING", () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))],
    ["SETTINGS", () => frame(FRAME.settings, 0, 0)],
  ];
  for (const [name, flood] of floods) {
    await t.test(name, async (t) => {
      const { plane } = await gateway(t, { http2: { control_frames_per_second: 20 } });
      const client = await FrameClient.open(plane.port);
      const one = flood();
      for (let index = 0; index < 20; index++) client.send(Buffer.concat(Array.from({ length: 100 }, () => one)));
      assert.equal(await client.goaway(), ENHANCE_YOUR_CALM);
      await isUnharmed(plane);
    });
  }
});

test("control frames that nobody reads the answers of don't pile up", async (t) => {
  const { plane } = await gateway(t, { http2: { control_frames_per_second: 1_000_000 } });
  const client = await FrameClient.open(plane.port);
  client.socket.pause();
  const pings = Buffer.concat(Array.from({ length: 20_000 }, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))));
  const pump = (): void => {
    while (!client.isClosed && client.socket.write(pings));
  };
  client.socket.on("drain", pump);
  pump();
  await until(() => client.isClosed, "the end of the connection");
  await isUnharmed(plane);
});

test("floods of frames that do nothing end the connection, or are passed over", async (t) => {
  await t.test("empty DATA", async (t) => {
    const { plane } = await gateway(t);
    const client = await FrameClient.open(plane.port);
    client.post(1, null);
    const empty = Buffer.concat(Array.from({ length: 2000 }, () => frame(FRAME.data, 0, 1)));
    client.send(empty);
    assert.notEqual(await client.goaway(), NO_ERROR);
    await isUnharmed(plane);
  });

  await t.test("CONTINUATION without an end", async (t) => {
    const { plane } = await gateway(t);
    const client = await FrameClient.open(plane.port);
    client.send(frame(FRAME.headers, 0, 1, block(postFields())));
    for (let index = 0; index < 100; index++) client.send(frame(FRAME.continuation, 0, 1, block([["a", "b"]])));
    assert.notEqual(await client.goaway(), NO_ERROR);
    await isUnharmed(plane);
  });

  await t.test("DATA on streams that are closed", async (t) => {
    const { plane } = await gateway(t);
    const client = await FrameClient.open(plane.port);
    client.post(1, chatBody());
    await client.answered(1);
    for (let index = 0; index < 50; index++) {
      client.send(Buffer.concat(Array.from({ length: 100 }, () => frame(FRAME.data, 0, 1, Buffer.alloc(10)))));
    }
    await isUnharmed(plane);
    client.close();
  });
});

test("a head over the limit ends its stream or its connection, and reaches no node", async (t) => {
  const { plane, node } = await gateway(t);
  const heads: [string, [string, string][]][] = [
    ["one field", [["x-big", "a".repeat(15_000)]]],
    ["many fields", Array.from({ length: 1200 }, (_, index) => [`x-${index}`, ""])],
  ];
  for (const [name, fields] of heads) {
    const limited = await startPlane([{ id: "a", url: node.url }], { file: { limits: { header_bytes: 8192 } } });
    t.after(() => limited.stop());
    const client = await FrameClient.open(limited.port);
    const bytes = block(postFields(fields));
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += 16_384) {
      const piece = bytes.subarray(at, at + 16_384);
      const flags = at + 16_384 >= bytes.length ? FLAG.endHeaders : 0;
      pieces.push(frame(at === 0 ? FRAME.headers : FRAME.continuation, flags, 1, piece));
    }
    client.send(...pieces, frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())));
    await until(
      () => client.isClosed || client.frames.some(({ type, stream }) => type === FRAME.rstStream && stream === 1),
      name,
    );
    assert.ok(!client.frames.some(({ type }) => type === FRAME.headers), name);
    client.close();
    await limited.settled();
  }
  assert.equal(node.calls.length, 0);
  await isUnharmed(plane);
});

test("a compressed head that unfolds to more than the limit is refused as well", async (t) => {
  const { plane, node } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  // one field of 4,000 bytes into the table, then 100 references of one byte each
  const big = Buffer.concat([Buffer.from([0x40]), block([["x-bomb", "a".repeat(4000)]]).subarray(1)]);
  client.send(
    frame(FRAME.headers, FLAG.endHeaders, 1, Buffer.concat([block(postFields()), big, Buffer.alloc(100, 0x80 | 62)])),
    frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())),
  );
  await until(
    () => client.isClosed || client.frames.some(({ type, stream }) => type === FRAME.rstStream && stream === 1),
    "a refusal",
  );
  assert.equal(node.calls.length, 0);
  client.close();
  await isUnharmed(plane);
});

test("heads that HTTP/2 forbids reach no node", async (t) => {
  const { plane, node } = await gateway(t);
  const without = (name: string) => postFields().filter(([one]) => one !== name);
  const malformed: [string, (readonly [string, string])[]][] = [
    ["connection", postFields([["connection", "keep-alive"]])],
    ["keep-alive", postFields([["keep-alive", "timeout=5"]])],
    ["proxy-connection", postFields([["proxy-connection", "keep-alive"]])],
    ["transfer-encoding", postFields([["transfer-encoding", "chunked"]])],
    ["upgrade", postFields([["upgrade", "websocket"]])],
    ["te other than trailers", postFields([["te", "gzip"]])],
    ["an upper-case name", postFields([["X-Upper", "1"]])],
    ["a pseudo field behind others", [...without(":path"), [":path", "/v1/chat/completions"]]],
    ["a pseudo field twice", [[":path", "/v1/models"], ...postFields()]],
    ["an unknown pseudo field", [[":evil", "1"], ...postFields()]],
    ["a pseudo field of answers", [[":status", "200"], ...postFields()]],
    ["no method", without(":method")],
    ["no path", without(":path")],
    ["no scheme", without(":scheme")],
    ["an empty path", [[":path", ""], ...without(":path")]],
    ["a path that is no path", [[":path", "http://evil/"], ...without(":path")]],
    [
      "two lengths",
      postFields([
        ["content-length", "5"],
        ["content-length", "6"],
      ]),
    ],
    ["a length that is no number", postFields([["content-length", "5x"]])],
    ["a length that is not that of the body", postFields([["content-length", "3"]])],
    ["an extended CONNECT", [[":protocol", "websocket"], [":method", "CONNECT"], ...without(":method")]],
  ];
  for (const [name, fields] of malformed) {
    await t.test(name, async () => {
      const client = await FrameClient.open(plane.port);
      client.send(
        frame(FRAME.headers, FLAG.endHeaders, 1, block(fields)),
        frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())),
      );
      await until(
        () => client.isClosed || client.frames.some(({ type }) => type === FRAME.rstStream || type === FRAME.goaway),
        "a refusal",
      );
      const reset = client.frames.find(({ type }) => type === FRAME.rstStream);
      if (reset !== undefined) assert.equal(reset.payload.readUInt32BE(0), PROTOCOL_ERROR);
      assert.ok(!client.frames.some(({ type }) => type === FRAME.headers), "it was answered");
      client.close();
      await plane.settled();
      assert.equal(node.calls.length, 0, "it reached a node");
    });
  }
  await isUnharmed(plane);
});

test("a field that no HTTP allows is left out, and the request goes on without it", async (t) => {
  const { plane, node } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  client.post(1, chatBody(), [
    ["x y", "1"],
    ["tracestate", "a=b\r\nx-evil: 1"],
    ["openai-beta", "a\0b"],
    ["accept", "text/plain"],
  ]);
  await client.answered(1);
  const headers = node.calls[0]?.headers ?? {};
  assert.equal(headers.accept, "text/plain");
  for (const name of ["x y", "tracestate", "openai-beta", "x-evil"]) assert.equal(headers[name], undefined, name);
  client.close();
});

test("a request names one host", async (t) => {
  const { plane, node } = await gateway(t);
  const rest = postFields().filter(([name]) => name !== ":authority");
  const refused: [string, (readonly [string, string])[]][] = [
    ["none", rest],
    ["an empty one", [[":authority", ""], ...rest]],
    ["two hosts", [...rest, ["host", "x"], ["host", "y"]]],
    ["an authority and another host", postFields([["host", "y"]])],
  ];
  for (const [name, fields] of refused) {
    const client = await FrameClient.open(plane.port);
    client.send(
      frame(FRAME.headers, FLAG.endHeaders, 1, block(fields)),
      frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())),
    );
    await until(
      () => client.frames.some(({ type, stream }) => stream === 1 && (type === FRAME.rstStream || type === FRAME.data)),
      name,
    );
    client.close();
    await plane.settled();
    assert.equal(node.calls.length, 0, name);
  }
  for (const fields of [[...rest, ["host", "x"]] as const, postFields([["host", "X"]])]) {
    const client = await FrameClient.open(plane.port);
    client.send(
      frame(FRAME.headers, FLAG.endHeaders, 1, block(fields)),
      frame(FRAME.data, FLAG.endStream, 1, Buffer.from(chatBody())),
    );
    await client.answered(1);
    client.close();
  }
  assert.equal(node.calls.length, 2);
  await plane.settled();
});

test("bytes of a header value become no line break on the way to a node of HTTP/1.1", async (t) => {
  const { plane, node } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  // U+010D and U+010A in UTF-8: cut to one byte they would be CR and LF
  client.post(1, chatBody(), [["tracestate", Buffer.from("a=b\u010d\u010ax-evil: 1", "utf8").toString("latin1")]]);
  await client.answered(1);
  assert.equal(node.calls.length, 1);
  assert.equal(node.calls[0]?.headers["x-evil"], undefined);
  client.close();
});

test("CONNECT is refused", async (t) => {
  const { plane, node } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  client.send(
    frame(
      FRAME.headers,
      FLAG.endHeaders | FLAG.endStream,
      1,
      block([
        [":method", "CONNECT"],
        [":authority", "x:443"],
      ]),
    ),
  );
  await client.answered(1);
  assert.equal(node.calls.length, 0);
  client.close();
  await plane.settled();
});

test("a caller who opens no window holds up its own stream alone, and not for ever", async (t) => {
  const events = 40_000;
  const { plane, node } = await gateway(t, {}, async (call, index) => {
    if (index > 0) return healthy("b")(call, index);
    call.write(STREAM_HEAD);
    for (let count = 0; count < events; count++) {
      if (!call.socket.write(chunk(token("x".repeat(1000))))) {
        await new Promise((resolve) => call.socket.once("drain", resolve).once("close", resolve));
      }
      if (call.isClosed) return;
    }
  });
  const limited = await startPlane([{ id: "a", url: node.url }], {
    file: { timeouts: { slow_client_ms: 400 } },
  });
  t.after(() => limited.stop());
  // a window of 1,000 bytes per stream
  const client = await FrameClient.open(limited.port, setting(4, 1000));
  client.post(1, chatBody({ stream: true }));
  await until(() => client.bodyBytes(1) === 1000, "what the window allows");
  // a neighbour is served meanwhile
  client.post(3, chatBody());
  await client.answered(3);
  const [call] = node.calls;
  await until(() => call?.isClosed === true, "the end of the attempt");
  assert.ok((call?.socket.bytesWritten ?? 0) < 15_000_000, "the node's stream was buffered");
  assert.notEqual(await client.resetCode(1), NO_ERROR);
  await limited.settled();
  client.close();
  await isUnharmed(plane);
});

test("windows are what the configuration says, and a caller who sends beyond them is cut off", async (t) => {
  const { plane, node } = await gateway(t, {
    http2: { stream_window_bytes: 2048, connection_window_bytes: 100_000 },
    body_ms: 60_000,
  });
  const client = await FrameClient.open(plane.port);
  const settings = client.frames.find((one) => one.type === FRAME.settings && one.flags === 0);
  assert.ok(settings?.payload.includes(setting(4, 2048)), "the window of a stream");
  const update = await client.waitFor(({ type, stream }) => type === FRAME.windowUpdate && stream === 0, "a window");
  assert.equal(update.payload.readUInt32BE(0), 100_000 - 65_535);
  client.send(frame(FRAME.headers, FLAG.endHeaders, 1, block(postFields())));
  client.send(Buffer.concat(Array.from({ length: 40 }, () => frame(FRAME.data, 0, 1, Buffer.alloc(1000, " ")))));
  await until(
    () => client.isClosed || client.frames.some(({ type }) => type === FRAME.rstStream || type === FRAME.goaway),
    "a refusal",
  );
  assert.equal(node.calls.length, 0);
  client.close();
  await isUnharmed(plane);
});

test("a body that stops coming is refused after body_ms, and its stream ends", async (t) => {
  const { plane, node } = await gateway(t, { body_ms: 200 });
  const client = await FrameClient.open(plane.port);
  client.post(1, null);
  client.send(frame(FRAME.data, 0, 1, Buffer.from('{"model":')));
  await client.answered(1);
  assert.equal(node.calls.length, 0);
  client.post(3, chatBody());
  await client.answered(3);
  client.close();
  await plane.settled();
});

test("in a takeover, who is slow to hear that its connection ends is served until it has heard", async (t) => {
  const { plane } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  client.post(1, chatBody());
  await client.answered(1);
  const drained = plane.server.drain(10_000, true);
  const ping = await client.waitFor(({ type, flags }) => type === FRAME.ping && flags === 0, "a PING");
  // longer than a caller gets who has answered
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  client.post(3, chatBody());
  await client.answered(3);
  client.send(frame(FRAME.ping, FLAG.ack, 0, ping.payload));
  client.post(5, chatBody());
  await client.answered(5);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.equal(client.frames.findLast(({ type }) => type === FRAME.goaway)?.payload.readUInt32BE(0), 5);
  assert.equal(await drained, 0);
});

test("in a takeover, what came while the thread was held up is served, though its time was over", async (t) => {
  const { plane } = await gateway(t);
  const client = await FrameClient.open(plane.port);
  client.post(1, chatBody());
  await client.answered(1);
  const drained = plane.server.drain(10_000, true);
  const ping = await client.waitFor(({ type, flags }) => type === FRAME.ping && flags === 0, "a PING");
  client.send(frame(FRAME.ping, FLAG.ack, 0, ping.payload));
  client.post(3, chatBody());
  await client.answered(3);
  // behind the sockets of this turn, and before the timers of the next one
  await new Promise((resolve) => setImmediate(resolve));
  client.post(5, chatBody());
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
  await client.answered(5);
  assert.equal(await client.goaway(), NO_ERROR);
  assert.equal(await drained, 0);
});
