/** E and I: memory of bodies, their limits, codings, fields and names. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { CELL } from "@zml/engine";
import { fakeNode, PORTS, startOn, until as untilAsked } from "../control-fixture.ts";
import { FIXTURE_MODEL, until } from "../plane-fixture.ts";
import { ask, chatBody, post, type RawAnswer } from "../raw-client.ts";
import { chatAnswer, chunk, healthy, LAST_CHUNK, plain } from "../scripted-node.ts";
import { isLong, longForm, pause, startField } from "./field-fixture.ts";

const sha256 = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex");
const codeOf = (answer: RawAnswer): unknown => JSON.parse(answer.body.toString()).error.code;
const MIB = 2 ** 20;

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

function chunked(body: Buffer): Buffer {
  const parts: Buffer[] = [
    Buffer.from("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"),
  ];
  for (let at = 0; at < body.length; at += 60_000) parts.push(chunk(body.subarray(at, at + 60_000)));
  return Buffer.concat([...parts, Buffer.from(LAST_CHUNK)]);
}

describe("memory of bodies", () => {
  test(
    "E02: bodies in flight never take more than their budget; those above it are told, none is lost",
    longForm,
    async (t) => {
      const count = isLong ? 200 : 60;
      const budget = (isLong ? 100 : 30) * MIB;
      const { plane, caller, nodes } = await startField(
        t,
        [
          {
            script: (call) => void setTimeout(() => call.write(plain(200, chatAnswer("a"))), 300),
            maxConnections: 256,
          },
        ],
        { file: { limits: { body_bytes_total: budget } } },
      );
      const bytes = post(chatBody({ x: "y".repeat(MIB - 200) }));
      let mostKib = 0;
      const watch = setInterval(() => {
        mostKib = Math.max(mostKib, plane.table.cells[CELL.bodyKib] as number);
      }, 1);
      t.after(() => clearInterval(watch));
      const answers = await Promise.all(
        Array.from({ length: count }, async () => {
          const client = await caller();
          client.send(bytes);
          // many MB go through one thread: longer than `answer` waits
          while (!client.isClosed && client.answers().length === 0) await pause(50);
          return client.answer();
        }),
      );
      const served = answers.filter(({ status }) => status === 200).length;
      const told = answers.filter(
        (answer) => answer.status === 503 && codeOf(answer) === "body_budget_exhausted",
      ).length;
      assert.equal(served + told, count);
      assert.ok(served >= budget / MIB / 2, `${served} served`);
      assert.equal(nodes[0]?.calls.length, served);
      assert.ok(mostKib * 1024 <= budget, `${mostKib} KiB of ${budget / 1024}`);
      await until(() => plane.table.cells[CELL.bodyKib] === 0, "the release of all");
      assert.equal((await ask(plane.port, bytes)).status, 200, "there is room again");
    },
  );

  test("E02: bodies of 50 MB do not hold the thread while they come and go", longForm, async (t) => {
    const { plane } = await startField(t, [healthy("a")]);
    const bytes = post(chatBody({ messages: [{ role: "user", content: "word ".repeat(10_000_000) }] }));
    let mostMs = 0;
    let isDone = false;
    // processor time of this thread within one turn: what other processes take does not count
    let spentMs = threadMs();
    const turn = (): void => {
      const nowMs = threadMs();
      mostMs = Math.max(mostMs, nowMs - spentMs);
      spentMs = nowMs;
      if (!isDone) setImmediate(turn);
    };
    turn();
    for (let each = 0; each < (isLong ? 20 : 3); each++) assert.equal((await ask(plane.port, bytes)).status, 200);
    isDone = true;
    // the node and the caller of this test share the thread, and join what they get; bench:stall has the gateway's share
    assert.ok(mostMs < 250, `${mostMs} ms`);
  });
});

describe("the size of bodies", () => {
  for (const mib of [0.9, 1.1, 20]) {
    for (const [name, frame] of [
      ["with a length", (body: Buffer) => post(body)],
      ["chunked", chunked],
    ] as const) {
      test(`I01: ${mib} MiB pass by default with identical bytes, ${name}`, async (t) => {
        const { plane, nodes } = await startField(t, [healthy("a")]);
        const image = `data:image/png;base64,${"iVBORw0KGgo".repeat(Math.ceil((mib * MIB) / 11))}`;
        const body = Buffer.from(
          chatBody({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: image } }] }] }),
        );
        assert.equal((await ask(plane.port, frame(body))).status, 200);
        assert.equal(nodes[0]?.calls[0]?.sha256(), sha256(body));
      });
    }
  }
});

describe("codings of bodies", () => {
  const encoders = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync };
  for (const [coding, encode] of Object.entries(encoders)) {
    test(`I02: a body in ${coding}, with a length and chunked, is decoded and sent plain`, async (t) => {
      const { plane, nodes } = await startField(t, [healthy("a")]);
      const body = chatBody({ x: "é漢🙂".repeat(5000) });
      const packed = encode(Buffer.from(body));
      const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-encoding: ${coding.toUpperCase()}\r\ntransfer-encoding: chunked\r\n\r\n`;
      const requests = [
        post(packed, { "content-encoding": coding }),
        Buffer.concat([
          Buffer.from(head),
          ...Array.from(packed, (byte) => chunk(Buffer.of(byte))),
          Buffer.from(LAST_CHUNK),
        ]),
      ];
      for (const [index, bytes] of requests.entries()) {
        assert.equal((await ask(plane.port, bytes)).status, 200);
        const call = nodes[0]?.calls[index];
        assert.equal(call?.sha256(), sha256(body));
        assert.equal(call?.headers["content-encoding"], undefined);
      }
    });

    test(`I02: 200 MB of nothing in ${coding} are a 413, in flat memory`, async (t) => {
      const { plane, nodes } = await startField(t, [healthy("a")], { file: { limits: { body_bytes: 8 * MIB } } });
      const bomb = encode(Buffer.alloc(200_000_000, 0x20));
      const before = process.memoryUsage().rss;
      const answer = await ask(plane.port, post(bomb, { "content-encoding": coding }));
      assert.equal(answer.status, 413);
      assert.equal(codeOf(answer), "body_too_large");
      assert.ok(process.memoryUsage().rss - before < 60 * MIB, "memory stays flat");
      assert.equal(nodes[0]?.calls.length, 0);
    });
  }
});

describe("the model that is read", () => {
  const model = JSON.stringify(FIXTURE_MODEL);
  for (const [name, body] of [
    ["beyond 64 KiB", `{"x":"${"y".repeat(70_000)}","model":${model},"z":"${"y".repeat(70_000)}","model":"b"}`],
    ["beyond 64 KiB, escaped", `{"model":${model},"z":"${"y".repeat(70_000)}","m\\u006fd\\u0065l":"b"}`],
    ["behind a body of nested ones", `{"model":${model},"a":{"model":"c"},"model":"b"}`],
    ["of stream, escaped", `{"model":${model},"stream":false,"str\\u0065am":true}`],
    ["of policy", `{"model":${model},"policy":"p","policy":"q"}`],
  ] as const) {
    test(`I03: a second one ${name} is refused and reaches no node`, async (t) => {
      const { plane, nodes } = await startField(t, [healthy("a")]);
      const answer = await ask(plane.port, post(body));
      assert.equal(answer.status, 400);
      assert.equal(codeOf(answer), "duplicate_field");
      assert.equal(nodes[0]?.calls.length, 0);
    });
  }

  test("I03: nested, differently written and merely quoted ones are not the model, here and at the node", async (t) => {
    const { plane, nodes } = await startField(t, [{ script: healthy("a"), upstreamModel: "there" }]);
    const body = (name: string): string =>
      `{"Model":"x","MODEL":"y","a":{"model":"z"},"b":["model","w"],"c":"\\"model\\":\\"v\\"","mod\\u0065l":${name}}`;
    assert.equal((await ask(plane.port, post(body(model)))).status, 200);
    assert.equal(nodes[0]?.calls[0]?.body.toString(), body('"there"'));
  });

  test("I05: with another name on the node nothing but the name changes", async (t) => {
    const { plane, nodes } = await startField(t, [{ script: healthy("a"), upstreamModel: "there" }]);
    const body = (name: string): string =>
      ` {\t"seed" : 9007199254740993 ,\n"a":1e400,"b":-0,"c":1.0,"d":0.1000000000000000055511151231257827,"e":"\\/\\u00e9\\ud83d\\ude42", "model"  :  ${name} ,"f":[123456789012345678901234567890]}\r\n`;
    assert.equal((await ask(plane.port, post(body(model)))).status, 200);
    assert.equal(nodes[0]?.calls[0]?.body.toString(), body('"there"'));
  });

  test("I07: a body that is refused leaves its connection to the next request, which runs alone", async (t) => {
    const { nodes, caller } = await startField(t, [healthy("a")]);
    const client = await caller();
    const bad = ["", "[]", '"x"', "1", "null", '{"model":null}', '{"model":1}', "\ufeff{}", "{}x", "{", "\0", "tru"];
    for (const [index, body] of bad.entries()) {
      client.send(post(body));
      await until(() => client.answers().length === 2 * index + 1);
      assert.equal(client.answers()[2 * index]?.status, 400, JSON.stringify(body));
      client.send(post(chatBody()));
      await until(() => client.answers().length === 2 * index + 2);
      assert.equal(client.answers()[2 * index + 1]?.status, 200);
      assert.equal(nodes[0]?.calls.length, index + 1);
    }
  });
});

describe("names of models", () => {
  for (const name of [
    "m",
    "org/m",
    "a/b/c",
    "a/b/c/d:7b",
    "m@2024-01-01",
    "m with space",
    "模型/é 🙂",
    "a%2Fb",
    "..",
    "a?b#c",
  ]) {
    test(`I09: ${JSON.stringify(name)} is found in chat, in the list and by its path`, async (t) => {
      const node = await fakeNode(t, { model: name });
      const { gateway } = await startOn(t, `${PORTS}nodes:\n  - { id: a, url: "${node.url}", family: H100 }\n`);
      await untilAsked("the model is known", async () => {
        const list = (await (await fetch(`${gateway.dataUrl}/v1/models`)).json()) as { data: { id: string }[] };
        return list.data.some(({ id }) => id === name);
      });
      const response = await fetch(`${gateway.dataUrl}/v1/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ model: name, messages: [{ role: "user", content: "hi" }], max_tokens: 2 }),
      });
      assert.equal(response.status, 200, await response.text());
      const path = encodeURIComponent(name);
      const port = Number(new URL(gateway.dataUrl).port);
      const asked = [path, name.split("/").map(encodeURIComponent).join("/")];
      for (const each of asked) {
        const answer = await ask(port, `GET /v1/models/${each} HTTP/1.1\r\nhost: x\r\n\r\n`);
        assert.equal(answer.status, 200, each);
        assert.equal(JSON.parse(answer.body.toString()).id, name);
      }
    });
  }
});
