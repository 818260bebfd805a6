import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { Batch } from "../batch.ts";
import { logNormalFactor, seededRandom } from "../seeded-random.ts";
import { BatchDriver } from "./batch-driver.ts";
import type { EngineBehaviour, HttpHabits, NodeContext, NodeSettings } from "./engine-behaviour.ts";
import { createEngine, httpHabits } from "./engines.ts";
import { Exchange } from "./exchange.ts";
import { Faults } from "./faults.ts";
import type { GenerationRun } from "./generation.ts";
import type { FakeNodeOptions } from "./node-options.ts";
import { resolveSettings } from "./node-options.ts";
import type { ReceivedRequest } from "./received.ts";
import { ReceivedLog, sha256Hex } from "./received.ts";

/** `down`: no process. `stopping`: SIGTERM came and the process is still there. */
export type NodeState = "up" | "stopping" | "down";

/** One life of the process: everything that a restart begins anew. */
type Life = {
  readonly context: NodeContext;
  readonly engine: EngineBehaviour;
  readonly timers: Set<NodeJS.Timeout>;
  readonly exchanges: Set<Exchange>;
};

/** Starts a fake serving node on a real socket; resolves when it listens. */
export async function startFakeNode(options: FakeNodeOptions): Promise<FakeNode> {
  const node = new FakeNode(options);
  await node.start();
  return node;
}

/** A fake serving node: an engine's HTTP server with a simulated accelerator behind it. */
export class FakeNode {
  readonly settings: NodeSettings;
  readonly faults: Faults;
  readonly received: ReceivedLog;
  readonly #host: string;
  readonly #keepBodyBytes: number;
  readonly #habits: HttpHabits;
  readonly #sockets = new Map<Socket, number>();
  readonly #requestsOf = new WeakMap<Socket, number>();
  #port: number;
  #server: Server | undefined;
  #life: Life | undefined;
  #state: NodeState = "down";
  #connectionCount = 0;
  #lifeCount = 0;
  #busyThreads = 0;
  #threadQueue: (() => void)[] = [];

  constructor(options: FakeNodeOptions) {
    this.settings = resolveSettings(options);
    this.#host = options.host ?? "127.0.0.1";
    this.#port = options.port ?? 0;
    this.#keepBodyBytes = options.keepBodyBytes ?? 64 * 1024;
    this.#habits = httpHabits(this.settings);
    this.received = new ReceivedLog(options.record === false ? 0 : (options.keepRequests ?? 1000));
    this.faults = new Faults({
      closeListener: () => this.#closeListener(),
      openListener: () => this.#listen(),
    });
  }

  get id(): string {
    return this.settings.id;
  }

  get engine(): NodeSettings["engine"] {
    return this.settings.engine;
  }

  /** The port, the same after every restart; 0 before the first start. */
  get port(): number {
    return this.#port;
  }

  /** For example `http://127.0.0.1:41234`, without a slash at the end. */
  get url(): string {
    return `http://${this.#host}:${this.#port}`;
  }

  get state(): NodeState {
    return this.#state;
  }

  /** Sequences in the engine's batch; 0 when down. */
  get runningCount(): number {
    return this.#life?.context.driver.batch.runningCount ?? 0;
  }

  /** Sequences in the engine's queue; 0 when down. */
  get waitingCount(): number {
    return this.#life?.context.driver.batch.waitingCount ?? 0;
  }

  /** Open connections. */
  get connectionCount(): number {
    return this.#sockets.size;
  }

  /** Connections accepted since creation. */
  get acceptedCount(): number {
    return this.#connectionCount;
  }

