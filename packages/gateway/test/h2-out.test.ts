/** Requests to nodes over HTTP/2. Unhappy paths first. */

import assert from "node:assert/strict";
import { constants } from "node:http2";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { abandonNodeSessions } from "../src/http2/node-session.ts";
import { identity, pem } from "./certificates.ts";
import { block, FLAG, FRAME, frame, startFrameNode, uint32 } from "./h2-frames.ts";
import { type H2Node, type H2Script, healthyH2, startH2Node } from "./h2-node.ts";
import { chat, errorOf, type FixtureNode, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatAnswer, DONE, healthy, startScriptedNode, token } from "./scripted-node.ts";

interface Setting {
  node: H2Node;
  plane: PlaneFixture;
}

async function setting(
  t: TestContext,
  script: H2Script,
  options: {
    server?: Parameters<typeof startH2Node>[1];
    node?: Partial<FixtureNode>;
    file?: Record<string, unknown>;
    others?: FixtureNode[];
  } = {},
): Promise<Setting> {
  const node = await startH2Node(script, options.server);
  const plane = await startPlane(
    [{ id: "a", url: node.url, httpVersion: "2", ...options.node }, ...(options.others ?? [])],
    { file: options.file ?? {} },
  );
  t.after(async () => {
    await plane.stop();
    await node.stop();
  });
  return { node, plane };
}

const STREAM = { ":status": 200, "content-type": "text/event-stream" };

test("requests share one connection, and their bytes are the caller's", async (t) => {
  const { node, plane } = await setting(t, healthyH2("a"), { node: { apiKey: "node-key" } });
  const answers = await Promise.all(
    Array.from({ length: 50 }, () =>
      chat(plane.url, {}, { headers: { authorization: "Bearer caller", cookie: "a=b" } }),
    ),
  );
  for (const answer of answers) {
    assert.equal(answer.status, 200);
    assert.match(await answer.text(), /"content":"a"/);
  }
  assert.equal(node.connections, 1);
  const { headers, body } = node.calls[0] as (typeof node.calls)[number];
  assert.equal(headers[":path"], "/v1/chat/completions");
  assert.equal(headers[":authority"], `127.0.0.1:${node.port}`);
  assert.equal(headers.authorization, "Bearer node-key");
  assert.equal(headers.cookie, undefined);
  assert.match(String(headers["x-zml-routing"]), /node="a"/);
  assert.equal(headers["content-length"], String(body.length));
  assert.match(body.toString(), /"model":"llama3-8b"/);
  await plane.settled();
});

test("H01: requests run beside an open stream", async (t) => {
  const { node, plane } = await setting(t, ({ stream }, index) => {
    if (index > 0) return healthyH2("a")(node.calls[index] as never, index);
    stream.respond(STREAM);
    stream.write(token("first"));
  });
  const open = new AbortController();
  const endless = await chat(plane.url, { stream: true }, { signal: open.signal });
  assert.equal(endless.status, 200);
  const answers = await Promise.all(Array.from({ length: 5 }, () => chat(plane.url)));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(node.connections, 1);
  open.abort();
  await until(() => node.calls[0]?.isClosed === true, "the end of the stream at the node");
  assert.equal(node.calls[0]?.rstCode, constants.NGHTTP2_CANCEL);
  await plane.settled();
});

test("a stream that its caller does not read holds up no neighbour, and is not buffered", async (t) => {
  let written = 0;
  const { plane, node } = await setting(t, ({ stream }, index) => {
    if (index > 0) return healthyH2("a")(node.calls[index] as never, index);
    stream.respond(STREAM);
    const event = token("x".repeat(10_000));
    const pump = (): void => {
      while (!stream.destroyed && written < 100_000_000) {
        written += event.length;
        if (!stream.write(event)) return void stream.once("drain", pump);
      }
    };
    pump();
  });
  const open = new AbortController();
  const endless = await chat(plane.url, { stream: true }, { signal: open.signal });
  assert.equal(endless.status, 200);
  let before = -1;
  await until(() => {
    const isStill = written === before;
    before = written;
    return isStill;
  }, "the standstill");
  assert.ok(written < 20_000_000, `${written} bytes were taken`);
  for (let count = 0; count < 20; count++) assert.equal((await chat(plane.url)).status, 200);
  open.abort();
  await plane.settled();
});

