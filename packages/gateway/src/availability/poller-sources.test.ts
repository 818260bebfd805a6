import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { createFleetTable, takeNodeRow } from "@zml/engine";
import type { CustomConfig } from "@zml/protocol";
import { startFakeNode } from "@zml/simulator";
import type { NodeFacts } from "./node-facts.ts";
import type { NodeSpec } from "./node-spec.ts";
import { Poller } from "./poller.ts";
import { type ScriptedNode, startScriptedNode } from "./testing/scripted-node.ts";

const VLLM: ScriptedNode["paths"] = {
  "/health": {},
  "/metrics": { body: 'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_waiting{engine="0"} 1\n' },
  "/v1/models": { body: { data: [{ id: "m", max_model_len: 4096, owned_by: "vllm" }] } },
};

async function scripted(t: TestContext, paths: ScriptedNode["paths"]): Promise<ScriptedNode> {
  const node = await startScriptedNode(paths);
  t.after(() => node.close());
  return node;
}

/** A server that answers everything with these bytes, or as it likes. */
async function rawNode(t: TestContext, answer: (socket: Socket, path: string) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes) => answer(socket, bytes.toString("latin1").split(" ")[1] ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return `http://127.0.0.1:${address.port}`;
}

/** Polls one node, and waits until its facts are as wanted. */
async function polled(t: TestContext, spec: Partial<NodeSpec> & { url: string }) {
  const table = createFleetTable({ nodes: 4, workers: 1 });
  const turned: (() => void)[] = [];
  const turn = () => {
    for (const wake of turned.splice(0)) wake();
  };
  const poller = new Poller({
    table,
    clock: { nowMs: () => performance.now() },
    onReading: turn,
    onDown: turn,
  });
  t.after(() => poller.stop());
  takeNodeRow(table, 0, { family: 0, identity: 0, maxInFlight: 256, cooldownMs: 30_000, priceUsdPerHour: 1 });
  const health = { pollIntervalMs: 100, timeoutMs: 5_000, unhealthyAfter: 2, healthyAfter: 1 };
  poller.addNode({
    row: 0,
    id: "n",
    engine: "vllm",
    apiKey: null,
    healthPath: null,
    health,
    maxInFlight: null,
    placements: [],
    ...spec,
  });
  const until = async (isSo: (facts: NodeFacts) => boolean): Promise<NodeFacts> => {
    for (;;) {
      const facts = poller.factsOf(0);
      if (facts !== null && isSo(facts)) return facts;
      await new Promise<void>((resolve) => turned.push(resolve));
    }
  };
  return { table, until };
}

const answered = (facts: NodeFacts) => facts.reading !== null;

describe("metrics on another address", () => {
  it("are read there, and the node's key goes to its own host only", async (t) => {
    const metrics = VLLM["/metrics"] ?? {};
    const node = await scripted(t, { ...VLLM, "/metrics": { status: 404 } });
    const beside = await scripted(t, { "/own": metrics });
    const elsewhere = await scripted(t, { "/other": metrics });
    const other = elsewhere.url.replace("127.0.0.1", "localhost");
    for (const [metricsUrl, page] of [
      [`${beside.url}/own`, beside],
      [`${other}/other`, elsewhere],
    ] as const) {
      const { table, until } = await polled(t, { url: node.url, metricsUrl, apiKey: "secret" });
      await until(answered);
      assert.deepEqual([table.running[0], table.waiting[0]], [3, 1]);
      const key = page === beside ? "Bearer secret" : undefined;
      assert.ok(page.requests.every(({ headers }) => headers.authorization === key));
    }
    assert.ok(
      node.requests.every(({ headers, url }) => headers.authorization === "Bearer secret" && url !== "/metrics"),
    );
  });

  it("serve a Triton whose front end shows none", async (t) => {
    const hardware = "H100-SXM-80GB/llama-3-8b/bf16/1";
    const start = (hasMetrics: boolean) => startFakeNode({ engine: "triton", hardware, model: "m", hasMetrics });
    const [node, shown] = await Promise.all([start(false), start(true)]);
    t.after(() => Promise.all([node.stop(), shown.stop()]));
    const { table, until } = await polled(t, { url: node.url, engine: "triton", metricsUrl: `${shown.url}/metrics` });
    await until(answered);
    assert.deepEqual([table.running[0], table.concurrencyLimit[0], table.freeMemoryGib[0]], [0, 256, 4]);
  });
});

describe("a node with a mapping", () => {
  const custom: CustomConfig = {
    healthPath: "/up",
    isStated: true,
    modelsPath: "/v1/models",
    metricsPath: "/stats",
    metrics: {
      running: { name: "jobs", labels: { state: "running" } },
      waiting: { name: "jobs", labels: { state: "queued" } },
      free_memory_mib: { name: "free_mib", labels: {} },
    },
  };
  const spec = { engine: "custom", custom, healthPath: "/up", isHealthPathStated: true } as const;

  it("is read by it, and is down where its health page says so", async (t) => {
    const stats = 'jobs{state="running"} 5\njobs{state="queued"} 2\nfree_mib{gpu="0"} 1024\nfree_mib{gpu="1"} 512\n';
    const node = await scripted(t, { "/up": {}, "/stats": { body: stats }, "/v1/models": VLLM["/v1/models"] ?? {} });
    const { table, until } = await polled(t, { ...spec, url: node.url });
    await until(answered);
    assert.deepEqual([table.running[0], table.waiting[0], table.freeMemoryGib[0]], [5, 2, 1.5]);
    node.paths["/up"] = { status: 404 };
    assert.equal((await until(({ downCause }) => downCause !== null)).downCause, "not_ready");
  });
});

