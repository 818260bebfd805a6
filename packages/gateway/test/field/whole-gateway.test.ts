/** K and L: health, reload, shutdown and storage, through a whole gateway with its threads. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import type { Gateway } from "../../src/control/gateway-interface.ts";
import { chat, fakeNode, folder, PORTS, startOn, until } from "../control-fixture.ts";
import { RawClient } from "../raw-client.ts";
import { isLong, longForm, pause } from "./field-fixture.ts";
import { serve } from "./served-gateway.ts";

const stateOf = (gateway: Gateway, id: string): string =>
  gateway.stats().fleet.nodes.find((node) => node.id === id)?.state ?? "gone";

/** Accepts, reads and never answers. */
async function blackHole(t: TestContext): Promise<string> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket
      .on("error", () => {})
      .on("close", () => sockets.delete(socket))
      .resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}

/** Streams that run until told to end; each says what it got. */
async function streams(gateway: Gateway, count: number): Promise<{ texts(): Promise<string[]> }> {
  const answers = await Promise.all(
    Array.from({ length: count }, () => chat(gateway, { stream: true, max_tokens: 4000 })),
  );
  const texts = Promise.all(answers.map((answer) => answer.text()));
  texts.catch(() => {});
  return { texts: () => texts };
}

describe("health", () => {
  test("K01: a node whose requests hang behind good polls is out after one, and every later request is served", async (t) => {
    const [a, b] = [await fakeNode(t), await fakeNode(t)];
    const { gateway } = await startOn(
      t,
      `${PORTS}health: { poll_interval_ms: 100 }\nnodes:
  - { id: a, url: "${a.url}", family: FAST, timeouts: { first_token_ms: 300 } }
  - { id: b, url: "${b.url}", family: SLOW }
policies:
  - { name: p, accelerator_preference: [{ family: FAST, priority: 1 }, { family: SLOW, priority: 2 }], cost_priority: latency }
models: [{ name: m, policy: p }]
`,
    );
    await until("both are healthy", () => stateOf(gateway, "a") === "healthy" && stateOf(gateway, "b") === "healthy");
    a.faults.isGreenButDead = true;
    for (let each = 0; each < 10; each++) {
      const response = await chat(gateway);
      assert.equal(response.status, 200);
      const routing = response.headers.get("x-zml-routing") ?? "";
      assert.match(routing, /node="b"/);
      assert.match(routing, each === 0 ? /attempt=2/ : /attempt=1/, "the first one paid the time-out, and no other");
      await response.text();
    }
    assert.equal(stateOf(gateway, "a"), "cooling_down");
    await pause(400);
    assert.equal(stateOf(gateway, "a"), "cooling_down", "good polls alone do not bring it back");
  });

  test(
    "K03: with 200 nodes of which 50 hang the others stay fresh, and the gateway's own health answers at once",
    longForm,
    async (t) => {
      const [good, hole] = [await fakeNode(t), await blackHole(t)];
      const intervalMs = 3000;
      const nodes = Array.from({ length: 200 }, (_, index) => {
        const url = index % 4 === 0 ? hole : good.url;
        return `  - { id: n${index}, url: "${url}/", family: F, engine: vllm, models: [m] }`;
      });
      const { gateway } = await startOn(
        t,
        `${PORTS}health: { poll_interval_ms: ${intervalMs}, timeout_ms: 2500 }\nnodes:\n${nodes.join("\n")}\n`,
      );
      const isGood = (id: string): boolean => Number(id.slice(1)) % 4 !== 0;
      await until(
        "the good ones are in",
        () => gateway.stats().fleet.nodes.filter(({ state }) => state === "healthy").length >= 150,
      );
      const endMs = performance.now() + (isLong ? 60_000 : 7000);
      const tookMs: number[] = [];
      let oldestMs = 0;
      while (performance.now() < endMs) {
        for (const base of [gateway.dataUrl, gateway.adminUrl]) {
          const askedAtMs = performance.now();
          assert.equal((await fetch(`${base}/healthz`)).status, 200);
          tookMs.push(performance.now() - askedAtMs);
        }
        for (const node of gateway.stats().fleet.nodes) {
          if (isGood(node.id)) oldestMs = Math.max(oldestMs, node.sources.health_page ?? Number.POSITIVE_INFINITY);
        }
        await pause(50);
      }
      assert.ok(oldestMs < 2 * intervalMs, `a good node was not seen for ${oldestMs} ms`);
      // other tests share the cores, so that the median counts; a route that waits for nodes takes 2,500 ms each time
      const medianMs = tookMs.sort((one, other) => one - other)[tookMs.length >> 1] ?? Number.POSITIVE_INFINITY;
      assert.ok(medianMs < 200, `${medianMs} ms`);
    },
  );

  test("K05: a node that goes and comes back with other models and another engine fails nobody under load", async (t) => {
    const [a, b] = [await fakeNode(t, { aliases: ["n"] }), await fakeNode(t)];
    const other = await fakeNode(t, { engine: "tgi", model: "o" });
    const rest = `nodes:\n  - { id: b, url: "${b.url}", family: F }\n`;
    // the nodes, their polls and the callers share this thread: on a busy machine polls are late, and two of them in a row
    // would take out the only node that is there
    const health = "health: { poll_interval_ms: 500, timeout_ms: 450, unhealthy_after: 100 }\n";
    const withA = (url: string): string => `${PORTS}${health}${rest}  - { id: a, url: "${url}", family: F }\n`;
    const { gateway, write } = await startOn(t, withA(a.url));
    const models = async (): Promise<string[]> => {
      const list = (await (await fetch(`${gateway.dataUrl}/v1/models`)).json()) as { data: { id: string }[] };
      return list.data.map(({ id }) => id).sort();
    };
    await until("both are known", async () => (await models()).join() === "m,n");
    const statuses = new Map<number, number>();
    let isRunning = true;
    const load = Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        while (isRunning) {
          const response = await chat(gateway, { stream: index % 2 === 0 });
          await response.text();
          statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        }
      }),
    );
    try {
      for (let round = 0; round < 3; round++) {
        write(`${PORTS}${health}${rest}`);
        await gateway.reload();
        await until("its model is gone", async () => (await models()).join() === "m");
        write(withA(other.url));
        await gateway.reload();
        await until("its new model is known", async () => (await models()).join() === "m,o");
        write(withA(a.url));
        await gateway.reload();
        await until("the first ones are back", async () => (await models()).join() === "m,n");
      }
    } finally {
      isRunning = false;
      await load;
    }
    assert.deepEqual([...statuses.keys()], [200], JSON.stringify([...statuses]));
  });
});