test("many callers who leave cost nobody else the connection", async (t) => {
  let finish = (): void => {};
  const { node, plane } = await setting(t, ({ stream }, index) => {
    stream.respond(STREAM);
    stream.write(token("first"));
    if (index === 0) finish = () => stream.end(token("last", "stop") + DONE);
  });
  const lasting = await chat(plane.url, { stream: true });
  // nghttp2 ends a connection after 1,000 resets
  for (let round = 0; round < 30; round++) {
    const leaving = new AbortController();
    const answers = Array.from({ length: 50 }, () => chat(plane.url, { stream: true }, { signal: leaving.signal }));
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 200);
    leaving.abort();
    await until(() => plane.inFlight() === 1, "the end of those who left");
  }
  assert.ok(node.connections <= 4, `${node.connections} connections`);
  finish();
  assert.match(await lasting.text(), /last.*\[DONE\]/s);
  await plane.settled();
});

test("H03: a node's limit of streams is kept, and none of 50 requests fails", async (t) => {
  const { node, plane } = await setting(t, healthyH2("a"), {
    server: { settings: { maxConcurrentStreams: 5 } },
    node: { maxConnections: 1 },
  });
  const answers = await Promise.all(Array.from({ length: 50 }, () => chat(plane.url)));
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(node.connections, 1);
  assert.equal(node.calls.length, 50);
});

test("where the streams of a connection are all in use, another one is opened", async (t) => {
  const { node, plane } = await setting(t, () => {}, { server: { settings: { maxConcurrentStreams: 2 } } });
  const open = new AbortController();
  const waiting = Array.from({ length: 6 }, () => chat(plane.url, {}, { signal: open.signal }).catch(() => null));
  await until(() => node.calls.length === 6, "six requests at the node");
  assert.equal(node.connections, 3);
  open.abort();
  await Promise.all(waiting);
  await plane.settled();
});

test("a stream that the node refuses is sent again, and counts as nothing", async (t) => {
  const { node, plane } = await setting(t, ({ stream }, index) => {
    if (index === 0) stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else healthyH2("a")(node.calls[index] as never, index);
  });
  const answer = await chat(plane.url);
  assert.equal(answer.status, 200);
  assert.equal(node.calls.length, 2);
  assert.equal((await chat(plane.url)).status, 200, "the node cools down");
});

test("a node that goes away finishes what it took; new requests get a new connection", async (t) => {
  let finish = (): void => {};
  const { node, plane } = await setting(t, ({ stream, session }, index) => {
    if (index > 0) return healthyH2("b")(node.calls[index] as never, index);
    stream.respond(STREAM);
    stream.write(token("first"));
    finish = () => stream.end(token("last", "stop") + DONE);
    session.close();
  });
  const first = await chat(plane.url, { stream: true });
  await until(() => node.calls.length === 1, "the first request");
  assert.equal((await chat(plane.url)).status, 200);
  assert.equal(node.connections, 2);
  finish();
  assert.match(await first.text(), /last.*\[DONE\]/s);
  await plane.settled();
});

/** A plane with one node that answers frame by frame. */
async function frameSetting(
  t: TestContext,
  onFrame: Parameters<typeof startFrameNode>[0],
  node: Partial<FixtureNode> = {},
): Promise<{ plane: PlaneFixture; connections(): number }> {
  const raw = await startFrameNode(onFrame);
  const plane = await startPlane([{ id: "a", url: raw.url, httpVersion: "2", ...node }]);
  t.after(async () => {
    await plane.stop();
    raw.stop();
  });
  return { plane, connections: raw.connections };
}

/** A plain answer of status 200 on a stream. */
function answerOn(stream: number): Buffer[] {
  const fields: [string, string][] = [
    [":status", "200"],
    ["content-type", "application/json"],
  ];
  const body = Buffer.from(chatAnswer("raw"));
  return [
    frame(FRAME.headers, FLAG.endHeaders, stream, block(fields)),
    frame(FRAME.data, FLAG.endStream, stream, body),
  ];
}