  /** Starts the process (again, on the same port): counters begin at 0, faults stay. */
  async start(): Promise<void> {
    if (this.#state !== "down") throw new Error(`node ${this.id} is ${this.#state}: stop it before it starts again`);
    this.#life = this.#beginLife();
    this.#state = "up";
    await this.#listen();
  }

  /** SIGKILL: listener and sockets are gone at once. `how` says what open connections see. */
  kill(how: "fin" | "rst" = "fin"): void {
    this.#endLife(how);
  }

  /** SIGTERM, with the engine's own flaw. The state is `stopping` until the process is gone. */
  terminate(): void {
    if (this.#state !== "up") return;
    this.#state = "stopping";
    this.#life?.engine.terminate();
  }

  /** The engine's core dies under its HTTP server. */
  engineDeath(): void {
    this.#life?.engine.engineDeath();
  }

  /** Ends the node for good, faults included; for the end of a test. */
  async stop(): Promise<void> {
    this.#endLife("rst");
    this.faults.silence = "none";
    await Promise.all([...this.#sockets.keys()].map((socket) => closed(socket)));
  }

  #beginLife(): Life {
    const { settings } = this;
    this.#lifeCount += 1;
    const random = seededRandom(settings.seed * 1000 + this.#lifeCount);
    const noise = seededRandom(settings.seed * 1000 + this.#lifeCount + 500);
    const stepListeners: ((tokens: number) => void)[] = [];
    const batch = new Batch({
      constants: settings.constants,
      maxSequences: settings.maxSequences,
      stepTokenBudget: settings.stepTokenBudget,
      kvCapacityTokens: settings.kvCapacityTokens,
      stepNoise: () => logNormalFactor(noise, settings.stepNoiseSigma),
      onStep: (tokens) => {
        for (const listener of stepListeners) listener(tokens);
      },
    });
    const timers = new Set<NodeJS.Timeout>();
    const exchanges = new Set<Exchange>();
    const context: NodeContext = {
      settings,
      driver: new BatchDriver(batch, settings.speedUp),
      random,
      faults: this.faults,
      runs: new Set<GenerationRun>(),
      stepListeners,
      cutExchanges: (isWanted) => {
        for (const exchange of [...exchanges]) if (isWanted(exchange)) exchange.cut("fin");
      },
      startedUnixS: Date.now() / 1e3,
      closeListener: () => this.#closeListener(),
      exit: (how) => this.#endLife(how),
      after: (ms, callback) => {
        const timer = setTimeout(() => {
          timers.delete(timer);
          callback();
        }, ms);
        timers.add(timer);
      },
    };
    return { context, engine: createEngine(settings.engine, context), timers, exchanges };
  }

  #endLife(how: "fin" | "rst"): void {
    const life = this.#life;
    this.#closeListener();
    this.#life = undefined;
    this.#state = "down";
    this.#busyThreads = 0;
    this.#threadQueue = [];
    if (life === undefined) return;
    for (const timer of life.timers) clearTimeout(timer);
    life.context.driver.stop();
    for (const exchange of life.exchanges) if (!exchange.isOver) exchange.markCut();
    for (const socket of this.#sockets.keys()) {
      if (how === "rst") socket.resetAndDestroy();
      else socket.destroySoon();
    }
  }

  #closeListener(): void {
    this.#server?.close();
    this.#server = undefined;
  }

  async #listen(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const server = this.#createServer();
      try {
        await listening(server, this.#port, this.#host);
        this.#server = server;
        this.#port = (server.address() as AddressInfo).port;
        return;
      } catch (error) {
        // The old socket may need a moment to leave the port.
        if (attempt >= 20 || !(error instanceof Error && "code" in error && error.code === "EADDRINUSE")) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }

  #createServer(): Server {
    const server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAlive: false });
    server.keepAliveTimeout = this.#habits.keepAliveMs;
    // Node adds a second to the advertised time; the engines close exactly when they say.
    server.keepAliveTimeoutBuffer = 0;
    if (this.#habits.maxRequestsPerConnection > 0) server.maxRequestsPerSocket = this.#habits.maxRequestsPerConnection;
    server.on("connection", (socket) => {
      this.#sockets.set(socket, this.#connectionCount);
      this.#connectionCount += 1;
      socket.on("error", () => {});
      socket.on("close", () => this.#sockets.delete(socket));
    });
    server.on("request", (request, response) => this.#receive(request, response));
    server.on("clientError", (_error, socket) => socket.destroy());
    return server;
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const entry: ReceivedRequest = {
      method: request.method ?? "",
      path: request.url ?? "",
      httpVersion: request.httpVersion,
      headers: request.headers,
      rawHeaders: request.rawHeaders,
      connection: this.#sockets.get(request.socket) ?? -1,
      startedMs: performance.now(),
      body: Buffer.alloc(0),
      bodyBytes: 0,
      bodySha256: "",
      status: -1,
      closedMs: Number.NaN,
      closeCause: "open",
    };
    this.received.add(entry);
    const { headers, hasConnectionHint, jsonType, maxBodyBytes } = this.#habits;
    const exchange = new Exchange({
      request,
      response,
      entry,
      faults: this.faults,
      engineHeaders: headers,
      hasConnectionHint,
      jsonType,
    });
    const onConnection = (this.#requestsOf.get(request.socket) ?? 0) + 1;
    this.#requestsOf.set(request.socket, onConnection);
    // Node only says `Connection: close` on the last request that it allows; the engine's server closes as well.
    if (onConnection === this.#habits.maxRequestsPerConnection) response.shouldKeepAlive = false;
    const life = this.#life;
    life?.exchanges.add(exchange);
    exchange.onOver(() => life?.exchanges.delete(exchange));
    const parts: Buffer[] = [];
    let isTooLarge = false;
    response.on("error", () => {});
    request.on("error", () => {});
    request.on("data", (part: Buffer) => {
      entry.bodyBytes += part.length;
      if (entry.bodyBytes > maxBodyBytes) {
        if (!isTooLarge) life?.engine.bodyTooLarge(exchange);
        isTooLarge = true;
        return;
      }
      parts.push(part);
    });
    request.on("end", () => {
      exchange.body = Buffer.concat(parts);
      entry.body = exchange.body.subarray(0, this.#keepBodyBytes);
      if (this.received.isKeeping) entry.bodySha256 = sha256Hex(exchange.body);
      if (!isTooLarge && life !== undefined) this.#withThread(exchange, () => this.#serve(life, exchange));
    });
  }

  /** Runs `work` when one of the server's threads is free; the thread is busy until the exchange is over. */
  #withThread(exchange: Exchange, work: () => void): void {
    if (this.settings.httpThreads === Infinity) {
      work();
      return;
    }
    const take = () => {
      if (exchange.isOver) {
        this.#threadQueue.shift()?.();
        return;
      }
      this.#busyThreads += 1;
      exchange.onOver(() => {
        this.#busyThreads -= 1;
        this.#threadQueue.shift()?.();
      });
      work();
    };
    if (this.#busyThreads < this.settings.httpThreads) take();
    else this.#threadQueue.push(take);
  }

  #serve(life: Life, exchange: Exchange): void {
    const isPost = exchange.method === "POST";
    if (this.faults.silence !== "none" || (isPost && this.faults.isGreenButDead)) return;
    const isHealth = exchange.path.endsWith("/health") || ["/metrics", "/ping", "/v1/loads"].includes(exchange.path);
    const delayMs = isPost ? this.faults.firstByteDelayMs : isHealth ? this.faults.healthDelayMs : 0;
    if (delayMs > 0) life.context.after(delayMs, () => this.#answer(life, exchange));
    else this.#answer(life, exchange);
  }

  #answer(life: Life, exchange: Exchange): void {
    if (exchange.isOver || this.#life !== life) return;
    if (exchange.method !== "POST") {
      life.engine.handle(exchange);
      return;
    }
    const status = this.faults.takeStatus();
    if (status !== undefined) {
      const type = status.body.startsWith("{") ? "application/json" : "text/plain; charset=utf-8";
      exchange.send(status.code, status.body, { "content-type": type, ...status.headers });
      return;
    }
    const overload = this.faults.takeOverload();
    if (overload !== undefined) life.engine.overloaded(exchange, overload.retryAfterS);
    else if (this.faults.misconfiguredStatus !== undefined) {
      life.engine.misconfigured(exchange, this.faults.misconfiguredStatus);
    } else life.engine.handle(exchange);
  }
}

function listening(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once("close", () => resolve());
  });
}