describe("shutdown and reload", () => {
  test(
    "L01: 20 streams end whole within the grace of a signal, nobody new is let in, the exit is clean",
    longForm,
    async (t) => {
      const node = await fakeNode(t, { speedUp: isLong ? 1 : 20, outputTokens: isLong ? 2000 : 1500 });
      const {
        data,
        process: served,
        port,
      } = await serve(t, `timeouts: { drain_ms: 60000 }\nnodes: [{ id: a, url: "${node.url}", family: F }]\n`);
      const answers = await Promise.all(Array.from({ length: 20 }, () => streamFrom(data)));
      const idle = await RawClient.open(port);
      idle.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
      await idle.answer();
      const exit = once(served, "exit");
      served.kill("SIGTERM");
      await idle.closed();
      await until("nobody is let in", async () => !(await canConnect(port)));
      for (const answer of answers) assert.match(await answer.text(), /\[DONE\]\n\n$/);
      assert.deepEqual(await exit, [0, null]);
    },
  );

  test("L01: streams that outlast the grace end with an error that says why, and the process ends", async (t) => {
    const node = await fakeNode(t, { speedUp: 1, outputTokens: 4000 });
    const { data, process: served } = await serve(
      t,
      `timeouts: { drain_ms: 300 }\nnodes: [{ id: a, url: "${node.url}", family: F }]\n`,
    );
    const answers = await Promise.all(Array.from({ length: 5 }, () => streamFrom(data)));
    const exit = once(served, "exit");
    served.kill("SIGTERM");
    for (const answer of answers) assert.match(await answer.text(), /"code":"shutting_down"/);
    assert.deepEqual(await exit, [0, null]);
    await until("the node saw the close", () => node.runningCount === 0);
  });

  test("L02: good, cut, invalid, gone and good files in a row, under 50 streams: none drops, the last good one counts", async (t) => {
    const node = await fakeNode(t, { speedUp: 10, outputTokens: 1200 });
    const good = (family: string): string => `${PORTS}nodes:\n  - { id: a, url: "${node.url}", family: ${family} }\n`;
    const { gateway, path, log, write } = await startOn(t, good("F"), { isWatched: true });
    const running = await streams(gateway, 50);
    const versionOf = (): number => gateway.stats().fleet.version;
    const familyOf = (): string | undefined => gateway.stats().fleet.nodes[0]?.family;
    for (const bad of [
      good("G").slice(0, -20),
      "nodes: 7\n",
      "\0",
      `${good("G")}policies: [{ name: p, nonsense: 1 }]\n`,
    ]) {
      const before = [versionOf(), log.lines.length] as const;
      write(bad);
      await until("the refusal is logged", () =>
        log.lines.slice(before[1]).some(({ level }) => level === "error" || level === "warn"),
      );
      assert.equal(versionOf(), before[0]);
      assert.equal(familyOf(), "F");
    }
    renameSync(path, `${path}.away`);
    await pause(100);
    writeFileSync(path, good("G"));
    await until("the good one counts", () => familyOf() === "G");
    for (const text of await running.texts()) assert.match(text, /\[DONE\]\n\n$/);
    assert.equal((await chat(gateway)).status, 200);
  });
});