describe("a GPU exporter beside a node", () => {
  const exporterAt = (url: string) => ({ url, match: { hostname: ["n-17"] }, metric: null });
  const PAGE = 'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="a",Hostname="n-17"} 2048\n';

  it("tells free memory, without the node's key", async (t) => {
    const node = await scripted(t, VLLM);
    const exporter = await scripted(t, { "/metrics": { body: PAGE } });
    const gpuExporter = exporterAt(`${exporter.url}/metrics`);
    const { table, until } = await polled(t, { url: node.url, gpuExporter, apiKey: "secret" });
    await until(() => table.freeMemoryGib[0] === 2);
    assert.equal(exporter.requests.length, 1);
    assert.equal(exporter.requests[0]?.headers.authorization, undefined);
  });

  for (const [claim, script, fault] of [
    ["hangs", "hang", null],
    ["fails", { status: 500 }, "bad_status"],
    ["has no GPU of it", { body: PAGE.replace("n-17", "n-18") }, "no_match"],
    ["marks its GPU as unknown", { body: PAGE.replace("2048", "9223372036854775794") }, "unknown_value"],
    ["answers without end", { body: "x".repeat(5 * 2 ** 20) }, "too_large"],
  ] as const) {
    it(`leaves the node and its poll alone when it ${claim}`, async (t) => {
      const node = await scripted(t, VLLM);
      const exporter = await scripted(t, { "/metrics": script });
      const gpuExporter = exporterAt(`${exporter.url}/metrics`);
      const { table, until } = await polled(t, { url: node.url, gpuExporter });
      const { downCause } = await until((facts) => answered(facts) && facts.gpuMemoryFault === fault);
      assert.equal(downCause, null);
      // polls go on at their pace
      const before = table.goodPolls[0] ?? 0;
      await until(() => (table.goodPolls[0] ?? 0) >= before + 3);
      assert.deepEqual([table.running[0], table.freeMemoryGib[0]], [3, Number.NaN]);
    });
  }

  it("that refuses connections is told as that", async (t) => {
    const node = await scripted(t, VLLM);
    const { until } = await polled(t, { url: node.url, gpuExporter: exporterAt("http://127.0.0.1:1/metrics") });
    await until(({ gpuMemoryFault }) => gpuMemoryFault === "refused");
  });
});

describe("a node that answers badly", () => {
  const ok = (body: string, ...fields: string[]) =>
    `HTTP/1.1 200 OK\r\n${fields.map((field) => `${field}\r\n`).join("")}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const MOVED = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/\r\ncontent-length: 0\r\n\r\n";
  const endless = (socket: Socket) => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    const write = () => {
      while (!socket.destroyed && socket.write("#".repeat(65_536)));
    };
    socket.on("drain", write);
    write();
  };

  it("on its health page is out, with the cause", async (t) => {
    for (const [cause, answer] of [
      ["redirect", (socket: Socket) => socket.write(MOVED)],
      ["encoded", (socket: Socket) => socket.write(ok("x", "content-encoding: gzip"))],
      ["too_large", endless],
      ["reset", (socket: Socket) => socket.end("\u0000\u0001binary\r\n\r\n")],
    ] as const) {
      const url = await rawNode(t, (socket, path) => {
        if (path === "/health") answer(socket);
        else socket.end("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
      });
      const { until } = await polled(t, { url });
      assert.equal((await until(({ downCause }) => downCause !== null)).downCause, cause);
    }
  });

  it("on its metrics page stays in, and its load is unknown, with the reason", async (t) => {
    for (const [told, answer] of [
      ["redirect", (socket: Socket) => socket.write(MOVED)],
      ["encoded", (socket: Socket) => socket.write(ok("x", "content-encoding: br"))],
      ["too_large", endless],
      ["ok", (socket: Socket) => socket.write(ok("\u0000\u0001\u0002 noise { } 5\nvllm:num_requests_running{engine="))],
      ["ok", (socket: Socket) => socket.write(ok("vllm:num_requests_running 1e308\nvllm:num_requests_waiting NaN\n"))],
      ["ok", (socket: Socket) => socket.write(ok("vllm:num_requests_running -7\nvllm:num_requests_waiting +Inf\n"))],
    ] as const) {
      const url = await rawNode(t, (socket, path) => {
        if (path === "/metrics") answer(socket);
        else socket.write(ok(path === "/health" ? "" : "{}"));
      });
      const { table, until } = await polled(t, { url });
      const { metricsAnswer, downCause } = await until(answered);
      assert.deepEqual([metricsAnswer, downCause], [told, null]);
      assert.deepEqual([table.running[0], table.waiting[0], table.foreign[0]].map(Number.isNaN), [true, true, true]);
    }
  });
});
