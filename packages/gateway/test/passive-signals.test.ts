/** What requests and tokens say of a node counts for more than its green page: a whole gateway, nodes on real sockets. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import type { Gateway } from "../src/control/gateway-interface.ts";
import { chat, PORTS, startOn, until } from "./control-fixture.ts";

/** A vLLM whose page is always green. */
class GreenNode {
  readonly #server = createServer((request, response) => this.#serve(request, response));
  running = 0;
  generated = 100;
  /** Its polls get no answer. */
  isLate = false;
  polls = 0;
  posts = 0;
  /** What it does with a request. */
  onPost: (response: ServerResponse) => void = (response) =>
    response
      .setHeader("content-type", "application/json")
      .end(
        JSON.stringify({ object: "chat.completion", choices: [{ message: { content: "hi" }, finish_reason: "stop" }] }),
      );

  async start(t: TestContext): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      this.#server.closeAllConnections();
      this.#server.close();
    });
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    if (request.method === "POST") {
      this.posts += 1;
      this.onPost(response);
      return;
    }
    if (request.url === "/health") this.polls += 1;
    if (this.isLate) return;
    if (request.url === "/health") response.end();
    else if (request.url === "/metrics") {
      response.end(
        `vllm:num_requests_running ${this.running}\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total ${this.generated}\n`,
      );
    } else {
      response.end('{"data":[{"id":"m","max_model_len":4096}]}');
    }
  }
}

/** `a` is preferred and `b` takes what is left. */
async function startPair(t: TestContext, sections: string) {
  const a = new GreenNode();
  const b = new GreenNode();
  const [urlA, urlB] = [await a.start(t), await b.start(t)];
  const { gateway, log } = await startOn(
    t,
    `${PORTS}${sections}
nodes:
  - { id: a, url: "${urlA}", family: FAST, engine: vllm, cost: { usd_per_gpu_hour: 1 } }
  - { id: b, url: "${urlB}", family: SLOW, engine: vllm, cost: { usd_per_gpu_hour: 9 } }
policies:
  - name: p
    accelerator_preference: [{ family: FAST, priority: 1 }, { family: SLOW, priority: 2 }]
    cost_priority: latency
models: [{ name: m, policy: p }]
`,
  );
  return { a, b, gateway, log };
}

const nodeOf = (gateway: Gateway, id: string) => {
  const node = gateway.stats().fleet.nodes.find((each) => each.id === id);
  assert.ok(node !== undefined);
  return node;
};