for (const [name, code] of [
  ["in order", 0],
  ["with an error", 2],
] as const) {
  test(`a request above the last stream of a GOAWAY ${name} is sent again, and nobody sees it`, async (t) => {
    const { plane, connections } = await frameSetting(t, ({ type, stream }, send, connection) => {
      if (type !== FRAME.headers) return;
      if (connection === 0) send(frame(FRAME.goaway, 0, 0, uint32(0, code)));
      else send(...answerOn(stream));
    });
    const answer = await chat(plane.url);
    assert.equal(answer.status, 200);
    assert.match(await answer.text(), /"content":"raw"/);
    assert.equal(connections(), 2);
    assert.equal((await chat(plane.url)).status, 200, "the node cools down");
    await plane.settled();
  });
}

test("a request that a GOAWAY with an error counts as taken has failed", async (t) => {
  const { plane, connections } = await frameSetting(t, ({ type, stream }, send) => {
    if (type === FRAME.headers) send(frame(FRAME.goaway, 0, 0, uint32(stream, 2)));
  });
  const answer = await chat(plane.url);
  assert.equal(answer.status, 502, await answer.text());
  assert.equal(connections(), 1);
  await plane.settled();
});

test("a connection that is dead without a word is found by PING, and its requests fail", async (t) => {
  let pings = 0;
  const { plane } = await frameSetting(
    t,
    ({ type }) => {
      if (type === FRAME.ping) pings += 1;
    },
    { http2: { pingMs: 50 } },
  );
  const answer = await chat(plane.url);
  assert.equal(answer.status, 502);
  assert.ok(pings >= 1);
  await plane.settled();
});

test("hostile frames of a node end its connection, and nothing else", async (t) => {
  const hostile: [string, (stream: number) => Buffer[]][] = [
    ["a frame that is too long", (stream) => [frame(FRAME.data, 0, stream, Buffer.alloc(20_000))]],
    ["DATA before the head", (stream) => [frame(FRAME.data, FLAG.endStream, stream, Buffer.from("x"))]],
    ["a head that is no HPACK", (stream) => [frame(FRAME.headers, FLAG.endHeaders, stream, Buffer.alloc(20, 0xff))]],
    ["a head without a status", (stream) => [frame(FRAME.headers, 5, stream, block([["a", "b"]]))]],
    ["a status that is none", (stream) => [frame(FRAME.headers, 5, stream, block([[":status", "abc"]]))]],
    ["a push", (stream) => [frame(FRAME.pushPromise, FLAG.endHeaders, stream, Buffer.concat([uint32(2), block([])]))]],
    ["frames of an unknown stream", () => [frame(FRAME.data, 0, 99, Buffer.from("x"))]],
    ["junk", () => [Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")]],
  ];
  for (const [name, bytes] of hostile) {
    const { plane } = await frameSetting(t, ({ type, stream }, send) => {
      if (type === FRAME.headers) send(...bytes(stream));
    });
    const answer = await chat(plane.url);
    assert.equal(answer.status, 502, `${name}: ${await answer.text()}`);
    await plane.settled();
  }
});

test("a connection that breaks fails its requests before the commit point, and ends streams visibly behind it", async (t) => {
  const { node, plane } = await setting(t, ({ stream, session }, index) => {
    if (index === 0) {
      stream.respond(STREAM);
      stream.write(token("first"));
    } else session.socket.resetAndDestroy?.();
  });
  const stream = await chat(plane.url, { stream: true });
  const plain = await chat(plane.url);
  assert.equal(plain.status, 502);
  assert.equal((await errorOf(plain)).code, "upstream_failed");
  assert.match(await stream.text(), /stream_interrupted/);
  assert.equal(node.calls.length, 2);
  await plane.settled();
});

test("answers that break off are failures, and never a made-up end", async (t) => {
  const breaks: [string, H2Script][] = [
    ["a reset before the head", ({ stream }) => stream.close(constants.NGHTTP2_INTERNAL_ERROR)],
    [
      "a reset in the body",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.write('{"choices":');
        setTimeout(() => stream.destroy(new Error("x")), 20);
      },
    ],
    [
      "a body that is shorter than it said",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json", "content-length": 100 });
        stream.end('{"choices":[]}');
      },
    ],
  ];
  for (const [name, script] of breaks) {
    const { plane } = await setting(t, script);
    const answer = await chat(plane.url);
    assert.equal(answer.status, 502, name);
    await plane.settled();
  }
});

