import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { describe, it, type TestContext } from "node:test";
import { createFleetTable, type FleetTable, takeNodeRow, takePlacementRow } from "@zml/engine";
import { startFakeNode } from "@zml/simulator";
import type { NodeSpec } from "./node-spec.ts";
import { Poller } from "./poller.ts";
import type { PollerOptions } from "./poller-options.ts";
import { startBlackHole, startScriptedNode } from "./testing/scripted-node.ts";

const HARDWARE = "H100-SXM-80GB/llama-3-8b/bf16/1";
const VLLM_MODELS = { body: { data: [{ id: "m", max_model_len: 4096, owned_by: "vllm" }] } };

function vllmMetrics(numbers: { running?: number; waiting?: number; generated?: number }) {
  const { running = 0, waiting = 0, generated = 0 } = numbers;
  return {
    body:
      `vllm:num_requests_running{engine="0"} ${running}\nvllm:num_requests_waiting{engine="0"} ${waiting}\n` +
      `vllm:generation_tokens_total{engine="0"} ${generated}\n`,
  };
}

const healthyVllm = () => ({ "/health": {}, "/metrics": vllmMetrics({}), "/v1/models": VLLM_MODELS });

function specOf(row: number, url: string, overrides: Partial<NodeSpec> = {}): NodeSpec {
  return {
    row,
    id: `node-${row}`,
    url,
    engine: "vllm",
    apiKey: null,
    healthPath: null,
    // far above what a loaded machine needs for a local answer
    health: { pollIntervalMs: 100, timeoutMs: 5_000, unhealthyAfter: 2, healthyAfter: 1 },
    maxInFlight: null,
    placements: [],
    ...overrides,
  };
}

/** For nodes that are silent on purpose. */
const IMPATIENT = { pollIntervalMs: 100, timeoutMs: 90, unhealthyAfter: 2, healthyAfter: 1 };

/** A poller whose events can be waited for and whose timers are counted. */
class Bench {
  readonly table: FleetTable = createFleetTable({ nodes: 64, workers: 1 });
  readonly events: string[] = [];
  readonly timers = new Set<NodeJS.Timeout>();
  readonly poller: Poller;
  readonly #waiting = new Set<() => void>();

  constructor(t: TestContext, options: Partial<PollerOptions> = {}) {
    const log = (event: string) => {
      this.events.push(event);
      for (const wake of this.#waiting) wake();
    };
    this.poller = new Poller({
      table: this.table,
      clock: { nowMs: () => performance.now(), after: (delayMs, callback) => this.#after(delayMs, callback) },
      onEngine: (row, engine) => log(`engine ${row} ${engine}`),
      onModels: (row, models) => log(`models ${row} ${models.map((model) => `${model.id}:${model.contextTokens}`)}`),
      onReading: (row) => log(`reading ${row}`),
      onDown: (row, cause) => log(`down ${row} ${cause}`),
      onUp: (row) => log(`up ${row}`),
      ...options,
    });
    t.after(async () => {
      await this.poller.stop();
      assert.equal(this.timers.size, 0, "no timer is left");
    });
  }

  #after(delayMs: number, callback: () => void): () => void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      callback();
    }, delayMs);
    this.timers.add(timer);
    return () => {
      clearTimeout(timer);
      this.timers.delete(timer);
    };
  }

  add(spec: NodeSpec): void {
    takeNodeRow(this.table, spec.row, {
      family: 0,
      identity: spec.row,
      maxInFlight: 256,
      cooldownMs: 30_000,
      priceUsdPerHour: 1,
    });
    for (const { placement } of spec.placements) takePlacementRow(this.table, placement);
    this.poller.addNode(spec);
  }

  /** Waits for the next event after `from` that is `event`. Returns the index behind it. */
  async until(event: string, from = 0): Promise<number> {
    for (let at = from; ; ) {
      const found = this.events.indexOf(event, at);
      if (found !== -1) return found + 1;
      at = this.events.length;
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          resolve();
        };
        this.#waiting.add(wake);
      });
    }
  }
}

const LIMIT = { timeout: 60_000 };

