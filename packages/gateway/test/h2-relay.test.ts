/** Requests and answers over HTTP/2, with Node's own client: what differs from HTTP/1.1. The rest: `h2-parity.test.ts`. */

import assert from "node:assert/strict";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { type TestContext, test } from "node:test";
import { startPlane, until } from "./plane-fixture.ts";
import { chatBody } from "./raw-client.ts";
import {
  chunk,
  DONE,
  healthy,
  LAST_CHUNK,
  type NodeScript,
  plain,
  STREAM_HEAD,
  startScriptedNode,
  token,
} from "./scripted-node.ts";

const POST = { ":method": "POST", ":path": "/v1/chat/completions", "content-type": "application/json" };

async function gateway(t: TestContext, file: Record<string, unknown> = {}, script: NodeScript = healthy("a")) {
  const node = await startScriptedNode(script);
  const plane = await startPlane([{ id: "a", url: node.url }], { file });
  const session = connect(plane.url);
  session.on("error", () => {});
  t.after(async () => {
    session.destroy();
    await plane.stop();
    await node.stop();
  });
  return { node, plane, session };
}

interface Answer {
  status: number;
  headers: Record<string, unknown>;
  body: string;
  interim: number[];
  code: number;
}

function read(stream: ClientHttp2Stream): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const answer: Answer = { status: 0, headers: {}, body: "", interim: [], code: -1 };
    stream.on("headers", (headers) => answer.interim.push(Number(headers[":status"])));
    stream.on("response", (headers) => {
      answer.status = Number(headers[":status"]);
      answer.headers = headers;
    });
    stream.setEncoding("utf8").on("data", (text) => {
      answer.body += text;
    });
    stream.on("error", () => {});
    stream.on("close", () => {
      answer.code = stream.rstCode;
      resolve(answer);
    });
    setTimeout(() => reject(new Error("no end of the answer within 5 s")), 5000).unref();
  });
}

function ask(session: ClientHttp2Session, headers: Record<string, string>, body?: string | Buffer): Promise<Answer> {
  const stream = session.request(headers);
  const answer = read(stream);
  stream.end(body);
  return answer;
}

test("what is refused before its body was read is answered, and the caller may stop sending", async (t) => {
  const { session, plane, node } = await gateway(t, { limits: { body_bytes: 10_000 } });
  const tooLarge = await ask(session, { ...POST, "content-length": "100000" }, Buffer.alloc(100_000, " "));
  assert.equal(tooLarge.status, 413);
  const unknown = await ask(session, { ...POST, ":path": "/v1/nothing" }, Buffer.alloc(500_000, " "));
  assert.equal(unknown.status, 404);
  const method = await ask(session, { ...POST, ":method": "PUT" }, chatBody());
  assert.equal(method.status, 405);
  assert.equal(method.headers.allow, "POST");
  assert.equal(node.calls.length, 0);
  // the connection goes on
  assert.equal((await ask(session, POST, chatBody())).status, 200);
  await plane.settled();
});

test("an expectation is met before the body, or refused without asking for it", async (t) => {
  const { session, node } = await gateway(t, { limits: { body_bytes: 10_000 } });
  const stream = session.request({ ...POST, expect: "100-continue" });
  const answer = read(stream);
  await new Promise((resolve) => stream.once("continue", resolve));
  stream.end(chatBody());
  assert.equal((await answer).status, 200);
  const waiting = session.request({ ...POST, expect: "100-continue", "content-length": "100000" });
  const large = await read(waiting);
  assert.deepEqual([large.status, large.interim], [413, []]);
  const other = await ask(session, { ...POST, expect: "magic" }, chatBody());
  assert.equal(other.status, 417);
  assert.equal(node.calls.length, 1);
});

test("paths of reading answer, HEAD without a body", async (t) => {
  const { session } = await gateway(t);
  assert.equal((await ask(session, { ":path": "/healthz" })).body, "ok\n");
  const head = await ask(session, { ":method": "HEAD", ":path": "/v1/models" });
  assert.deepEqual([head.status, head.body, head.code], [200, "", 0]);
  assert.match((await ask(session, { ":path": "/v1/models" })).body, /llama3-8b/);
});

