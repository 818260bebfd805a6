import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { FIXTURE_MODEL, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { ask, chatBody, post, type RawAnswer, RawClient } from "./raw-client.ts";
import { healthy, type ScriptedNode, startScriptedNode } from "./scripted-node.ts";

const LIMIT = 4096;
let node: ScriptedNode;
let plane: PlaneFixture;

before(async () => {
  node = await startScriptedNode(healthy("a"));
  plane = await startPlane([{ id: "a", url: node.url }], {
    file: {
      limits: { body_bytes: LIMIT, header_bytes: 16_384 },
      data: { head_ms: 300, body_ms: 300 },
    },
  });
});

after(async () => {
  await plane.stop();
  await node.stop();
});

interface Expected {
  status: number;
  code: string;
  says: RegExp;
}

/** An error of a routed endpoint: status, shape, code, message, ids; nothing at a node, nothing left in flight. */
async function isRefused(answer: RawAnswer, expected: Expected, calls: number): Promise<void> {
  assert.equal(answer.status, expected.status, answer.body.toString());
  assert.equal(answer.headers["content-type"], "application/json");
  const { error } = JSON.parse(answer.body.toString()) as { error: Record<string, unknown> };
  assert.equal(error["code"], expected.code);
  assert.match(String(error["message"]), expected.says);
  assert.equal(typeof error["type"], "string");
  assert.ok("param" in error);
  assert.ok((answer.headers["x-request-id"] ?? "").length > 0, "x-request-id");
  assert.ok((answer.headers["traceparent"] ?? "").length > 0, "traceparent");
  assert.equal(decodeRoutingHeader(answer.headers["x-zml-routing"] ?? "")?.reason, "refused");
  assert.equal(node.calls.length, calls, "reached a node");
  await plane.settled();
}

const model = JSON.stringify(FIXTURE_MODEL);
const BODIES: [name: string, body: string | Buffer, status: number, code: string, says: RegExp][] = [
  ["an empty body", "", 400, "body_empty", /send one JSON object/],
  ["white space alone", " \n\t ", 400, "body_empty", /send one JSON object/],
  ["text", "hello", 400, "invalid_json", /byte 0/],
  ["cut JSON", '{"model":', 400, "invalid_json", /not JSON/],
  ["an array", "[]", 400, "body_not_object", /send an object/],
  ["a string", '"x"', 400, "body_not_object", /send an object/],
  ["a number", "12", 400, "body_not_object", /send an object/],
  ["null", "null", 400, "body_not_object", /send an object/],
  ["no model", '{"messages":[]}', 400, "missing_model", /name the model/],
  ["a null model", '{"model":null}', 400, "invalid_model", /send the name of a model/],
  ["a numeric model", '{"model":7}', 400, "invalid_model", /send the name of a model/],
  ["a model that is a list", '{"model":["x"]}', 400, "invalid_model", /send the name of a model/],
  ["an empty model", '{"model":""}', 400, "invalid_model", /1 to 256 bytes/],
  ["a model of 257 bytes", `{"model":"${"m".repeat(257)}"}`, 400, "invalid_model", /1 to 256 bytes/],
  ["a model with a control character", '{"model":"a\\u0000b"}', 400, "invalid_model", /control/],
  ["an unknown model", '{"model":"nope"}', 404, "model_not_found", /llama3-8b/],
  ["an unknown policy", `{"model":${model},"policy":"nope"}`, 400, "policy_not_found", /the policies are "p"/],
  ["a numeric policy", `{"model":${model},"policy":1}`, 400, "invalid_field", /"policy"/],
  ["an unknown family", `{"model":${model},"accelerator":"TPU9"}`, 400, "family_not_found", /"H100"/],
  ["stream as text", `{"model":${model},"stream":"yes"}`, 400, "invalid_field", /"stream"/],
  ["the model twice", `{"model":${model},"model":${model}}`, 400, "duplicate_field", /once/],
  ["the model twice, escaped", `{"model":${model},"\\u006dodel":"b"}`, 400, "duplicate_field", /once/],
  ["stream twice", `{"model":${model},"stream":true,"stream":false}`, 400, "duplicate_field", /once/],
  [
    "the model twice, far apart",
    `{"model":${model},"x":"${"y".repeat(3000)}","mod\\u0065l":"b"}`,
    400,
    "duplicate_field",
    /once/,
  ],
  ["a byte order mark", `\ufeff{"model":${model}}`, 400, "invalid_json", /byte order mark/],
  ["trailing garbage", `{"model":${model}}x`, 400, "invalid_json", /nothing after it/],
  ["a second object", `{"model":${model}}{"model":${model}}`, 400, "invalid_json", /nothing after it/],
  ["a trailing comma", `{"model":${model},}`, 400, "invalid_json", /not JSON/],
  ["a single-quoted key", "{'model':1}", 400, "invalid_json", /not JSON/],
  ["NaN", `{"model":${model},"x":NaN}`, 400, "invalid_json", /not JSON/],
  ["a raw control character", `{"model":${model},"x":"\u0001"}`, 400, "invalid_json", /not JSON/],
  ["bad UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 400, "invalid_json", /UTF-8/],
  ["UTF-16", Buffer.from(`{"model":${model}}`, "utf16le"), 400, "invalid_json", /not JSON/],
  ["a body one byte over the limit", `{"model":${model},"x":"${"y".repeat(LIMIT)}"}`, 413, "body_too_large", /4096/],
];

describe("I03, I07: a bad body is refused with a code and a way out, and reaches no node", () => {
  for (const [name, body, status, code, says] of BODIES) {
    test(name, async () => {
      const calls = node.calls.length;
      await isRefused(await ask(plane.port, post(body)), { status, code, says }, calls);
    });
  }

  test("the same in Anthropic's shape on /v1/messages", async () => {
    const answer = await ask(plane.port, post("[]", {}, "/v1/messages"));
    assert.equal(answer.status, 400);
    const body = JSON.parse(answer.body.toString());
    assert.equal(body.type, "error");
    assert.equal(body.error.type, "invalid_request_error");
    assert.equal(body.error.code, "body_not_object");
    await plane.settled();
  });

  test("a connection serves on after a bad body", async () => {
    const client = await RawClient.open(plane.port);
    client.send(post("[]"));
    await client.answer();
    client.send(post(chatBody()));
    await until(() => client.answers().length === 2);
    assert.deepEqual(
      client.answers().map(({ status }) => status),
      [400, 200],
    );
    client.kill();
    await plane.settled();
  });
});

describe("headers override the body, and are checked like it", () => {
  test("an unknown policy in x-zml-policy", async () => {
    const calls = node.calls.length;
    const answer = await ask(plane.port, post(chatBody(), { "x-zml-policy": "nope" }));
    await isRefused(answer, { status: 400, code: "policy_not_found", says: /"nope"/ }, calls);
  });

  test("an unknown family in x-zml-accelerator", async () => {
    const calls = node.calls.length;
    const answer = await ask(plane.port, post(chatBody(), { "x-zml-accelerator": "TPU9" }));
    await isRefused(answer, { status: 400, code: "family_not_found", says: /"TPU9"/ }, calls);
  });

  test("a known policy in the header wins over an unknown one in the body", async () => {
    const answer = await ask(plane.port, post(chatBody({ policy: "nope" }), { "x-zml-policy": "p" }));
    assert.equal(answer.status, 200);
    await plane.settled();
  });
});

/** A chat body of exactly so many bytes. */
function bodyOfBytes(bytes: number): string {
  const frame = `{"model":${model},"x":""}`;
  return `{"model":${model},"x":"${"y".repeat(bytes - frame.length)}"}`;
}

function chunked(body: string | Buffer, pieceBytes = 1000): Buffer {
  const bytes = Buffer.from(body);
  const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
  const parts: Buffer[] = [Buffer.from(head)];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    const piece = bytes.subarray(at, at + pieceBytes);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
  }
  parts.push(Buffer.from("0\r\n\r\n"));
  return Buffer.concat(parts);
}

describe("I01: the size limit counts bytes read", () => {
  for (const [name, frame] of [
    ["with a length", (body: string) => post(body)],
    ["chunked", (body: string) => chunked(body)],
  ] as const) {
    test(`a body at the limit passes unchanged, ${name}`, async () => {
      const body = bodyOfBytes(LIMIT);
      const calls = node.calls.length;
      assert.equal((await ask(plane.port, frame(body))).status, 200);
      assert.equal(node.calls.length, calls + 1);
      assert.equal(node.calls.at(-1)?.sha256(), createHash("sha256").update(body).digest("hex"));
      await plane.settled();
    });

    test(`one byte more is refused, ${name}`, async () => {
      const calls = node.calls.length;
      const answer = await ask(plane.port, frame(bodyOfBytes(LIMIT + 1)));
      await isRefused(answer, { status: 413, code: "body_too_large", says: /4096 bytes.*limits\.body_bytes/ }, calls);
    });
  }

  test("a small body that expands beyond the limit is refused", async () => {
    const calls = node.calls.length;
    const body = gzipSync(bodyOfBytes(200_000));
    const answer = await ask(plane.port, post(body, { "content-encoding": "gzip" }));
    await isRefused(answer, { status: 413, code: "body_too_large", says: /4096/ }, calls);
  });

  test("G09: a caller who goes on sending reads the refusal every time", async () => {
    for (let run = 0; run < 20; run++) {
      const client = await RawClient.open(plane.port);
      const body = Buffer.alloc(2 * 1024 * 1024, 0x20);
      client.send(run % 2 === 0 ? post(body) : chunked(body, 60_000));
      const answer = await client.answer();
      assert.equal(answer.status, 413);
      assert.equal(answer.headers["connection"], "close");
      client.socket.end();
      await client.closed();
    }
    await plane.settled();
  });

  test("the default limit of 64 MiB refuses by the length alone", async () => {
    const other = await startPlane([{ id: "a", url: node.url }]);
    const calls = node.calls.length;
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${64 * 2 ** 20 + 1}\r\n\r\n`;
    await isRefused(await ask(other.port, head), { status: 413, code: "body_too_large", says: /67108864/ }, calls);
    await other.stop();
  });
});

describe("I02: content encodings", () => {
  for (const [name, encoding, body, status, code] of [
    ["an unknown one", "lzma", chatBody(), 415, "unsupported_encoding"],
    ["a stacked one", "gzip, gzip", gzipSync(chatBody()), 415, "unsupported_encoding"],
    ["bytes that are not what it says", "gzip", chatBody(), 400, "invalid_encoding"],
    ["a cut frame", "gzip", gzipSync(chatBody()).subarray(0, 40), 400, "invalid_encoding"],
    [
      "something behind the frame",
      "gzip",
      Buffer.concat([gzipSync(chatBody()), Buffer.from("x")]),
      400,
      "invalid_encoding",
    ],
  ] as const) {
    test(`${name} is refused`, async () => {
      const calls = node.calls.length;
      const answer = await ask(plane.port, post(body, { "content-encoding": encoding }));
      await isRefused(answer, { status, code, says: /content-encoding|valid gzip/ }, calls);
    });
  }

  test("a good one is decoded, and its header and length stay behind", async () => {
    const body = chatBody();
    assert.equal((await ask(plane.port, post(gzipSync(body), { "content-encoding": "gzip" }))).status, 200);
    const call = node.calls.at(-1);
    assert.equal(call?.body.toString(), body);
    assert.equal(call?.headers["content-encoding"], undefined);
    await plane.settled();
  });
});

describe("methods and paths", () => {
  test("a wrong method gets 405 with Allow", async () => {
    const calls = node.calls.length;
    const answer = await ask(plane.port, "GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n");
    assert.equal(answer.headers["allow"], "POST");
    await isRefused(answer, { status: 405, code: "method_not_allowed", says: /use POST/ }, calls);
  });

  test("writing to the list of models gets 405 with Allow", async () => {
    const answer = await ask(plane.port, post("{}", {}, "/v1/models"));
    assert.equal(answer.status, 405);
    assert.equal(answer.headers["allow"], "GET, HEAD");
    assert.equal(JSON.parse(answer.body.toString()).error.code, "method_not_allowed");
    assert.ok(answer.headers["x-request-id"]);
  });

  const paths = [
    "/",
    "/v1",
    "/v1/",
    "/v1/chat/completions/",
    "/v1/chat//completions",
    "//v1/chat/completions",
    "/v1/./chat/completions",
    "/v1/x/../chat/completions",
    "/v1/chat%2fcompletions",
    "/V1/chat/completions",
    "/v1/chat/completions%3f",
    "/v1/chat/completions#x",
    "/v1/chat/completions;x",
    "/metrics",
    "/admin/v1/nodes",
    "http://x/v1/chat/completions",
    "*",
  ];
  test("M05: nothing but the exact paths reaches a node", async () => {
    const calls = node.calls.length;
    for (const path of paths) {
      const answer = await ask(plane.port, post(chatBody(), {}, path));
      assert.ok(answer.status === 404 || answer.status === 400, `${path}: ${answer.status}`);
      const { error } = JSON.parse(answer.body.toString());
      assert.ok(error.code === "not_found" || error.code === "bad_request", path);
      if (error.code === "not_found") assert.ok(answer.headers["x-request-id"], path);
    }
    assert.equal(node.calls.length, calls);
    await plane.settled();
  });

  test("what is not there below /v1/messages is refused in Anthropic's shape", async () => {
    for (const path of ["/v1/messages/count_tokens", "/v1/messages/batches"]) {
      const answer = await ask(plane.port, post(chatBody(), {}, path));
      assert.equal(answer.status, 404);
      const { type, error } = JSON.parse(answer.body.toString());
      assert.deepEqual([type, error.type, error.code], ["error", "not_found_error", "not_found"], path);
    }
    const near = await ask(plane.port, post(chatBody(), {}, "/v1/messagesx"));
    assert.equal(JSON.parse(near.body.toString()).error.type, "invalid_request_error");
  });

  test("a query is no part of the path, and stays here", async () => {
    assert.equal((await ask(plane.port, post(chatBody(), {}, "/v1/chat/completions?a=b"))).status, 200);
    assert.equal(node.calls.at(-1)?.requestLine, "POST /v1/chat/completions HTTP/1.1");
    await plane.settled();
  });

  test("models are found by name, slashes and all", async () => {
    const found = await ask(plane.port, `GET /v1/models/${FIXTURE_MODEL} HTTP/1.1\r\nhost: x\r\n\r\n`);
    assert.equal(found.status, 200);
    for (const name of ["nope", "a/b/c", "a%2Fb", "%", "%ff"]) {
      const missing = await ask(plane.port, `GET /v1/models/${name} HTTP/1.1\r\nhost: x\r\n\r\n`);
      assert.equal(missing.status, 404);
      assert.equal(JSON.parse(missing.body.toString()).error.code, "model_not_found");
    }
  });
});

describe("G08: bad HTTP never becomes two requests, and mostly not even one", () => {
  const good = chatBody();
  const length = Buffer.byteLength(good);
  const line = "POST /v1/chat/completions HTTP/1.1\r\n";
  const smuggled = post(good).toString();
  const bad: [name: string, bytes: string][] = [
    ["two hosts", `${line}host: a\r\nhost: b\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["no host", `${line}content-length: ${length}\r\n\r\n${good}`],
    [
      "length and chunked",
      `${line}host: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    ],
    [
      "chunked and length",
      `${line}host: x\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n${smuggled}`,
    ],
    ["two lengths", `${line}host: x\r\ncontent-length: 0\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["a list of lengths", `${line}host: x\r\ncontent-length: ${length}, ${length}\r\n\r\n${good}`],
    ["a negative length", `${line}host: x\r\ncontent-length: -1\r\n\r\n${good}`],
    ["a signed length", `${line}host: x\r\ncontent-length: +${length}\r\n\r\n${good}`],
    ["a hexadecimal length", `${line}host: x\r\ncontent-length: 0x10\r\n\r\n${good}`],
    ["a huge length", `${line}host: x\r\ncontent-length: 99999999999999999999999\r\n\r\n${good}`],
    ["line feeds alone", `POST /v1/chat/completions HTTP/1.1\nhost: x\ncontent-length: ${length}\n\n${good}`],
    ["space before the colon", `${line}host: x\r\ncontent-length : ${length}\r\n\r\n${good}`],
    ["a folded header", `${line}host: x\r\nx-a: b\r\n c\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["chunked twice", `${line}host: x\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ["xchunked", `${line}host: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ["chunked, identity", `${line}host: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n${smuggled}`],
    ["a vertical tab before chunked", `${line}host: x\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n${smuggled}`],
    ["a chunk size that is no number", `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n${smuggled}`],
    ["a negative chunk size", `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n${smuggled}`],
    [
      "a chunk size beyond 64 bits",
      `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\n10000000000000000\r\n${smuggled}`,
    ],
    ["a bare CR in a header", `${line}host: x\r\nx-a: b\rc: d\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["a NUL in a header", `${line}host: x\r\nx-a: b\0c\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["an unknown version", `POST /v1/chat/completions HTTP/3.7\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n${good}`],
    ["no version", `POST /v1/chat/completions\r\nhost: x\r\n\r\n${good}`],
    ["an unknown method", `FROB /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n`],
    ["a TLS greeting", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ["an HTTP/2 preface behind an empty line", "\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ];
  for (const [name, bytes] of bad) {
    test(name, async () => {
      const calls = node.calls.length;
      const client = await RawClient.open(plane.port);
      client.send(Buffer.from(bytes, "latin1"));
      const answer = await client.answer();
      assert.equal(answer.status, 400, answer.body.toString());
      assert.ok(["bad_request", "invalid_json", "body_empty"].includes(JSON.parse(answer.body.toString()).error.code));
      client.socket.end();
      await client.closed();
      assert.ok(node.calls.length === calls, "reached a node");
      await plane.settled();
    });
  }

  test("two lengths that agree are no second request", async () => {
    const calls = node.calls.length;
    const bytes = `${line}host: x\r\ncontent-length: ${length}\r\ncontent-length: ${length}\r\n\r\n${good}`;
    const answer = await ask(plane.port, bytes);
    assert.equal(answer.status, 400);
    assert.equal(node.calls.length, calls);
  });

  test("chunked for HTTP/1.0 is no second request", async () => {
    const calls = node.calls.length;
    const client = await RawClient.open(plane.port);
    client.send(
      `POST /v1/chat/completions HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    );
    await client.closed();
    assert.equal(node.calls.length, calls);
    await plane.settled();
  });

  test("framing in trailers changes nothing", async () => {
    const calls = node.calls.length;
    const framed = `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\n${length.toString(16)}\r\n${good}\r\n0\r\ncontent-length: 5\r\nmodel: b\r\n\r\n`;
    const answer = await ask(plane.port, framed);
    assert.ok(answer.status === 200 || answer.status === 400);
    assert.ok(node.calls.length <= calls + 1);
    await plane.settled();
  });

  test("garbage behind a request never lands in its answer", async () => {
    node.script = (call, index) => {
      call.socket.once("close", () => {});
      healthy("a")(call, index);
      node.script = healthy("a");
    };
    const other = await startScriptedNode((call) => {
      call.write(
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n",
      );
      call.write('b\r\n {"a":1}\n\n \r\n');
    });
    const streamingPlane = await startPlane([{ id: "s", url: other.url }]);
    const client = await RawClient.open(streamingPlane.port);
    client.send(post(chatBody({ stream: true })));
    await client.waitFor('{"a":1}');
    client.send("\0\0\0garbage\r\n\r\n");
    await client.closed();
    assert.doesNotMatch(client.text, /HTTP\/1\.1 400/);
    await streamingPlane.settled();
    await streamingPlane.stop();
    await other.stop();
  });

  test("G06: a head over the limit gets 431 and says which limit", async () => {
    const calls = node.calls.length;
    const answer = await ask(plane.port, post(chatBody(), { "x-big": "b".repeat(20_000) }));
    assert.equal(answer.status, 431);
    const { error } = JSON.parse(answer.body.toString());
    assert.equal(error.code, "header_too_large");
    assert.match(error.message, /16384 bytes.*limits\.header_bytes/);
    assert.equal(node.calls.length, calls);
  });
});

describe("G01: expect", () => {
  const head = (expect: string, length: number, more = "") =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: ${expect}\r\ncontent-length: ${length}\r\n${more}\r\n`;

  test("100-continue is answered here, and stays here", async () => {
    const body = chatBody();
    const client = await RawClient.open(plane.port);
    client.send(head("100-continue", body.length));
    await client.waitFor("HTTP/1.1 100 Continue\r\n\r\n");
    client.send(body);
    assert.equal((await client.answer()).status, 200);
    assert.equal(node.calls.at(-1)?.headers["expect"], undefined);
    client.kill();
    await plane.settled();
  });

  test("a body over the limit is refused without an interim answer", async () => {
    const calls = node.calls.length;
    const client = await RawClient.open(plane.port);
    client.send(head("100-continue", LIMIT + 1));
    await isRefusedOn(client, { status: 413, code: "body_too_large", says: /4096/ }, calls);
    assert.doesNotMatch(client.text, /100 Continue/);
  });

  test("another expectation gets 417", async () => {
    const calls = node.calls.length;
    const client = await RawClient.open(plane.port);
    client.send(head("a-miracle", 10));
    const answer = await client.answer();
    assert.equal(answer.status, 417);
    assert.equal(JSON.parse(answer.body.toString()).error.code, "expectation_failed");
    assert.ok(answer.headers["x-request-id"]);
    client.socket.end();
    await client.closed();
    assert.equal(node.calls.length, calls);
  });

  test("a path that is not there gets 404 without an interim answer", async () => {
    const client = await RawClient.open(plane.port);
    client.send("POST /nope HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n");
    assert.equal((await client.answer()).status, 404);
    assert.doesNotMatch(client.text, /100 Continue/);
    client.socket.end();
    await client.closed();
  });
});

async function isRefusedOn(client: RawClient, expected: Expected, calls: number): Promise<void> {
  const answer = await client.answer();
  client.socket.end();
  await client.closed();
  await isRefused(answer, expected, calls);
}

describe("M04: keys", () => {
  let guarded: PlaneFixture;
  before(async () => {
    guarded = await startPlane([{ id: "a", url: node.url }], {
      keys: [
        { name: "app", value: "good-key" },
        { name: "ops", value: "ops-key", scopes: ["admin"] },
        { name: "other", value: "other-key", account: "other" },
      ],
    });
  });
  after(() => guarded.stop());

  for (const [name, headers, status, code] of [
    ["no key", {}, 401, "missing_api_key"],
    ["an empty one", { authorization: "Bearer " }, 401, "missing_api_key"],
    ["another scheme", { authorization: "Basic Z29vZC1rZXk=" }, 401, "missing_api_key"],
    ["a wrong one", { authorization: "Bearer canary-wrong-key" }, 401, "invalid_api_key"],
    ["a wrong x-api-key", { "x-api-key": "canary-wrong-key" }, 401, "invalid_api_key"],
    ["one without the scope", { authorization: "Bearer ops-key" }, 403, "key_scope"],
    ["one of an account without the model", { authorization: "Bearer other-key" }, 404, "model_not_found"],
  ] as const) {
    test(`${name} is refused, and is not repeated`, async () => {
      const calls = node.calls.length;
      const answer = await ask(guarded.port, post(chatBody(), { ...headers }));
      assert.doesNotMatch(answer.body.toString(), /canary/);
      await isRefused(answer, { status, code, says: /./ }, calls);
      await guarded.settled();
    });
  }

  test("a bearer key and an x-api-key open the door", async () => {
    assert.equal((await ask(guarded.port, post(chatBody(), { authorization: "bearer good-key" }))).status, 200);
    assert.equal((await ask(guarded.port, post(chatBody(), { "x-api-key": "good-key" }))).status, 200);
    await guarded.settled();
  });

  test("G01: a wrong key with 100-continue gets 401 and no interim answer", async () => {
    const client = await RawClient.open(guarded.port);
    client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n",
    );
    assert.equal((await client.answer()).status, 401);
    assert.doesNotMatch(client.text, /100 Continue/);
    client.socket.end();
    await client.closed();
  });

  test("a caller with a wrong key who uploads a large body reads the 401 every time", async () => {
    for (let run = 0; run < 20; run++) {
      const client = await RawClient.open(guarded.port);
      client.send(post(Buffer.alloc(4 * 1024 * 1024, 0x20), { authorization: "Bearer no" }));
      assert.equal((await client.answer()).status, 401);
      client.socket.end();
      await client.closed();
    }
    await guarded.settled();
  });

  test("the list of models asks for a key too", async () => {
    assert.equal((await ask(guarded.port, "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")).status, 401);
    assert.equal((await ask(guarded.port, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")).status, 200);
  });
});

describe("G10: old, eager and slow clients", () => {
  test("an HTTP/1.0 request is served, and its connection closed", async () => {
    const body = chatBody({ stream: true });
    const client = await RawClient.open(plane.port);
    client.send(`POST /v1/chat/completions HTTP/1.0\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    await client.closed();
    const [answer] = client.answers();
    assert.equal(answer?.status, 200);
    assert.equal(answer?.headers["transfer-encoding"], undefined);
    assert.match(answer?.body.toString() ?? "", /data: \[DONE\]\n\n$/);
    await plane.settled();
  });

  test("pipelined requests are answered each, in order", async () => {
    const client = await RawClient.open(plane.port);
    client.send(Buffer.concat([post(chatBody()), post("[]"), post(chatBody({ stream: true })), post(chatBody())]));
    await until(() => client.answers().length === 4);
    assert.deepEqual(
      client.answers().map(({ status }) => status),
      [200, 400, 200, 200],
    );
    client.kill();
    await plane.settled();
  });

  test("a head that comes too slowly ends its connection", async () => {
    const client = await RawClient.open(plane.port);
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost");
    const answer = await client.answer();
    assert.equal(answer.status, 408);
    await client.closed();
  });

  test("a body that comes too slowly is refused, however it trickles", async () => {
    const calls = node.calls.length;
    const client = await RawClient.open(plane.port);
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{");
    const trickle = setInterval(() => client.send(" "), 20);
    const answer = await client.answer();
    clearInterval(trickle);
    await isRefused(answer, { status: 408, code: "body_timeout", says: /300 ms/ }, calls);
    await client.closed();
  });

  test("a body that nobody reads doesn't keep its connection for ever", async () => {
    const client = await RawClient.open(plane.port);
    client.send("POST /nope HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n{");
    assert.equal((await client.answer()).status, 404);
    const trickle = setInterval(() => client.send(" "), 20);
    try {
      await client.closed();
    } finally {
      clearInterval(trickle);
    }
  });
});