describe("the poller", LIMIT, () => {
  it("publishes load, limits and age of a node", async (t) => {
    const node = await startScriptedNode({ ...healthyVllm(), "/metrics": vllmMetrics({ running: 5, waiting: 3 }) });
    t.after(() => node.close());
    const bench = new Bench(t);
    const before = performance.now();
    bench.add(specOf(3, node.url, { placements: [{ model: 0, name: "a", upstreamId: "m", placement: 9 }] }));
    await bench.poller.firstRound(5_000);
    const { table } = bench;
    assert.equal(table.running[3], 5);
    assert.equal(table.waiting[3], 3);
    assert.equal(table.foreign[3], 8);
    assert.equal(table.maxInFlight[3], 256);
    assert.equal(table.contextTokens[9], 4096);
    assert.ok((table.goodPolls[3] as number) >= 1);
    assert.ok((table.polledAtMs[3] as number) >= before);
    assert.ok((table.healthScore[3] as number) > 0);
  });

  it("takes our own requests out of the load: the mean of those at sending and at receipt", async (t) => {
    const bench = new Bench(t);
    const { table } = bench;
    const node = await startScriptedNode({
      ...healthyVllm(),
      "/metrics": () => {
        table.total.inFlight[0] = 4;
        return vllmMetrics({ running: 6, waiting: 3 });
      },
    });
    t.after(() => node.close());
    table.elsewhere[0] = 0;
    takeNodeRow(table, 0, { family: 0, identity: 0, maxInFlight: 256, cooldownMs: 1, priceUsdPerHour: 1 });
    table.total.inFlight[0] = 2;
    bench.poller.addNode(
      specOf(0, node.url, { health: { pollIntervalMs: 60_000, timeoutMs: 4_000, unhealthyAfter: 2, healthyAfter: 1 } }),
    );
    await bench.poller.firstRound(5_000);
    assert.equal(table.foreign[0], 9 - 3);
    table.total.inFlight[0] = 0;
  });

  it("K03: keeps every living row fresh while a quarter of the fleet is silent", async (t) => {
    const hole = await startBlackHole();
    t.after(() => hole.close());
    const bench = new Bench(t);
    const health = { pollIntervalMs: 200, timeoutMs: 5_000, unhealthyAfter: 2, healthyAfter: 1 };
    for (let row = 0; row < 40; row++) {
      if (row % 4 === 3) {
        bench.add(specOf(row, `${hole.url}/${row}`, { health: { ...health, timeoutMs: 180 } }));
        continue;
      }
      const node = await startScriptedNode(healthyVllm());
      t.after(() => node.close());
      bench.add(specOf(row, node.url, { health }));
    }
    await bench.poller.firstRound(2_000);
    let oldestMs = 0;
    const watch = setInterval(() => {
      for (let row = 0; row < 40; row++) {
        if (row % 4 !== 3) oldestMs = Math.max(oldestMs, performance.now() - (bench.table.polledAtMs[row] as number));
      }
    }, 10);
    t.after(() => clearInterval(watch));
    let at = bench.events.length;
    for (let round = 0; round < 6; round++) at = await bench.until("reading 0", at);
    assert.ok(oldestMs < 200 + 500, `the oldest row was ${oldestMs} ms old`);
    for (let row = 0; row < 40; row++) assert.equal(bench.table.isUnhealthy[row], row % 4 === 3 ? 1 : 0);
  });

  it("finds engines, models and limits by itself", async (t) => {
    const vllm = await startFakeNode({ engine: "vllm", hardware: HARDWARE, model: "v", aliases: ["w"] });
    const llamacpp = await startFakeNode({ engine: "llamacpp", hardware: HARDWARE, model: "l", maxModelLen: 2048 });
    const tgi = await startFakeNode({ engine: "tgi", hardware: HARDWARE, model: "t" });
    const other = await startScriptedNode({ "/health": {}, "/v1/models": { body: { data: [{ id: "o" }] } } });
    t.after(() => Promise.all([vllm.stop(), llamacpp.stop(), tgi.stop(), other.close()]));
    const bench = new Bench(t);
    const urls = [vllm.url, `${llamacpp.url}/v1`, `${tgi.url}/`, `${other.url}/v1/`];
    for (const [row, url] of urls.entries()) bench.add(specOf(row, url, { engine: null }));
    await bench.poller.firstRound(5_000);
    for (const event of ["engine 0 vllm", "engine 1 llamacpp", "engine 2 tgi", "engine 3 custom"])
      await bench.until(event);
    for (const event of ["models 0 v:8192,w:8192", "models 1 l:2048", "models 2 t:8192", "models 3 o:NaN"]) {
      await bench.until(event);
    }
    assert.equal(bench.table.concurrencyLimit[1], 4);
    assert.equal(bench.table.maxInFlight[1], 5);
    assert.equal(bench.table.maxInFlight[2], 128);
    assert.equal(bench.table.maxInFlight[3], 256);
  });

  it("asks an engine that it found out for its version in the next round", async (t) => {
    const node = await startScriptedNode({ ...healthyVllm(), "/version": { body: { version: "0.32.0" } } });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { engine: null }));
    const found = await bench.until("engine 0 vllm");
    const first = await bench.until("reading 0", found);
    await bench.until("reading 0", first);
    assert.equal(bench.poller.factsOf(0)?.reading?.version, "0.32.0");
  });

  it("waits for a loading server before it says what it is", async (t) => {
    const loading = { status: 503, body: { error: { message: "Loading model" } } };
    const node = await startScriptedNode({ "/health": loading, "/props": loading, "/metrics": loading });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { engine: null }));
    await bench.until("down 0 not_ready");
    assert.equal(
      bench.events.some((event) => event.startsWith("engine")),
      false,
    );
    node.paths["/health"] = {};
    node.paths["/props"] = { body: { total_slots: 2, default_generation_settings: { n_ctx: 512 } } };
    await bench.until("engine 0 llamacpp");
    await bench.until("up 0");
    assert.equal(bench.table.isUnhealthy[0], 0);
  });

  it("looks again at what a node is after it came back", async (t) => {
    const first = await startScriptedNode(healthyVllm());
    const bench = new Bench(t);
    bench.add(specOf(0, first.url, { engine: null }));
    await bench.until("engine 0 vllm");
    await first.close();
    await bench.until("down 0 refused");
    const second = await startScriptedNode(
      { "/health": {}, "/metrics": { body: "llamacpp:requests_processing 1\n" }, "/v1/models": VLLM_MODELS },
      first.port,
    );
    t.after(() => second.close());
    await bench.until("engine 0 llamacpp");
    await bench.until("up 0");
    assert.equal(bench.table.running[0], 1);
  });

  it("takes a node out after two failed polls and back after one good, and asks on in between", async (t) => {
    const node = await startScriptedNode(healthyVllm());
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url));
    await bench.until("reading 0");
    const asked = node.requests.filter((request) => request.url === "/health").length;
    node.paths["/health"] = { status: 503 };
    await bench.until("down 0 not_ready");
    assert.equal(bench.table.isUnhealthy[0], 1);
    assert.ok(node.requests.filter((request) => request.url === "/health").length - asked >= 2);
    node.paths["/health"] = {};
    await bench.until("up 0");
    assert.equal(bench.table.isUnhealthy[0], 0);
  });

  it("confirms a refused connection at once, and says so when a silent node begins to refuse", async (t) => {
    const hole = await startBlackHole();
    const bench = new Bench(t);
    bench.add(specOf(0, hole.url, { health: IMPATIENT }));
    await bench.until("down 0 timeout");
    await hole.close();
    await bench.until("down 0 refused");
    const slow = { pollIntervalMs: 60_000, timeoutMs: 1_000, unhealthyAfter: 2, healthyAfter: 1 };
    bench.add(specOf(1, hole.url, { health: slow }));
    await bench.until("down 1 refused");
  });

  it("holds a node whose polls are late and whose answers come through for busy, not dead", async (t) => {
    let polls = 0;
    const asked = Promise.withResolvers<void>();
    const health = () => {
      polls += 1;
      if (polls === 5) asked.resolve();
      return "hang" as const;
    };
    const node = await startScriptedNode({ "/health": health, "/metrics": "hang" });
    t.after(() => node.close());
    let isPassing = true;
    const bench = new Bench(t, { lastTrafficAtMs: () => (isPassing ? performance.now() : Number.NaN) });
    bench.add(specOf(0, node.url, { health: IMPATIENT }));
    await asked.promise;
    assert.equal(bench.table.isUnhealthy[0], 0);
    isPassing = false;
    await bench.until("down 0 timeout");
  });

  it("does not excuse refused polls by traffic: what still comes through was accepted before", async (t) => {
    const hole = await startBlackHole();
    await hole.close();
    const bench = new Bench(t, { lastTrafficAtMs: () => performance.now() });
    bench.add(specOf(0, hole.url, { health: IMPATIENT }));
    await bench.until("down 0 refused");
  });

  it("keeps the last load of a node whose metrics are late, and forgets it when they stay away", async (t) => {
    const node = await startScriptedNode({ ...healthyVllm(), "/metrics": vllmMetrics({ running: 7 }) });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { health: { ...IMPATIENT, timeoutMs: 250 } }));
    await bench.until("reading 0");
    node.paths["/metrics"] = "hang";
    const at = await bench.until("reading 0", bench.events.length);
    assert.equal(bench.table.running[0], 7);
    let next = at;
    for (let round = 0; round < 4; round++) next = await bench.until("reading 0", next);
    assert.equal(bench.table.running[0], Number.NaN);
    assert.equal(bench.table.foreign[0], Number.NaN);
    assert.equal(bench.table.isUnhealthy[0], 0);
  });

  it("reads no more than 4 MiB of metrics and goes on without them", async (t) => {
    const huge = { body: `vllm:num_requests_running 1\n${"# filler\n".repeat(500_000)}` };
    const node = await startScriptedNode({ ...healthyVllm(), "/metrics": huge });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(
      specOf(0, node.url, { health: { pollIntervalMs: 2_000, timeoutMs: 1_500, unhealthyAfter: 2, healthyAfter: 1 } }),
    );
    await bench.until("reading 0");
    assert.equal(bench.table.running[0], Number.NaN);
    assert.equal(bench.table.isUnhealthy[0], 0);
  });

  it("never reuses a socket, and asks once more when one breaks", async (t) => {
    const ports = new Set<number | undefined>();
    let broken = 0;
    const node = await startScriptedNode({
      ...healthyVllm(),
      "/health": (request) => {
        assert.equal(ports.has(request.socket.remotePort), false, "a fresh socket");
        ports.add(request.socket.remotePort);
        if (broken < 3 && ports.size % 2 === 1) {
          broken += 1;
          request.socket.destroy();
          return "hang";
        }
        return {};
      },
    });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(
      specOf(0, node.url, { health: { pollIntervalMs: 100, timeoutMs: 5_000, unhealthyAfter: 1, healthyAfter: 1 } }),
    );
    let at = 0;
    for (let round = 0; round < 4; round++) at = await bench.until("reading 0", at);
    assert.equal(broken, 3);
    assert.equal(
      bench.events.some((event) => event.startsWith("down")),
      false,
    );
  });

  it("takes a refusal at a stated health path for no life, and at an assumed one for some", async (t) => {
    const node = await startScriptedNode({ "/v1/models": { body: { data: [{ id: "o" }] } } });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(
      specOf(0, node.url, { engine: "custom", healthPath: "/nope", isHealthPathStated: true, health: IMPATIENT }),
    );
    bench.add(specOf(1, node.url, { engine: "custom", healthPath: "/health", health: IMPATIENT }));
    await bench.until("down 0 not_ready");
    await bench.until("reading 1");
    assert.equal(bench.table.goodPolls[0], 0);
  });

  it("sends the node's key with every poll", async (t) => {
    const node = await startFakeNode({ engine: "vllm", hardware: HARDWARE, model: "v", apiKey: "secret" });
    const scripted = await startScriptedNode(healthyVllm());
    t.after(() => Promise.all([node.stop(), scripted.close()]));
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { engine: null, apiKey: "secret" }));
    bench.add(specOf(1, scripted.url, { apiKey: "secret" }));
    await bench.until("models 0 v:8192");
    await bench.until("reading 1");
    assert.ok(scripted.requests.length >= 3);
    for (const { headers } of scripted.requests) assert.equal(headers.authorization, "Bearer secret");
  });

  it("follows a llama.cpp without metrics by its slots", async (t) => {
    const node = await startScriptedNode({
      "/health": { body: { status: "ok" } },
      "/metrics": { status: 501, body: { error: { code: 501, type: "not_supported_error" } } },
      "/slots": { body: [{ is_processing: true }, { is_processing: true }, { is_processing: false }] },
      "/props": { body: { total_slots: 3, default_generation_settings: { n_ctx: 512 } } },
      "/v1/models": { body: { data: [{ id: "l" }] } },
    });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { engine: null }));
    const at = await bench.until("reading 0");
    await bench.until("reading 0", at);
    assert.equal(bench.table.running[0], 2);
    assert.equal(bench.table.foreign[0], 2);
    assert.equal(bench.table.maxInFlight[0], 4);
    assert.equal(node.requests.filter((request) => request.url === "/metrics").length <= 2, true);
  });

  it("ends a refusal of a model when the node lists it", async (t) => {
    const node = await startScriptedNode({ ...healthyVllm(), "/v1/models": { body: { data: [{ id: "other" }] } } });
    t.after(() => node.close());
    const bench = new Bench(t);
    bench.add(specOf(0, node.url, { placements: [{ model: 0, name: "a", upstreamId: "m", placement: 1 }] }));
    let at = await bench.until("reading 0");
    bench.table.misconfiguredUntil[1] = 1_000_000;
    at = await bench.until("reading 0", await bench.until("reading 0", at));
    assert.equal(bench.table.misconfiguredUntil[1], 1_000_000);
    node.paths["/v1/models"] = VLLM_MODELS;
    at = await bench.until("models 0 m:4096", at);
    assert.equal(bench.table.misconfiguredUntil[1], 0);
  });

  it("measures capacity while the node is loaded, and the drain rate from released bookings", async (t) => {
    let generated = 0;
    const node = await startScriptedNode({
      ...healthyVllm(),
      "/metrics": () => {
        generated += 1_000;
        return vllmMetrics({ running: 8, generated });
      },
    });
    t.after(() => node.close());
    const bench = new Bench(t);
    const { table } = bench;
    bench.add(specOf(0, node.url, { placements: [{ model: 0, name: "a", upstreamId: "m", placement: 1 }] }));
    let at = await bench.until("reading 0");
    Atomics.add(table.releases, 0, 5);
    // intervals are joined until they make a second
    while (Number.isNaN(table.measuredTokensPerSecond[1])) at = await bench.until("reading 0", at);
    const measured = table.measuredTokensPerSecond[1] as number;
    assert.ok(measured > 1_000 && measured < 20_000, `${measured} tokens/s`);
    assert.equal(table.tokensPerSecond[1], measured);
    assert.ok((table.drainPerSecond[0] as number) > 0);
  });

  it("learns the capacity of a node without counters from our own attempts", async (t) => {
    const node = await startScriptedNode({ "/health": {}, "/v1/models": { body: { data: [{ id: "m" }] } } });
    t.after(() => node.close());
    const bench = new Bench(t);
    const { table } = bench;
    bench.add(
      specOf(0, node.url, { engine: "custom", placements: [{ model: 0, name: "a", upstreamId: "m", placement: 1 }] }),
    );
    table.total.inFlight[0] = 8;
    let at = await bench.until("reading 0");
    at = await bench.until("reading 0", at);
    const sample = { row: 0, placement: 1, model: 0, outputTokens: 4_000, promptTokens: 9, durationMs: 100 };
    bench.poller.takeSamples([{ ...sample, firstTokenMs: 20, atMs: performance.now(), outcome: "success" }]);
    at = await bench.until("reading 0", at);
    table.total.inFlight[0] = 0;
    await bench.until("reading 0", at);
    assert.ok((table.measuredTokensPerSecond[1] as number) > 1_000);
    assert.ok(Math.abs((table.measuredStreamTokensPerSecond[1] as number) - (3_999 / 80) * 1_000) < 1e-6);
  });

  it("takes a change of address at once and drops what the old one still says", async (t) => {
    const asked = Promise.withResolvers<void>();
    const health = () => {
      asked.resolve();
      return "hang" as const;
    };
    const old = await startScriptedNode({ "/health": health, "/metrics": "hang" });
    const fresh = await startScriptedNode({ ...healthyVllm(), "/metrics": vllmMetrics({ running: 2 }) });
    t.after(() => Promise.all([old.close(), fresh.close()]));
    const bench = new Bench(t);
    const slow = { pollIntervalMs: 60_000, timeoutMs: 50_000, unhealthyAfter: 1, healthyAfter: 1 };
    bench.add(specOf(0, old.url, { health: slow }));
    await asked.promise;
    bench.poller.updateNode(specOf(0, fresh.url, { health: slow, maxInFlight: 7 }));
    await bench.until("reading 0");
    assert.equal(bench.table.running[0], 2);
    assert.equal(bench.table.maxInFlight[0], 7);
    assert.equal(
      bench.events.some((event) => event.startsWith("down")),
      false,
    );
  });

  it("writes the lengths of placements that come later at once", async (t) => {
    const node = await startScriptedNode(healthyVllm());
    t.after(() => node.close());
    const bench = new Bench(t);
    const slow = { pollIntervalMs: 60_000, timeoutMs: 4_000, unhealthyAfter: 2, healthyAfter: 1 };
    bench.add(specOf(0, node.url, { health: slow }));
    await bench.until("models 0 m:4096");
    takePlacementRow(bench.table, 5);
    const placements = [{ model: 0, name: "m", upstreamId: "m", placement: 5 }];
    bench.poller.updateNode(specOf(0, node.url, { health: slow, placements }));
    assert.equal(bench.table.contextTokens[5], 4096);
  });

  it("ends the first round at its deadline, silent nodes or not, and with the last answer before it", async (t) => {
    const hole = await startBlackHole();
    const node = await startScriptedNode(healthyVllm());
    t.after(() => Promise.all([hole.close(), node.close()]));
    const bench = new Bench(t);
    const slow = { pollIntervalMs: 60_000, timeoutMs: 50_000, unhealthyAfter: 2, healthyAfter: 1 };
    bench.add(specOf(0, node.url, { health: slow }));
    await bench.poller.firstRound(60_000);
    bench.add(specOf(1, hole.url, { health: slow }));
    await bench.poller.firstRound(50);
    assert.equal(bench.table.goodPolls[1], 0);
    bench.poller.removeNode(1);
    await bench.poller.firstRound(60_000);
  });

  it("asks a node on after an exception in a callback, and tells of the exception", async (t) => {
    const node = await startScriptedNode(healthyVllm());
    t.after(() => node.close());
    let readings = 0;
    const told: unknown[] = [];
    const again = Promise.withResolvers<void>();
    const bench = new Bench(t, {
      onReading: () => {
        readings += 1;
        if (readings === 3) again.resolve();
        else throw new Error("a bug of ours");
      },
      onError: (row, error) => told.push(row, error instanceof Error ? error.message : error),
    });
    bench.add(specOf(0, node.url));
    await bench.poller.firstRound(LIMIT.timeout);
    await again.promise;
    assert.deepEqual(told, [0, "a bug of ours", 0, "a bug of ours"]);
  });

  it("counts polls that end in an exception as failed, and takes the node back when they end well", async (t) => {
    let isBroken = true;
    const unreadable = {
      status: 200,
      contentType: null,
      get body(): string {
        throw new Error("a bug of ours");
      },
    };
    const client = {
      fetch: async () => (isBroken ? unreadable : { status: 200, contentType: null, body: "" }),
      close: async () => {},
    };
    const bench = new Bench(t, { client, onError: () => {} });
    bench.add(specOf(0, "http://127.0.0.1:1"));
    await bench.until("down 0 exception");
    assert.equal(bench.table.isUnhealthy[0], 1);
    isBroken = false;
    await bench.until("up 0");
    assert.equal(bench.table.isUnhealthy[0], 0);
  });

  it("keeps a node in that came back when the callback of that throws", async (t) => {
    const node = await startScriptedNode({ ...healthyVllm(), "/health": { status: 503 } });
    t.after(() => node.close());
    let isBroken = true;
    const bench = new Bench(t, {
      onUp: () => {
        if (isBroken) throw new Error("a bug of ours");
      },
      onError: () => {
        isBroken = false;
      },
    });
    bench.add(specOf(0, node.url));
    await bench.until("down 0 not_ready");
    node.paths["/health"] = {};
    await bench.until("reading 0", await bench.until("reading 0"));
    assert.equal(bench.table.isUnhealthy[0], 0);
    assert.equal(isBroken, false);
  });
});
