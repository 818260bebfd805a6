/**
 * What other people's clients are played against: a gateway with keys, fake nodes of vLLM and llama.cpp, a real
 * llama.cpp, and a node that fails on command. Programs in other languages command it over HTTP.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { FakeNode } from "@zml/simulator";
import { startLlamaServer, writeTinyGguf } from "../../../simulator/real/index.ts";
import { fakeNode, folder, type Owner, PORTS, startOn, until } from "../control-fixture.ts";
import { WireWatch } from "./wire-watch.ts";

const API_KEY = "sk-of-the-application";

/** What programs are told, as JSON in `ZML_CLIENTS_STAGE`. */
export interface StageFacts {
  /** Without `/v1`. */
  readonly base_url: string;
  readonly api_key: string;
  /** Where faults are ordered. */
  readonly control: string;
  /** Models by what serves them; `null`: left out. */
  readonly models: { readonly vllm: string; readonly llamacpp: string; readonly real: string | null };
  /** The model whose one node fails on command. */
  readonly fault_model: string;
}

export interface StageOptions {
  /** Starts a real llama.cpp too. */
  readonly hasRealEngine: boolean;
}

/** Starts everything; it goes with its owner. */
export async function startStage(owner: Owner, { hasRealEngine }: StageOptions): Promise<StageFacts> {
  const [h100, mi300x, llamacpp, faulty] = await Promise.all([
    fakeNode(owner, { model: "chat" }),
    fakeNode(owner, { model: "chat", hardware: "MI300X-192GB/llama-3-8b/bf16/1" }),
    fakeNode(owner, { model: "small", engine: "llamacpp" }),
    fakeNode(owner, { model: "faulty" }),
  ]);
  const real = hasRealEngine ? await startReal(owner) : null;
  const nodes = [
    `{ id: h100, url: "${h100.url}", family: H100, engine: vllm, models: [chat] }`,
    `{ id: mi300x, url: "${mi300x.url}", family: MI300X, engine: vllm, models: [chat] }`,
    `{ id: cpp, url: "${llamacpp.url}", family: CPU, engine: llamacpp, models: [small] }`,
    `{ id: faulty, url: "${faulty.url}", family: H100, engine: vllm, models: [faulty], max_in_flight: 1 }`,
    ...(real === null ? [] : [`{ id: real, url: "${real}", family: CPU, engine: llamacpp, models: [real] }`]),
  ];
  const { gateway } = await startOn(
    owner,
    `${PORTS}workers: 1
health: { poll_interval_ms: 200 }
failover: { cooldown_ms: 100 }
keys:
  - { name: app, value_env: APP, scopes: [infer] }
nodes:
${nodes.map((node) => `  - ${node}`).join("\n")}
policies:
  - { name: chat, cost_priority: latency,
      accelerator_preference: [{ family: H100, priority: 1 }, { family: MI300X, priority: 2 }, { family: CPU, priority: 3 }] }
accounts: [{ name: default, default_policy: chat }]
`,
    { env: { APP: API_KEY } },
  );
  const { hostname, port } = new URL(gateway.dataUrl);
  const watch = await WireWatch.start(owner, { host: hostname, port: Number(port) });
  const control = await serveControl(owner, new FaultControl(faulty, watch, gateway.dataUrl));
  return {
    base_url: `http://127.0.0.1:${watch.port}`,
    api_key: API_KEY,
    control,
    models: { vllm: "chat", llamacpp: "small", real: real === null ? null : "real" },
    fault_model: "faulty",
  };
}

/** With a template that takes tools: the tiny model's own has none, and its opening breaks llama.cpp's JSON grammars. */
async function startReal(owner: Owner): Promise<string> {
  const model = join(folder(owner), "tiny.gguf");
  await writeTinyGguf(model);
  const server = await startLlamaServer({
    model,
    alias: "real",
    chatTemplate: join(import.meta.dirname, "tools.jinja"),
  });
  owner.after(() => server.stop());
  return server.url;
}