test("a node that does not listen, never answers or speaks no HTTP/2 is a failure within connect_ms", async (t) => {
  const other = await startScriptedNode(healthy("b"));
  const mute = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
  const http1 = await startScriptedNode((call) => call.fin());
  const gone = await startH2Node(healthyH2("x"));
  await gone.stop();
  t.after(async () => {
    mute.close();
    await http1.stop();
    await other.stop();
  });
  const mutePort = (mute.address() as { port: number }).port;
  for (const url of [`http://127.0.0.1:${mutePort}`, http1.url, gone.url]) {
    const plane = await startPlane(
      [
        { id: "a", url, httpVersion: "2", priceUsdPerHour: 1 },
        { id: "b", url: other.url, family: "MI300X" },
      ],
      { file: { timeouts: { connect_ms: 200 } } },
    );
    t.after(() => plane.stop());
    const answer = await chat(plane.url);
    assert.equal(answer.status, 200, url);
    assert.match(answer.headers.get("x-zml-routing") ?? "", /node="b".*attempt=2/);
    await plane.settled();
  }
});

test("a connection that answers PINGs lives on, however long its node thinks", async (t) => {
  const { node, plane } = await setting(t, () => {}, { node: { http2: { pingMs: 50 } } });
  const answer = chat(plane.url);
  await until(() => node.calls.length === 1, "the request");
  const { stream } = node.calls[0] as (typeof node.calls)[number];
  assert.ok(!stream.destroyed);
  // a live node answers PINGs, and its request goes on
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(node.sessions.size, 1);
  stream.respond({ ":status": 200, "content-type": "application/json" });
  stream.end('{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}');
  assert.equal((await answer).status, 200);
});

test("an idle connection is closed after keep_alive_ms, an old one takes no new streams", async (t) => {
  const { node, plane } = await setting(t, healthyH2("a"), { node: { keepAliveMs: 100 } });
  assert.equal((await chat(plane.url)).status, 200);
  await until(() => node.sessions.size === 0, "the close of the idle connection");

  const old = await setting(t, healthyH2("a"), { node: { maxConnectionAgeMs: 20 } });
  assert.equal((await chat(old.plane.url)).status, 200);
  await new Promise((resolve) => setTimeout(resolve, 25));
  assert.equal((await chat(old.plane.url)).status, 200);
  assert.equal(old.node.connections, 2);
});

test("no connection is made to an address that no node has", async (t) => {
  const plane = await startPlane([{ id: "a", url: "http://169.254.169.254", httpVersion: "2" }]);
  t.after(() => plane.stop());
  const answer = await chat(plane.url);
  assert.equal(answer.status, 502);
  await plane.settled();
});

test("a large body goes out whole, and a caller who leaves ends it", async (t) => {
  const { node, plane } = await setting(t, healthyH2("a"));
  const content = "x".repeat(5_000_000);
  const answer = await chat(plane.url, { messages: [{ role: "user", content }] });
  assert.equal(answer.status, 200);
  assert.equal(JSON.parse(node.calls[0]?.body.toString() ?? "{}").messages[0].content.length, content.length);
});