test("trailers of a request are read and dropped", async (t) => {
  const { session, node } = await gateway(t);
  const stream = session.request(POST, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "x-evil": "1" }));
  const answer = read(stream);
  stream.end(chatBody());
  assert.equal((await answer).status, 200);
  assert.equal(node.calls[0]?.headers["x-evil"], undefined);
});

test("no field of a connection reaches a caller of HTTP/2", async (t) => {
  const { session } = await gateway(t, {}, (call) => {
    call.write(
      "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\n" +
        "transfer-encoding: chunked\r\nset-cookie: a=b\r\nx-internal: 1\r\n\r\n",
    );
    call.write(Buffer.concat([chunk(JSON.stringify({ choices: [] })), Buffer.from(LAST_CHUNK)]));
  });
  const { headers, status } = await ask(session, POST, chatBody());
  assert.equal(status, 200);
  for (const name of ["connection", "keep-alive", "transfer-encoding", "set-cookie", "x-internal"]) {
    assert.equal(headers[name], undefined, name);
  }
});

test("200 requests at one time over one connection are all answered", async (t) => {
  const { session, plane } = await gateway(t);
  const answers = await Promise.all(Array.from({ length: 200 }, () => ask(session, POST, chatBody())));
  assert.ok(answers.every(({ status }) => status === 200));
  await plane.settled();
});

test("a body larger than all windows arrives whole", async (t) => {
  const { session, node } = await gateway(t);
  const body = chatBody({ messages: [{ role: "user", content: "x".repeat(3_000_000) }] });
  assert.equal((await ask(session, POST, body)).status, 200);
  assert.equal(node.calls[0]?.body.toString(), body);
});

test("the first event of a stream leaves at once", async (t) => {
  let finish = (): void => {};
  const { session } = await gateway(t, {}, (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("first")));
    finish = () => {
      call.write(Buffer.concat([chunk(token("!", "stop")), chunk(DONE), Buffer.from(LAST_CHUNK)]));
    };
  });
  const stream = session.request(POST);
  stream.end(chatBody({ stream: true }));
  let text = "";
  stream.setEncoding("utf8").on("data", (piece) => {
    text += piece;
  });
  await until(() => text.includes("first"), "the first event");
  finish();
  await until(() => text.includes("[DONE]"), "the end");
});

test("a drain says GOAWAY, lets streams end and then closes", async (t) => {
  let finish = (): void => {};
  const { session, plane } = await gateway(t, {}, (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("first")));
    finish = () => {
      call.write(Buffer.concat([chunk(token("!", "stop")), chunk(DONE), Buffer.from(LAST_CHUNK)]));
    };
  });
  const goaways: number[] = [];
  session.on("goaway", (code) => goaways.push(code));
  let isClosed = false;
  session.on("close", () => {
    isClosed = true;
  });
  const stream = session.request(POST);
  const answer = read(stream);
  stream.end(chatBody({ stream: true }));
  await new Promise((resolve) => stream.once("data", resolve));
  const drained = plane.server.drain(5000);
  await until(() => goaways.length > 0, "a GOAWAY");
  assert.equal(goaways[0], 0);
  assert.equal(isClosed, false);
  finish();
  const { body, code } = await answer;
  assert.match(body, /\[DONE\]/);
  assert.equal(code, 0);
  assert.equal(await drained, 0);
  await until(() => isClosed, "the end of the connection");
});

test("a drain whose time is over ends a stream with an error event", async (t) => {
  const { session, plane } = await gateway(t, {}, (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("first")));
  });
  const stream = session.request(POST);
  const answer = read(stream);
  stream.end(chatBody({ stream: true }));
  await new Promise((resolve) => stream.once("data", resolve));
  assert.equal(await plane.server.drain(100), 1);
  assert.match((await answer).body, /"code":"shutting_down"/);
});

test("a drain ends idle connections at once", async (t) => {
  const { session, plane } = await gateway(t);
  assert.equal((await ask(session, POST, chatBody())).status, 200);
  const closed = new Promise((resolve) => session.once("close", resolve));
  await plane.server.drain(5000);
  await closed;
});

test("a status that HTTP/2 does not know is a 502, and nothing of ours fails", async (t) => {
  const { session, plane } = await gateway(t, {}, (call) => call.write(plain(799, "{}")));
  const { status } = await ask(session, POST, chatBody());
  assert.equal(status, 502);
  assert.deepEqual(plane.logs, []);
  await plane.settled();
});
