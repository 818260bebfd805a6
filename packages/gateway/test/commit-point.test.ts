import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { CELL } from "@zml/engine";
import { decodeRoutingHeader } from "@zml/protocol/wire";
import { endAfterEach, type Pair, type PairOptions, startPair } from "./pair-fixture.ts";
import { chat, errorOf, type PlaneFixture, startPlane, until } from "./plane-fixture.ts";
import { chatBody, post, RawClient } from "./raw-client.ts";
import {
  answering,
  chatAnswer,
  chunk,
  DONE,
  ERROR_EVENT,
  head,
  healthy,
  LAST_CHUNK,
  type NodeCall,
  type NodeScript,
  plain,
  STREAM_HEAD,
  startScriptedNode,
  streaming,
  token,
} from "./scripted-node.ts";

const toStop = endAfterEach();

async function pair(
  script: NodeScript,
  file: Record<string, unknown> = {},
  more: Omit<PairOptions, "file"> = {},
): Promise<Pair> {
  const pair = await startPair(script, { ...more, file });
  toStop.push(pair.plane, pair.a, pair.b);
  return pair;
}

const routingOf = (response: Response) => decodeRoutingHeader(response.headers.get("x-zml-routing") ?? "");

/** The text of a stream, and whether the connection broke instead of ending. */
async function readAll(response: Response): Promise<{ text: string; isBroken: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const piece of response.body ?? []) text += decoder.decode(piece, { stream: true });
    return { text, isBroken: false };
  } catch {
    return { text, isBroken: true };
  }
}

async function isFromB({ plane, a, b }: Pair, isStream = true): Promise<void> {
  const response = await chat(plane.url, isStream ? { stream: true } : {});
  const { text, isBroken } = await readAll(response);
  assert.equal(response.status, 200, text);
  assert.equal(isBroken, false);
  assert.equal(routingOf(response)?.node, "b");
  assert.match(text, /"content":"b"/);
  assert.doesNotMatch(text, /engine died|"content":"a"/);
  assert.equal(a.calls.length, 1);
  assert.equal(b.calls.length, 1);
  await plane.settled();
}

describe("A06, A09, J01: before the commit point the request goes elsewhere, and the caller sees none of it", () => {
  const stream =
    (...pieces: (string | Buffer)[]): NodeScript =>
    (call) => {
      call.write(STREAM_HEAD);
      for (const piece of pieces) call.write(chunk(piece));
    };
  const then =
    (script: NodeScript, end: (call: NodeCall) => void): NodeScript =>
    async (call, index) => {
      await script(call, index);
      setImmediate(() => end(call));
    };
  const writing =
    (bytes: string, end: (call: NodeCall) => void): NodeScript =>
    (call) => {
      call.write(bytes);
      end(call);
    };
  const cases: [name: string, script: NodeScript][] = [
    ["an error as first event", streaming(ERROR_EVENT, DONE)],
    ["a comment, then an error", streaming(": ping\n\n", ERROR_EVENT)],
    ["an empty event, then an error", streaming("data:\n\n", ERROR_EVENT)],
    ["an error event by name", streaming('event: error\ndata: {"message":"x"}\n\n')],
    ["an error in small pieces", streaming(...ERROR_EVENT)],
    ["an empty stream", streaming()],
    ["comments alone", streaming(": a\n\n", ": b\n\n")],
    ["an end mark alone", streaming(DONE)],
    ["the end of the connection after the head", then(stream(), (call) => call.fin())],
    ["a reset after the head", then(stream(), (call) => call.rst())],
    ["half an event, then the end", then(stream("data: {"), (call) => call.fin())],
    ["a reset before the head", (call) => call.rst()],
    ["the end before the head", (call) => call.fin()],
    ["half a head", writing("HTTP/1.1 200 O", (call) => call.fin())],
    ["no HTTP at all", writing("nonsense\r\n\r\n", (call) => call.fin())],
    ["a bad chunk size", (call) => call.write(`${STREAM_HEAD}zz\r\n`)],
    ["an abort as first event", streaming(token("", "abort"), DONE)],
  ];
  for (const [name, script] of cases) {
    test(name, async () => isFromB(await pair(script)));
  }
  for (const [name, script] of [
    [
      "a plain answer that is cut at half",
      then(
        (call) => call.write(plain(200, chatAnswer("a")).subarray(0, 150)),
        (call) => call.fin(),
      ),
    ],
    [
      "a plain answer reset at half",
      then(
        (call) => call.write(plain(200, chatAnswer("a")).subarray(0, 150)),
        (call) => call.rst(),
      ),
    ],
    ["an empty plain answer", answering(200, "")],
    ["an error as plain 200", answering(200, '{"error":{"message":"engine dead","code":500}}')],
    [
      "an error as plain 200, by its object",
      answering(200, ' {"object": "error", "message": "engine dead", "code": 500}'),
    ],
    ["a plain answer that was aborted", answering(200, chatAnswer("a").replace('"stop"', '"abort"'))],
    ["a head beyond the limit", answering(200, chatAnswer("a"), { "x-big": "b".repeat(70_000) })],
  ] as [string, NodeScript][]) {
    test(name, async () => isFromB(await pair(script), false));
  }

  test("silence after the head, once first_token_ms is over", async () => {
    await isFromB(await pair(stream(": ping\n\n"), { timeouts: { first_token_ms: 150 } }));
  });
  test("silence before the head, once first_byte_ms is over", async () => {
    await isFromB(await pair(() => {}, { timeouts: { first_byte_ms: 150 } }));
  });
  test("a plain answer that stops, once first_token_ms is over", async () => {
    await isFromB(
      await pair((call) => call.write(plain(200, chatAnswer("a")).subarray(0, 150)), {
        timeouts: { first_token_ms: 150 },
      }),
      false,
    );
  });
});