test("F08: over TLS the node's own authority, name and certificate count, each for its node alone", async (t) => {
  const tls = { ca: pem("ca"), cert: null, key: null, serverName: null, skipVerify: false };
  const cases: [string, { tls: object; node: Partial<FixtureNode> }, number][] = [
    ["its authority is known", { tls: identity("server"), node: { tls } }, 200],
    ["its authority is not known", { tls: identity("server"), node: {} }, 502],
    ["another authority", { tls: identity("stranger"), node: { tls } }, 502],
    ["another name", { tls: identity("node"), node: { tls } }, 502],
    ["another name that was told", { tls: identity("node"), node: { tls: { ...tls, serverName: "node.test" } } }, 200],
    ["skip-verify", { tls: identity("stranger"), node: { tls: { ...tls, ca: null, skipVerify: true } } }, 200],
    [
      "asks for a certificate",
      { tls: { ...identity("server"), requestCert: true, ca: pem("ca") }, node: { tls } },
      502,
    ],
    [
      "gets a certificate",
      {
        tls: { ...identity("server"), requestCert: true, ca: pem("ca") },
        node: { tls: { ...tls, ...identity("client") } },
      },
      200,
    ],
  ];
  for (const [name, { tls: server, node }, status] of cases) {
    const { plane } = await setting(t, healthyH2("a"), { server: { tls: server }, node });
    const answer = await chat(plane.url);
    assert.equal(answer.status, status, `${name}: ${await answer.text()}`);
    await plane.settled();
  }
});

const HALF = [
  block([
    [":status", "200"],
    ["content-type", "application/json"],
  ]),
  Buffer.from(chatAnswer("half").slice(0, 40)),
] as const;

for (const [name, parts] of [
  ["a reset of the connection itself before the head", [frame(FRAME.rstStream, 0, 0, uint32(1))]],
  ["DATA before the head", [frame(FRAME.data, FLAG.endStream, 1, Buffer.from("x"))]],
  ["a reset without a reason before the head", [frame(FRAME.rstStream, 0, 1, uint32(0))]],
  ["garbage before the head", [Buffer.alloc(40, 0xff)]],
  ...[
    ["a reset without a reason", [frame(FRAME.rstStream, 0, 1, uint32(0))]] as const,
    ["a reset with one", [frame(FRAME.rstStream, 0, 1, uint32(8))]] as const,
    ["a reset of the connection itself", [frame(FRAME.rstStream, 0, 0, uint32(0))]] as const,
    ["GOAWAY", [frame(FRAME.goaway, 0, 0, uint32(1, 0))]] as const,
    ["GOAWAY below it", [frame(FRAME.goaway, 0, 0, uint32(0, 0))]] as const,
    ["garbage", [Buffer.alloc(40, 0xff)]] as const,
    ["nothing", []] as const,
  ].map(
    ([name, rest]) =>
      [
        `${name} in the middle of the body`,
        [frame(FRAME.headers, FLAG.endHeaders, 1, HALF[0]), frame(FRAME.data, 0, 1, HALF[1]), ...rest],
      ] as const,
  ),
] as const) {
  test(`a node that sends ${name} and goes has failed: no half answer passes for a whole one`, async (t) => {
    const { plane } = await frameSetting(t, ({ type, flags }, send, _connection, leave) => {
      if (type !== FRAME.data || (flags & FLAG.endStream) === 0) return;
      send(...parts);
      setImmediate(leave);
    });
    const answer = await chat(plane.url);
    assert.equal(answer.status, 502, await answer.text());
    await plane.settled();
  });
}

test("a thread that is about to end closes its connections, also of a node that left, and blames no node", async (t) => {
  const other = await startScriptedNode(healthy("b"));
  t.after(() => other.stop());
  const { node, plane } = await setting(t, () => {}, { others: [{ id: "b", url: other.url }] });
  const caller = new AbortController();
  const running = Array.from({ length: 8 }, () => chat(plane.url, {}, { signal: caller.signal }).catch(() => "gone"));
  await until(() => node.calls.length + other.calls.length === 8 && node.sessions.size > 0, "all of them");
  const { length } = other.calls;
  plane.plane.removeNode(0);
  abandonNodeSessions();
  await until(() => node.sessions.size === 0, "the end of the connection");
  assert.equal(other.calls.length, length, "its requests are not sent again");
  caller.abort();
  await Promise.all(running);
  await plane.settled();
});
