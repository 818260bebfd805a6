/** G: HTTP/1.1 at both edges. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chat, errorOf, FIXTURE_MODEL, until } from "../plane-fixture.ts";
import { ask, chatBody, post, RawClient } from "../raw-client.ts";
import { answering, chatAnswer, chunk, head, healthy, type NodeScript, plain } from "../scripted-node.ts";
import { isLong, longForm, pause, routingOf, startField } from "./field-fixture.ts";

describe("framing", () => {
  const text = chatAnswer("héé 漢字 🙂");
  const isFramedOnce = ({ headers, body }: { headers: Record<string, string>; body: Buffer }): void => {
    const length = headers["content-length"];
    const coding = headers["transfer-encoding"];
    assert.equal(length === undefined, coding !== undefined, JSON.stringify(headers));
    if (length !== undefined) assert.equal(Number(length), body.length);
  };
  for (const [name, script] of [
    ["with a length", answering(200, text)],
    [
      "chunked, cut within characters",
      (call) => {
        const bytes = Buffer.from(text);
        call.write(head(200, { "content-type": "application/json", "transfer-encoding": "chunked" }));
        for (let at = 0; at < bytes.length; at += 3) call.write(chunk(bytes.subarray(at, at + 3)));
        call.write("0\r\ncontent-length: 5\r\nx-trailer: 1\r\n\r\n");
      },
    ],
    [
      "until the connection ends",
      (call) => {
        call.write(head(200, { "content-type": "application/json" }) + text);
        call.fin();
      },
    ],
    [
      "behind interim answers",
      (call) => {
        call.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n");
        call.write(plain(200, text));
      },
    ],
  ] as [string, NodeScript][]) {
    test(`G03: an answer ${name} comes with one framing and its own length`, async (t) => {
      const { caller } = await startField(t, [{ script, upstreamModel: "a-much-longer-name-模" }]);
      const client = await caller();
      for (let each = 0; each < 2; each++) {
        client.send(post(chatBody({ x: "é漢🙂" })));
        await until(() => client.answers().length === each + 1);
        const answer = client.answers()[each];
        assert.ok(answer !== undefined);
        isFramedOnce(answer);
        assert.equal(answer.body.toString(), text);
      }
    });
  }

  test("G03: with another name for the model the node gets the length of what it gets", async (t) => {
    const { plane, nodes } = await startField(t, [{ script: healthy("a"), upstreamModel: "模".repeat(50) }]);
    await ask(plane.port, post(chatBody({ x: "é漢🙂" })));
    const call = nodes[0]?.calls[0];
    assert.equal(call?.headers["transfer-encoding"], undefined);
    assert.equal(JSON.parse(call?.body.toString() ?? "").model, "模".repeat(50));
    assert.equal(Number(call?.headers["content-length"]), call?.body.length);
  });

  for (const [name, bytes] of [
    ["both framings", `${head(200, { "content-length": "5", "transfer-encoding": "chunked" })}0\r\n\r\n`],
    ["two lengths", "HTTP/1.1 200 X\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} "],
    ["a length that is too short", `${head(200, { "content-length": "2" })}{}HTTP/1.1 200 X\r\n\r\nevil`],
  ] as const) {
    test(`G03: an answer with ${name} never reaches the next caller`, async (t) => {
      const { plane, nodes } = await startField(t, [(call) => call.write(bytes), healthy("b")]);
      const first = await chat(plane.url);
      assert.doesNotMatch(await first.text(), /evil/);
      const node = nodes[0];
      assert.ok(node !== undefined);
      node.script = healthy("a");
      plane.table.cooldownUntil[0] = 0;
      for (let each = 0; each < 3; each++) {
        const text = await (await chat(plane.url)).text();
        assert.match(text, /"content":"[ab]"/);
        assert.doesNotMatch(text, /evil/);
      }
      assert.ok(node.connections >= 2, "the connection is not used again");
    });
  }
});

describe("large heads", () => {
  for (const kib of [15, 17, 40]) {
    test(`G06: ${kib} KiB of request and of answer pass by default`, async (t) => {
      const big = "b".repeat(kib * 1024);
      const { plane } = await startField(t, [answering(200, chatAnswer("a"), { "x-big": big })]);
      const answer = await ask(plane.port, post(chatBody(), { cookie: big }));
      assert.equal(answer.status, 200);
      assert.equal(answer.headers["x-big"], undefined);
    });
  }

  test("G06: a node's head beyond the limit is told with limit and cause, and is no failure of the node", async (t) => {
    const big = (kib: number): NodeScript => answering(200, chatAnswer("a"), { "x-big": "b".repeat(kib * 1024) });
    const { plane, nodes } = await startField(t, [big(9)], { file: { limits: { header_bytes: 8192 } } });
    const response = await chat(plane.url);
    assert.equal(response.status, 502);
    const error = await errorOf(response);
    assert.equal(error.code, "upstream_failed");
    assert.match(error.message, /head.*8192 bytes.*limits\.header_bytes/);
    assert.equal(plane.table.cooldownUntil[0], 0);
    const node = nodes[0];
    assert.ok(node !== undefined);
    node.script = healthy("a");
    assert.equal((await chat(plane.url)).status, 200, "the node serves on");
  });

  test("G06: a node's head beyond the limit goes to another node first", async (t) => {
    const script = answering(200, chatAnswer("a"), { "x-big": "b".repeat(70_000) });
    const { plane } = await startField(t, [script, healthy("b")]);
    assert.equal(routingOf((await chat(plane.url)).headers)?.node, "n1");
    assert.equal(plane.table.cooldownUntil[0], 0);
  });
});

describe("answers before the end of the upload", () => {
  test(
    "G09: our own limit at a large upload, from a caller who writes all before it reads, is read every time",
    longForm,
    async (t) => {
      const { plane } = await startField(t, [healthy("a")], { file: { limits: { body_bytes: 1_000_000 } } });
      const body = Buffer.alloc(isLong ? 50_000_000 : 5_000_000, 0x20);
      const runs = isLong ? 100 : 20;
      for (let run = 0; run < runs; run++) {
        const client = await RawClient.open(plane.port);
        client.send(post(body));
        const answer = await client.answer();
        assert.equal(answer.status, 413);
        assert.equal(JSON.parse(answer.body.toString()).error.code, "body_too_large");
        client.socket.destroy();
      }
    },
  );

  test("G09: a node's 413 to a large upload is read every time", longForm, async (t) => {
    const body = '{"error":{"message":"too large","code":413}}';
    const { plane } = await startField(t, [
      {
        script: (call) => {
          call.write(plain(413, body, { connection: "close" }));
          call.fin();
        },
        atHead: true,
      },
    ]);
    const upload = chatBody({ x: "y".repeat(isLong ? 50_000_000 : 5_000_000) });
    for (let run = 0; run < (isLong ? 100 : 15); run++) {
      const answer = await ask(plane.port, post(upload));
      assert.equal(answer.status, 413);
      assert.equal(answer.body.toString(), body);
    }
  });

  test("G09: a node that answers and resets while the upload runs: the answer counts", async (t) => {
    const body = '{"error":{"message":"too large","code":413}}';
    const { plane, nodes } = await startField(t, [
      {
        script: (call) => {
          call.socket.pause();
          call.write(plain(413, body, { connection: "close" }));
          setTimeout(() => call.rst(), 30);
        },
        atHead: true,
      },
    ]);
    for (let run = 0; run < 10; run++) {
      const answer = await ask(plane.port, post(chatBody({ x: "y".repeat(5_000_000) })));
      assert.equal(answer.status, 413);
      assert.equal(answer.body.toString(), body);
    }
    assert.equal(nodes[0]?.calls.length, 10);
  });
});

describe("slow and idle callers", () => {
  test("G10: 300 slow heads, 50 slow bodies and 50 idle ones end on time, and traffic runs on", async (t) => {
    const { plane, caller } = await startField(t, [healthy("a")], {
      file: { data: { head_ms: 700, body_ms: 700, keep_alive_ms: 700 } },
    });
    const open = (count: number): Promise<RawClient[]> => Promise.all(Array.from({ length: count }, () => caller()));
    const [heads, bodies, idle, mute] = [await open(300), await open(50), await open(50), await open(50)];
    for (const client of idle) client.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    for (const client of bodies) {
      client.send(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n{"model":"${FIXTURE_MODEL}","x":"`,
      );
    }
    const line = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow: ";
    let sent = 0;
    const drip = setInterval(() => {
      const byte = line[sent] ?? "y";
      sent += 1;
      for (const client of heads) if (!client.isClosed) client.send(byte);
      for (const client of bodies) if (!client.isClosed) client.send("y");
    }, 50);
    t.after(() => clearInterval(drip));
    const startedAtMs = performance.now();
    let slowestMs = 0;
    const all = [...heads, ...bodies, ...idle, ...mute];
    while (all.some((client) => !client.isClosed)) {
      assert.ok(performance.now() - startedAtMs < 6000, `${all.filter((client) => !client.isClosed).length} are open`);
      const askedAtMs = performance.now();
      assert.equal((await chat(plane.url)).status, 200);
      slowestMs = Math.max(slowestMs, performance.now() - askedAtMs);
      await pause(10);
    }
    assert.ok(slowestMs < 2000, `${slowestMs} ms`);
    assert.ok(heads.every((client) => client.answers()[0]?.status === 408));
    assert.ok(bodies.every((client) => client.answers()[0]?.status === 408));
  });
});

describe("smuggling", () => {
  const good = chatBody();
  const smuggled = post(good).toString();
  const line = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n";
  test("G08: behind a body whose end two readers could see in two places no second request runs", async (t) => {
    const { plane, nodes } = await startField(t, [healthy("a")]);
    const length = Buffer.byteLength(good);
    const corpus = [
      `${line}content-length: ${length}\r\nTransfer-Encoding : chunked\r\n\r\n${good}`,
      `${line}content-length: ${length}\r\ntransfer-encoding:\tchunked\r\n\r\n0\r\n\r\n${smuggled}`,
      `${line}content-length: ${length}\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n${smuggled}`,
      `${line}content-length: ${length}\r\nx: y\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
      `${line}transfer-encoding: chunked\r\n\r\n0;a="\r\n\r\n${smuggled}`,
      `${line}transfer-encoding: chunked\r\n\r\n0\r\nx: y\r\ncontent-length: 0\r\n\r\n`,
      `${line}transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n${smuggled}`,
      `${line}transfer-encoding: chunked\r\n\r\n0 \n\r\n${smuggled}`,
      `${line}transfer-encoding: chunked\r\n\r\n1\r\n{0\r\n\r\n${smuggled}`,
      `${line}transfer-encoding: identity\r\ncontent-length: 0\r\n\r\n${smuggled}`,
      `${line}content-length: 00\r\ntransfer-encoding: ,\r\n\r\n${smuggled}`,
      `${line}content-length: 0 \r\ncontent-length: ${length}\r\n\r\n${smuggled}`,
      ...["gzip, chunked", "identity, chunked", "chunked;q=1\r\ntransfer-encoding: chunked", ", chunked"].flatMap(
        (coding) =>
          ["POST", "GET", "TRACE"].map(
            (method) =>
              `${line.replace("POST", method)}transfer-encoding: ${coding}\r\n\r\n${length.toString(16)}\r\n${good}\r\n0\r\n\r\n${smuggled}`,
          ),
      ),
    ];
    for (const bytes of corpus) {
      const before = nodes[0]?.calls.length ?? 0;
      const client = await RawClient.open(plane.port);
      client.send(Buffer.from(bytes, "latin1"));
      client.socket.end();
      await client.closed();
      assert.ok((nodes[0]?.calls.length ?? 0) - before <= 0, JSON.stringify(bytes.slice(0, 140)));
    }
  });
});

test("G02: what a caller names as its connection's own never removes what the gateway sends", async (t) => {
  const { plane, nodes } = await startField(t, [{ script: healthy("a"), apiKey: "node-key" }]);
  const answer = await ask(
    plane.port,
    post(chatBody(), {
      connection: "authorization, host, content-length, content-type, x-zml-routing, x-request-id, x-mine",
      "x-mine": "1",
    }),
  );
  assert.equal(answer.status, 200);
  const headers = nodes[0]?.calls[0]?.headers ?? {};
  assert.equal(headers["authorization"], "Bearer node-key");
  for (const name of ["host", "content-length", "content-type", "x-zml-routing", "x-request-id"])
    assert.ok(headers[name], name);
  assert.equal(headers["x-mine"], undefined);
  assert.ok(answer.headers["x-zml-routing"]);
});