describe("A06, J01: after the commit point nothing is tried again, and the break is visible", () => {
  const ends: [name: string, end: (call: NodeCall) => void][] = [
    ["FIN", (call) => call.fin()],
    ["RST", (call) => call.rst()],
    ["the end of the body without a mark", (call) => call.write(LAST_CHUNK)],
    ["silence", () => {}],
    ["a bad chunk", (call) => call.write("zz\r\n")],
  ];
  for (const events of [1, 3]) {
    for (const [name, end] of ends) {
      test(`${name} after ${events} events`, async () => {
        const two = await pair(
          (call) => {
            call.write(STREAM_HEAD);
            for (let event = 0; event < events; event++) call.write(chunk(token(`a${event}`)));
            setTimeout(() => end(call), 20);
          },
          { timeouts: { idle_ms: 200 } },
        );
        const response = await chat(two.plane.url, { stream: true });
        const { text } = await readAll(response);
        assert.equal(response.status, 200);
        assert.equal(routingOf(response)?.node, "a");
        assert.equal(text.match(/"content":"a/g)?.length, events);
        assert.match(text, /"code":"stream_interrupted"/);
        assert.doesNotMatch(text, /\[DONE\]|"content":"b/);
        assert.equal(two.b.calls.length, 0);
        await two.plane.settled();
      });
    }
  }

  test("a break inside an event breaks the connection, since no error event can stand there", async () => {
    const two = await pair((call) => {
      call.write(STREAM_HEAD);
      call.write(chunk(`${token("a")}data: {"half`));
      setTimeout(() => call.rst(), 20);
    });
    const { text, isBroken } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.equal(isBroken, true);
    assert.doesNotMatch(text, /stream_interrupted/);
    await two.plane.settled();
  });

  test("the node's own error event passes as it is, and none is added", async () => {
    const two = await pair(streaming(token("a"), ERROR_EVENT, DONE));
    const { text, isBroken } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.equal(text, token("a") + ERROR_EVENT + DONE);
    assert.equal(isBroken, false);
    assert.equal(two.b.calls.length, 0);
    await two.plane.settled();
    assert.match(await (await chat(two.plane.url)).text(), /"content":"b"/);
  });

  test("an abort in mid-stream is an error, not a good end", async () => {
    const two = await pair(async (call) => {
      call.write(STREAM_HEAD + chunk(token("a")).toString());
      setTimeout(
        () => call.write(Buffer.concat([chunk(token("", "abort")), chunk(DONE), Buffer.from(LAST_CHUNK)])),
        20,
      );
    });
    const { text } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.match(text, /"content":"a"/);
    assert.match(text, /"code":"stream_interrupted"/);
    assert.doesNotMatch(text, /\[DONE\]/);
    await two.plane.settled();
  });

  test("a large plain answer that breaks after 64 KiB breaks the connection", async () => {
    const two = await pair((call) => {
      call.write(head(200, { "content-type": "application/json", "content-length": "200000" }));
      call.write(Buffer.alloc(100_000, 0x20));
      setTimeout(() => call.fin(), 30);
    });
    const response = await chat(two.plane.url);
    const { isBroken } = await readAll(response);
    assert.equal(response.status, 200);
    assert.equal(isBroken, true);
    assert.equal(two.b.calls.length, 0);
    await two.plane.settled();
  });
});

describe("what commits", () => {
  test("hold_ms after the first byte", async () => {
    const two = await pair(
      (call) => {
        call.write(STREAM_HEAD + chunk(": ping\n\n").toString());
        setTimeout(() => call.write(Buffer.concat([chunk(ERROR_EVENT), Buffer.from(LAST_CHUNK)])), 400);
      },
      { failover: { hold_ms: 100 } },
    );
    const { text } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.equal(text, `: ping\n\n${ERROR_EVENT}`);
    assert.equal(two.b.calls.length, 0);
    await two.plane.settled();
  });

  test("a head alone starts no hold", async () => {
    const two = await pair(
      (call) => {
        call.write(STREAM_HEAD);
        setTimeout(() => call.write(Buffer.concat([chunk(ERROR_EVENT), Buffer.from(LAST_CHUNK)])), 300);
      },
      { failover: { hold_ms: 50 } },
    );
    await isFromB(two);
  });

  test("64 KiB of held prefix", async () => {
    const comments = `: ${"p".repeat(1000)}\n\n`.repeat(70);
    const two = await pair(streaming(comments, ERROR_EVENT));
    const { text } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.equal(text, comments + ERROR_EVENT);
    assert.equal(two.b.calls.length, 0);
    await two.plane.settled();
  });

  test("a compressed stream is not held for longer than hold_ms", async () => {
    const body = gzipSync(token("a", "stop") + DONE);
    const two = await pair(
      (call) => {
        call.write(
          head(200, {
            "content-type": "text/event-stream",
            "content-encoding": "gzip",
            "transfer-encoding": "chunked",
          }),
        );
        call.write(chunk(body.subarray(0, 20)));
        const seen = setInterval(() => {
          if (!client.text.includes("200")) return;
          clearInterval(seen);
          call.write(Buffer.concat([chunk(body.subarray(20)), Buffer.from(LAST_CHUNK)]));
        }, 10);
      },
      { failover: { hold_ms: 100 } },
    );
    const client = await RawClient.open(two.plane.port);
    client.send(post(chatBody({ stream: true })));
    const answer = await client.answer();
    assert.equal(answer.headers["content-encoding"], "gzip");
    assert.equal(gunzipSync(answer.body).toString(), token("a", "stop") + DONE);
    client.kill();
    await two.plane.settled();
  });
});

describe("an answer passes byte for byte", () => {
  const multi = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "héé 漢字 🙂" }, finish_reason: "stop" }] })}\n\n${DONE}`;

  test("A01: a multi-byte text split at every byte", async () => {
    const bytes = Buffer.from(multi);
    const two = await pair((call, index) => {
      call.write(STREAM_HEAD);
      call.write(chunk(bytes.subarray(0, index + 1)));
      if (index + 1 < bytes.length) setImmediate(() => call.write(chunk(bytes.subarray(index + 1))));
      setImmediate(() => call.write(LAST_CHUNK));
    });
    for (let split = 1; split <= bytes.length; split++) {
      const got = Buffer.from(await (await chat(two.plane.url, { stream: true })).arrayBuffer());
      assert.deepEqual(got, bytes, `split at ${split}`);
    }
    await two.plane.settled();
  });

  for (const [name, text] of [
    ["CR LF", multi.replaceAll("\n", "\r\n")],
    ["CR alone", multi.replaceAll("\n", "\r")],
    ["no space after the colon", multi.replaceAll("data: ", "data:")],
    [
      "several data lines",
      `data: {"choices":\ndata: [{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n${DONE}`,
    ],
    ["no blank line after the end mark", multi.slice(0, -2)],
    [
      "tool calls with odd indexes",
      `data: {"choices":[{"delta":{"tool_calls":[{"index":1},{"index":1},{}]}}]}\n\n${DONE}`,
    ],
    ["a finish reason and no end mark", token("x", "stop")],
  ] as const) {
    test(name, async () => {
      const two = await pair(streaming(...text));
      const response = await chat(two.plane.url, { stream: true });
      assert.equal(await response.text(), text);
      assert.equal(routingOf(response)?.node, "a");
      await two.plane.settled();
      assert.equal(two.plane.table.cooldownUntil[0], 0);
    });
  }

  test("a stream of several choices without its end mark is whole when each of them has its reason, else it broke", async () => {
    const finished = (index: number) => token("x", "stop").replace('"index":0', `"index":${index}`);
    const half = [token("x"), finished(1)];
    const whole = [...half, finished(0)];
    for (const [events, isWhole] of [
      [whole, true],
      [[...whole, finished(0)], true],
      [half, false],
      [[...half, finished(1)], false],
      [[...half, DONE], true],
    ] as const) {
      const two = await pair(streaming(...events));
      const { text } = await readAll(await chat(two.plane.url, { stream: true, n: 2 }));
      assert.equal(text.includes("stream_interrupted"), !isWhole, events.join(""));
      assert.equal(text.startsWith(events.join("")), true);
      await two.plane.settled();
      assert.equal(two.plane.table.cooldownUntil[0] === 0, isWhole);
    }
  });

  test("A07: an end mark on a socket that stays open frees the caller", async () => {
    const two = await pair((call) =>
      call.write(Buffer.concat([Buffer.from(STREAM_HEAD), chunk(token("a", "stop") + DONE)])),
    );
    const { text, isBroken } = await readAll(await chat(two.plane.url, { stream: true }));
    assert.equal(text, token("a", "stop") + DONE);
    assert.equal(isBroken, false);
    await until(() => two.a.calls[0]?.isClosed === true);
    await two.plane.settled();
    assert.equal(two.plane.table.cooldownUntil[0], 0);
  });

  test("a compressed plain answer and a compressed error keep their header", async () => {
    for (const [status, body] of [
      [200, chatAnswer("a")],
      [400, '{"error":{"message":"no"}}'],
    ] as const) {
      const two = await pair((call) => call.write(plain(status, gzipSync(body), { "content-encoding": "gzip" })));
      const response = await chat(two.plane.url);
      assert.equal(response.status, status);
      assert.equal(response.headers.get("content-encoding"), "gzip");
      assert.equal(await response.text(), body);
      await two.plane.settled();
    }
  });

  test("a large plain answer, with a length and chunked", async () => {
    const body = JSON.stringify({ x: "y".repeat(300_000) });
    for (const script of [
      answering(200, body),
      (call: NodeCall) => {
        call.write(head(200, { "content-type": "application/json", "transfer-encoding": "chunked" }));
        call.write(Buffer.concat([chunk(body), Buffer.from(LAST_CHUNK)]));
      },
    ]) {
      const two = await pair(script);
      const got = await (await chat(two.plane.url)).text();
      assert.equal(createHash("sha256").update(got).digest("hex"), createHash("sha256").update(body).digest("hex"));
      await two.plane.settled();
    }
  });
});

const error = (message: string, more: Record<string, unknown> = {}) => JSON.stringify({ error: { message, ...more } });
const COOLED = "cooled";
const BACK_OFF = "backing off";
const LAST = "ranked last";
const OUT_FOR_MODEL = "out for the model";
const OUT_FOR_ENDPOINT = "out for the endpoint";
const UNTOUCHED = "untouched";

function stateOf({ table }: PlaneFixture): string {
  if (table.cooldownUntil[0] !== 0) return COOLED;
  if (table.backoffUntil[0] !== 0) return BACK_OFF;
  if (table.overloadedAtPoll[0] !== 0) return LAST;
  if (table.misconfiguredUntil[0] !== 0) return OUT_FOR_MODEL;
  if (table.endpointUntil.subarray(0, 6).some((until) => until !== 0)) return OUT_FOR_ENDPOINT;
  return UNTOUCHED;
}

describe("what a status means", () => {
  const rows: [status: number, body: string, headers: Record<string, string>, goesOn: boolean, state: string][] = [
    [200, "<html>sign in</html>", { "content-type": "text/html; charset=utf-8" }, true, COOLED],
    [302, "<html>", { location: "https://elsewhere/" }, true, COOLED],
    [308, "", { location: "https://elsewhere/" }, true, COOLED],
    [424, error("x"), {}, true, COOLED],
    [500, error("x"), {}, true, COOLED],
    [502, "<html>", {}, true, COOLED],
    [503, error("model is loading"), {}, true, COOLED],
    [504, "", {}, true, COOLED],
    [599, "", {}, true, COOLED],
    [503, error("server overloaded: queue is full"), {}, true, LAST],
    [429, error("slow down"), {}, true, LAST],
    [429, error("slow down"), { "retry-after": "1" }, true, BACK_OFF],
    [401, error("bad key"), {}, true, OUT_FOR_MODEL],
    [403, error("no"), {}, true, OUT_FOR_MODEL],
    [404, error("the model `x` does not exist"), {}, true, OUT_FOR_MODEL],
    [501, error("no such thing"), {}, true, OUT_FOR_ENDPOINT],
    [400, error("temperature must be below 2"), {}, false, UNTOUCHED],
    [409, error("x"), {}, false, UNTOUCHED],
    [422, error("x"), {}, false, UNTOUCHED],
    [413, error("too large"), {}, false, UNTOUCHED],
    [400, error("This model's maximum context length is 8192 tokens"), {}, false, UNTOUCHED],
  ];
  for (const [status, body, headers, goesOn, state] of rows) {
    for (const isStream of [false, true]) {
      const what = `${status} ${body.slice(0, 40)}${headers["retry-after"] === undefined ? "" : " with Retry-After"}`;
      test(`${what}: ${goesOn ? "next node" : "passed through"}, node ${state}${isStream ? ", streamed" : ""}`, async () => {
        const two = await pair(answering(status, body, headers));
        const response = await chat(two.plane.url, { stream: isStream });
        const text = await response.text();
        assert.equal(response.status, goesOn ? 200 : status);
        assert.equal(routingOf(response)?.node, goesOn ? "b" : "a");
        if (!goesOn) assert.equal(text, body);
        assert.equal(two.b.calls.length, goesOn ? 1 : 0);
        assert.equal(stateOf(two.plane), state);
        await two.plane.settled();
      });
    }
  }

  test("too large for one node goes to a larger one, without a penalty", async () => {
    const two = await pair(
      answering(400, error("maximum context length is 100 tokens")),
      {},
      { a: { contextTokens: 100 }, b: { contextTokens: 1000 } },
    );
    await isFromB(two, false);
    assert.equal(stateOf(two.plane), UNTOUCHED);
  });

  test("too large for the largest passes through as it is", async () => {
    const body = error("maximum context length is 100 tokens");
    const two = await pair(answering(400, body), {}, { a: { contextTokens: 100 }, b: { contextTokens: 100 } });
    const response = await chat(two.plane.url);
    assert.equal(response.status, 400);
    assert.equal(await response.text(), body);
    assert.equal(two.b.calls.length, 0);
    await two.plane.settled();
  });

  test("a node that says when to come back is asked again then, and not before", async () => {
    const two = await pair(answering(429, error("x"), { "retry-after": "30" }), { failover: { cooldown_ms: 200 } });
    await isFromB(two, false);
    two.a.script = healthy("a");
    assert.equal(routingOf(await chat(two.plane.url))?.node, "b");
    // the cooldown bounds what a node may ask for
    await until(() => two.plane.table.backoffUntil[0] !== 0);
    let node = "";
    const deadline = performance.now() + 3000;
    while (node !== "a" && performance.now() < deadline) node = routingOf(await chat(two.plane.url))?.node ?? "";
    assert.equal(node, "a");
    await two.plane.settled();
  });
});

describe("when nothing more is tried", () => {
  const body = error("boom");
  const sameOnB = { bScript: answering(500, body, { "content-type": "application/problem+json" }) };

  test("the last answer comes as it is, and says that a retry is useless", async () => {
    const two = await pair(answering(500, error("first")), {}, sameOnB);
    const response = await chat(two.plane.url);
    assert.equal(response.status, 500);
    assert.equal(await response.text(), body);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    assert.equal(response.headers.get("x-should-retry"), "false");
    const routing = routingOf(response);
    assert.equal(routing?.node, "b");
    assert.equal(routing?.attempt, 2);
    await two.plane.settled();
  });

  test("resets everywhere are a 502", async () => {
    const two = await pair((call) => call.rst(), {}, { bScript: (call) => call.rst() });
    const response = await chat(two.plane.url);
    assert.equal(response.status, 502);
    assert.equal(response.headers.get("x-should-retry"), "false");
    assert.equal((await errorOf(response)).code, "upstream_failed");
    await two.plane.settled();
  });

  test("time-outs everywhere are a 504 that names the limit", async () => {
    const two = await pair(() => {}, { timeouts: { first_byte_ms: 100 } }, { bScript: () => {} });
    const response = await chat(two.plane.url);
    const told = await errorOf(response);
    assert.equal(response.status, 504);
    assert.equal(told.code, "upstream_timeout");
    assert.match(told.message, /timeouts\.first_byte_ms \(100 ms\)/);
    assert.equal(response.headers.get("x-should-retry"), "false");
    await two.plane.settled();
  });

  test("max_attempts bounds the attempts", async () => {
    const nodes = await Promise.all([1, 2, 3, 4].map(() => startScriptedNode(answering(500, body))));
    const plane = await startPlane(nodes.map((node, index) => ({ id: `n${index}`, url: node.url })));
    toStop.push(plane, ...nodes);
    const response = await chat(plane.url);
    assert.equal(response.status, 500);
    assert.equal(routingOf(response)?.reason, "attempts_exhausted");
    assert.equal(
      nodes.reduce((sum, node) => sum + node.calls.length, 0),
      3,
    );
    await plane.settled();
  });

  test("after the window nothing is tried", async () => {
    const slow: NodeScript = (call) => void setTimeout(() => call.write(plain(500, body)), 50);
    const nodes = await Promise.all(
      [answering(500, body), slow, healthy("c")].map((script) => startScriptedNode(script)),
    );
    const plane = await startPlane(
      nodes.map((node, index) => ({ id: `n${index}`, url: node.url, family: `F${index}` })),
      { file: { failover: { window_ms: 1 } } },
    );
    toStop.push(plane, ...nodes);
    const response = await chat(plane.url);
    assert.equal(response.status, 500);
    assert.equal(routingOf(response)?.reason, "window_exhausted");
    assert.equal(nodes[2]?.calls.length, 0);
    await plane.settled();
  });

  test("a saturated fleet never says that a retry is useless", async () => {
    const two = await pair(healthy("a"), {}, { a: { maxInFlight: 0 }, b: { maxInFlight: 0 } });
    const response = await chat(two.plane.url);
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("x-should-retry"), null);
    assert.match(response.headers.get("retry-after") ?? "", /^\d+$/);
    await two.plane.settled();
  });

  test("a hint is named in the routing header, used or not", async () => {
    const two = await pair(healthy("a"));
    const used = await chat(two.plane.url, {}, { headers: { "x-zml-accelerator": "MI300X" } });
    assert.equal(routingOf(used)?.hint, "used");
    assert.equal(routingOf(used)?.node, "b");
    two.plane.table.isDraining[1] = 1;
    const unused = await chat(two.plane.url, { accelerator: "MI300X" });
    assert.equal(routingOf(unused)?.hint, "unused");
    assert.equal(routingOf(unused)?.node, "a");
    await two.plane.settled();
  });
});

describe("E06: a node's odd head harms its own answer alone", () => {
  for (const [name, headers] of [
    ["a header that is not ASCII", { "content-language": "d\xe9" }],
    ["a Retry-After that is a date", { "retry-after": "Wed, 21 Oct 2099 07:28:00 GMT" }],
    ["a Retry-After that is nonsense", { "retry-after": "-1e999" }],
    ["a content type with no type", { "content-type": ";" }],
  ] as [string, Record<string, string>][]) {
    test(name, async () => {
      const two = await pair((call) => {
        const bytes = plain(200, chatAnswer("a"), headers);
        call.write(Buffer.from(bytes.toString("latin1"), "latin1"));
      });
      const response = await chat(two.plane.url);
      assert.equal(response.status, 200);
      await response.text();
      const next = await chat(two.plane.url, { stream: true });
      assert.equal(next.status, 200);
      await next.text();
      assert.deepEqual(two.plane.logs, []);
      await two.plane.settled();
    });
  }
});

test("a body is held until the commit point and no longer, however long the answer takes", async () => {
  let finish = (): void => {};
  const { a, plane } = await pair((call) => {
    finish = () => {
      for (const piece of [chunk(token("x")), chunk(DONE), LAST_CHUNK]) call.write(piece);
    };
    call.write(STREAM_HEAD);
  });
  const held = (): number => plane.table.cells[CELL.bodyKib] ?? Number.NaN;
  const response = chat(plane.url, { stream: true, user: "u".repeat(100_000) });
  await until(() => a.calls.length === 1);
  assert.ok(held() >= 97, `${held()} KiB are held while the request can still go elsewhere`);
  a.calls[0]?.write(chunk(token("first")));
  const answer = await response;
  await until(() => held() === 0, "the body's release");
  finish();
  assert.match(await answer.text(), /x/);
  await plane.settled();
});