const FAULTS = ["none", "full", "broken", "cut", "slow", "too_large"] as const;
type FaultName = (typeof FAULTS)[number];

/** What a program asks for before a call, and reads after it. */
class FaultControl {
  readonly #node: FakeNode;
  readonly #watch: WireWatch;
  readonly #gatewayUrl: string;
  #holder: AbortController | null = null;
  #armedAtMs = 0;

  constructor(node: FakeNode, watch: WireWatch, gatewayUrl: string) {
    this.#node = node;
    this.#watch = watch;
    this.#gatewayUrl = gatewayUrl;
  }

  /** Ends the fault before; resolves when the next one is in force. */
  async arm(fault: FaultName): Promise<void> {
    this.#holder?.abort();
    this.#holder = null;
    await this.#node.faults.clear();
    // its cooldown ends, and the place of a caller who left comes free
    await until("the node serves again", async () => {
      const response = await this.#ask({ max_tokens: 1 });
      await response.text();
      return response.status === 200;
    });
    this.#watch.begin(null);
    switch (fault) {
      case "none":
        break;
      case "full":
        await this.#fill();
        break;
      case "broken":
        this.#node.faults.status(500, '{"error":{"message":"out of memory","type":"InternalServerError","code":500}}');
        break;
      case "cut":
        this.#node.faults.cutAfterEvents(4, "fin");
        break;
      case "slow":
        this.#node.faults.slowFirstByte(60_000);
        break;
      case "too_large":
        this.#node.faults.status(413, '{"error":{"message":"too large","type":"BadRequestError","code":413}}');
        break;
    }
    this.#armedAtMs = performance.now();
  }

  /** What went over the wire since `arm`, and what reached the node. */
  async seen(): Promise<object> {
    // by time, since the log forgets its oldest entries
    const posts = this.#node.received.posts.filter(({ startedMs }) => startedMs >= this.#armedAtMs);
    // a caller who left is noticed a moment later
    await until("the node has ended what it was asked", () => posts.every(({ closeCause }) => closeCause !== "open"));
    return {
      calls: this.#watch.calls.map(({ method, path, status, atMs, answeredAtMs }, index, all) => ({
        method,
        path,
        status,
        waited_ms: index === 0 ? null : Math.round(atMs - (all[index - 1]?.answeredAtMs ?? Number.NaN)),
        answered_ms: Number.isNaN(answeredAtMs) ? null : Math.round(answeredAtMs - atMs),
      })),
      node: posts.map(({ path, closeCause, headers }) => ({ path, close_cause: closeCause, headers })),
    };
  }

  /** Takes the node's only place, until the first caller was refused. */
  async #fill(): Promise<void> {
    const holder = new AbortController();
    this.#holder = holder;
    this.#node.faults.stallAfterEvents(2, Number.POSITIVE_INFINITY, 1);
    // the place of the call before comes free a moment after its caller has its answer
    await until("its only place is taken", async () => {
      const response = await this.#ask({ stream: true, max_tokens: 20 }, holder.signal);
      if (response.status !== 200) await response.text();
      return response.status === 200;
    });
    this.#watch.begin((status) => {
      if (status === 503) holder.abort();
    });
  }

  #ask(body: object, signal = AbortSignal.timeout(10_000)): Promise<Response> {
    return fetch(`${this.#gatewayUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${API_KEY}` },
      body: JSON.stringify({ model: "faulty", messages: [{ role: "user", content: "hi" }], ...body }),
      signal,
    });
  }
}

/** `POST /arm/FAULT` and `GET /seen`. */
async function serveControl(owner: Owner, control: FaultControl): Promise<string> {
  const server = createServer((request, response) => {
    const [, action, name] = (request.url ?? "").split("/");
    const fault = FAULTS.find((one) => one === name);
    const answer = action === "arm" && fault !== undefined ? control.arm(fault) : control.seen();
    answer.then(
      (value) => response.end(JSON.stringify(value ?? {})),
      (error) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  owner.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