describe("passive signals", { timeout: 60_000 }, () => {
  it("K01: a node whose every request times out behind a green page stays out longer each time", async (t) => {
    const { a, gateway } = await startPair(
      t,
      "health: { poll_interval_ms: 100 }\ntimeouts: { first_token_ms: 200 }\nfailover: { cooldown_ms: 500, cooldown_max_ms: 60000 }\n",
    );
    a.onPost = () => {};
    for (const lengthMs of [500, 1_000, 2_000]) {
      await until("it may be tried again", () => nodeOf(gateway, "a").state !== "cooling_down");
      const before = a.posts;
      const askedAtMs = performance.now();
      const response = await chat(gateway);
      assert.equal(response.status, 200, "the other node answers the caller");
      assert.match(response.headers.get("x-zml-routing") ?? "", /node="b"/);
      assert.equal(a.posts, before + 1, "it was tried");
      const { state, cooldown_remaining_ms: remainingMs, sources } = nodeOf(gateway, "a");
      assert.equal(state, "cooling_down");
      // it began after the request was sent, so that this holds however late this thread looks; ticks are some ms long
      const sinceAskedMs = performance.now() - askedAtMs;
      assert.ok((remainingMs ?? 0) + sinceAskedMs > lengthMs - 50, `${remainingMs} ms of ${lengthMs}`);
      assert.ok((sources.health_page ?? Number.NaN) < 60_000, "its page is green");
    }
    a.onPost = new GreenNode().onPost;
    await until("a trial passes", async () => {
      await chat(gateway);
      return nodeOf(gateway, "a").state === "healthy";
    });
  });

  it("a vLLM that drains behind a green page gets no early trial for it, even when every node cools", async (t) => {
    const { a, b, gateway } = await startPair(t, "health: { poll_interval_ms: 100 }\n");
    const drain = (response: ServerResponse) => {
      response.writeHead(500, { "content-type": "application/json" });
      const message = "cannot schedule new futures after shutdown";
      response.end(JSON.stringify({ error: { message, type: "InternalServerError", param: null, code: 500 } }));
    };
    a.onPost = drain;
    assert.equal((await chat(gateway)).status, 200);
    const { polls } = a;
    await until("its page was green again", () => a.polls >= polls + 3);
    b.onPost = drain;
    await chat(gateway);
    await until("both cool", () => nodeOf(gateway, "b").state === "cooling_down");
    const posts = [a.posts, b.posts];
    const pollsOfB = b.polls;
    await until("the other's page was green again", () => b.polls >= pollsOfB + 3);
    assert.equal((await chat(gateway)).status, 503);
    assert.deepEqual([a.posts, b.posts], posts, "nobody was asked");
  });

  it("K01: a node that stands still behind a green page is out until a token moves", async (t) => {
    const { a, gateway } = await startPair(t, "health: { poll_interval_ms: 100, stalled_after: 3 }\n");
    a.running = 2;
    await until("it is out", () => nodeOf(gateway, "a").state === "unhealthy");
    const { state_detail: detail, down_cause: cause, unknown } = nodeOf(gateway, "a");
    assert.deepEqual([detail, cause], ["stalled", "stalled"]);
    assert.equal(unknown.health_score, "node_down");
    const response = await chat(gateway);
    assert.match(response.headers.get("x-zml-routing") ?? "", /node="b"/);
    a.generated += 1;
    const tokens = setInterval(() => {
      a.generated += 1;
    }, 10);
    t.after(() => clearInterval(tokens));
    await until("it is back", () => nodeOf(gateway, "a").state === "healthy");
  });

  it("a standstill in the counters is none while our own stream of that node moves", async (t) => {
    const { a, gateway } = await startPair(t, "health: { poll_interval_ms: 100, stalled_after: 3 }\n");
    a.running = 1;
    const streams = new Set<NodeJS.Timeout>();
    t.after(() => streams.forEach(clearInterval));
    a.onPost = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const event = 'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n';
      response.write(event);
      const timer = setInterval(() => response.write(event), 20);
      streams.add(timer);
      response.on("close", () => clearInterval(timer));
    };
    const abort = new AbortController();
    const stream = await chat(gateway, { stream: true }, { signal: abort.signal });
    const drained = stream.body?.pipeTo(new WritableStream()).catch(() => {});
    // it may have counted as still before the stream began
    await until("it is in", () => nodeOf(gateway, "a").state === "healthy");
    const { polls } = a;
    await until("many polls have passed", () => {
      assert.equal(nodeOf(gateway, "a").state, "healthy");
      return a.polls >= polls + 12;
    });
    abort.abort();
    await drained;
  });

  it("late polls of a node whose answers come through take nobody out, and do when the answers stop", async (t) => {
    const sections = "health: { poll_interval_ms: 200, timeout_ms: 150, unhealthy_after: 2 }\n";
    const { a, gateway } = await startPair(t, sections);
    let isServing = true;
    const serve = async () => {
      while (isServing) await (await chat(gateway)).text();
    };
    const serving = serve();
    try {
      a.isLate = true;
      const { polls } = a;
      await until("many polls were late", () => {
        assert.equal(nodeOf(gateway, "a").state, "healthy");
        return a.polls >= polls + 8;
      });
    } finally {
      isServing = false;
      await serving;
    }
    await until("it is out", () => nodeOf(gateway, "a").state === "unhealthy");
    const { down_cause: cause, last_poll_error: error } = nodeOf(gateway, "a");
    assert.deepEqual([cause, error], ["timeout", "no answer within 150 ms"]);
  });
});