async function streamFrom(gateway: string): Promise<Response> {
  const response = await fetch(`http://${gateway}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], stream: true, max_tokens: 4000 }),
  });
  assert.equal(response.status, 200);
  return response;
}

async function canConnect(port: number): Promise<boolean> {
  try {
    const client = await RawClient.open(port);
    client.socket.destroy();
    return true;
  } catch {
    return false;
  }
}

describe("storage", () => {
  test(
    "L03: while another process locks the store, streams keep their pace and nothing is lost of them",
    longForm,
    async (t) => {
      const storeFolder = folder(t);
      const node = await fakeNode(t, { speedUp: 5, outputTokens: isLong ? 4000 : 1500 });
      const { gateway } = await startOn(t, `${PORTS}nodes: [{ id: a, url: "${node.url}", family: F }]\n`, {
        storeFolder,
      });
      const lock = spawn(process.execPath, [
        "-e",
        `const { DatabaseSync } = require("node:sqlite");
       const database = new DatabaseSync(${JSON.stringify(join(storeFolder, "zml.sqlite"))});
       database.exec("BEGIN EXCLUSIVE");
       console.log("locked");
       process.stdin.on("end", () => process.exit()).resume();`,
      ]);
      t.after(() => lock.kill("SIGKILL"));
      await once(lock.stdout, "data");
      const endMs = performance.now() + (isLong ? 8000 : 2500);
      let longestMs = 0;
      let answers = 0;
      while (performance.now() < endMs) {
        const response = await chat(gateway, { stream: true, max_tokens: 400 });
        let lastMs = performance.now();
        for await (const _ of response.body ?? []) {
          longestMs = Math.max(longestMs, performance.now() - lastMs);
          lastMs = performance.now();
        }
        answers += 1;
      }
      assert.ok(answers > 1);
      // the store's own wait for a lock is two seconds
      assert.ok(longestMs < 1000, `${longestMs} ms between two reads`);
      lock.kill("SIGKILL");
      const { isClean } = await gateway.stop();
      assert.equal(isClean, true);
    },
  );
});
