/**
 * Both edges of a real gateway against what no well-meaning caller or node would send. A case is a kind and a number, and
 * with the seed of the run gives the same bytes each time. What has to hold:
 *
 * - no node sees a request that its caller did not make by the strictest reading, or sees one twice;
 * - each connection is answered or closed in time, and a caller of one request gets at most one answer;
 * - an answer that its node cut off never looks whole;
 * - the process stays up, with no fault of its own in the log, no thread that died, nothing left in flight, and memory
 *   within a bound.
 */

import { connect, type Socket } from "node:net";
import { comesTrue, type GatewayProcess, startGatewayProcess } from "./gateway-process.ts";
import { type FuzzNode, startHostileFrames, startHostileNode, startRecordingNode } from "./hostile-node.ts";
import { type ConnectionCase, chatRequest, http1Case } from "./http1-cases.ts";
import { http2Case } from "./http2-cases.ts";
import { MadeRequests } from "./made-requests.ts";
import { answerCase, CUT_CASES, cutCase, frameAnswer } from "./node-cases.ts";
import { Seeded } from "./seeded.ts";

export const KINDS = ["http1", "http2", "answer", "frames", "cut"] as const;
export type Kind = (typeof KINDS)[number];

/** `http1:17`. */
export interface CaseName {
  readonly kind: Kind;
  readonly index: number;
}

export interface FuzzFailure {
  readonly name: CaseName;
  readonly what: string;
  /** What the caller or the node sent, as short as it still fails. */
  readonly bytes: Buffer;
}

export interface FuzzReport {
  readonly seed: number;
  readonly cases: Readonly<Record<Kind, number>>;
  readonly seconds: number;
  /** Requests that reached the recording node. */
  readonly recorded: number;
  /** Of them, those that came after their connection had closed. */
  readonly late: number;
  readonly failures: readonly FuzzFailure[];
  /** Faults that no single case could be blamed for. */
  readonly faults: readonly string[];
  readonly inFlightAtEnd: number;
  readonly workerCrashes: number;
  /** Resident memory when every kind had run, and at the end, MiB. */
  readonly rssWarmMib: number;
  readonly rssEndMib: number;
  readonly socketsAtEnd: number;
}

export interface FuzzOptions {
  readonly seed: number;
  /** Cases of each kind are drawn until then. */
  readonly durationMs: number;
  /** Every `cutStride`-th cut is tried before the draws; Infinity: none. */
  readonly cutStride: number;
  readonly only?: CaseName;
}

/** Cases at one time; each has a node of its own in both versions, so that no other case cools it. */
const LANES = 24;
/** Far above every limit of the configuration below, added up (4 s): a machine that is busy elsewhere is no failure. */
const CASE_MS_MAX = 20_000;
/** Heaps that have grown once stay; more than this on top of a warm process is a leak, MiB. */
const GROWTH_MIB_MAX = 160;
const FAILURES_MAX = 5;

const CONFIG = (urls: { recording: string; hostile: string; frames: string }): string => {
  const node = (id: string, url: string, more = "") =>
    `  - { id: ${id}, url: "${url}", family: F, engine: custom, models: [${id}], max_in_flight: 1000, max_connections: 2000${more} }\n`;
  const lanes = Array.from({ length: LANES }, (_, lane) => lane);
  return `data: { listen: "127.0.0.1:0", head_ms: 300, body_ms: 300, keep_alive_ms: 300 }
admin: { listen: "127.0.0.1:0" }
workers: 2
store: { path: ":memory:" }
limits: { header_bytes: 16384, body_bytes: 1048576 }
timeouts: { connect_ms: 1000, first_byte_ms: 500, first_token_ms: 500, idle_ms: 400, slow_client_ms: 500, total_ms: 2500, drain_ms: 2000 }
failover: { cooldown_ms: 1, cooldown_max_ms: 1, hold_ms: 300 }
health: { slow_start_ms: 0 }
nodes:
${node("m", urls.recording)}${lanes.map((lane) => node(`h${lane}`, `${urls.hostile}/${lane}`) + node(`k${lane}`, `${urls.frames}/${lane}`, ', http_version: "2"')).join("")}`;
};

/** Runs cases until the time is over; see the head of this file. */
export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const run = new FuzzRun(options.seed);
  await run.start();
  try {
    return await run.run(options);
  } finally {
    await run.stop();
  }
}

export function nameText({ kind, index }: CaseName): string {
  return `${kind}:${index}`;
}

class FuzzRun {
  readonly #seed: number;
  readonly #cases: Record<Kind, number> = { http1: 0, http2: 0, answer: 0, frames: 0, cut: 0 };
  readonly #failures: FuzzFailure[] = [];
  /** Cases that ran lately: one of them is to blame for a fault of the process. */
  readonly #recent: CaseName[] = [];
  #recorded = 0;
  /** A request may be on its way for as long as a case may take. */
  readonly #made = new MadeRequests(CASE_MS_MAX);
  /** What the node saw and no case that ran made. */
  readonly #strange: string[] = [];
  #nodes: FuzzNode[] = [];
  #gateway: GatewayProcess | null = null;
  #config = "";

  constructor(seed: number) {
    this.#seed = seed;
  }

  async start(): Promise<void> {
    const recording = await startRecordingNode((request) => {
      this.#recorded += 1;
      const fault = this.#made.see(request);
      if (fault !== null) this.#strange.push(fault);
    });
    const hostile = await startHostileNode((mark) => {
      const [kind = "", index = "0"] = mark.split("-");
      return kind === "cut" ? cutCase(Number(index)) : answerCase(this.#seed, Number(index));
    });
    const frames = await startHostileFrames((mark, stream) =>
      frameAnswer(this.#seed, Number(mark.split("-")[1]), stream),
    );
    this.#nodes = [recording, hostile, frames];
    this.#config = CONFIG({ recording: recording.url, hostile: hostile.url, frames: frames.url });
    this.#gateway = await this.#startGateway();
  }

  async stop(): Promise<void> {
    await this.#gateway?.stop();
    for (const node of this.#nodes) await node.stop();
  }

  async run({ durationMs, cutStride, only }: FuzzOptions): Promise<FuzzReport> {
    const startMs = performance.now();
    const endMs = startMs + durationMs;
    const names = only === undefined ? this.#names(cutStride, endMs) : [only].values();
    let rssWarmMib = Number.NaN;
    const warm = setTimeout(() => {
      rssWarmMib = this.#rss();
    }, durationMs / 3);
    const lane = async (number: number): Promise<void> => {
      for (const name of names) {
        if (this.#failures.length >= FAILURES_MAX || !this.#isUp()) return;
        await this.#try(name, number);
      }
    };
    await Promise.all(Array.from({ length: only === undefined ? LANES : 1 }, (_, number) => lane(number)));
    clearTimeout(warm);
    const faults = [...this.#gate.faults, ...this.#strange];
    if (!this.#isUp()) faults.push(`the process ended: ${this.#gate.log.slice(-5).join("\n")}`);
    if (this.#gate.faults.length > 0 || !this.#isUp()) await this.#blame();
    let inFlightAtEnd = Number.NaN;
    const isSettled = await comesTrue(async () => {
      inFlightAtEnd = (await this.#fleetTotals()).inFlight;
      return inFlightAtEnd === 0;
    }, 5_000);
    if (!isSettled) faults.push(`${inFlightAtEnd} requests are still in flight`);
    await comesTrue(() => this.#gate.sockets() <= SOCKETS_AT_REST, 5_000);
    const rssEndMib = this.#rss();
    if (rssEndMib - rssWarmMib > GROWTH_MIB_MAX) faults.push(`memory grew from ${rssWarmMib} to ${rssEndMib} MiB`);
    return {
      seed: this.#seed,
      cases: this.#cases,
      seconds: (performance.now() - startMs) / 1000,
      recorded: this.#recorded,
      late: this.#made.late,
      failures: this.#failures,
      faults,
      inFlightAtEnd,
      workerCrashes: (await this.#fleetTotals()).workerCrashes,
      rssWarmMib,
      rssEndMib,
      socketsAtEnd: this.#gate.sockets(),
    };
  }

  get #gate(): GatewayProcess {
    if (this.#gateway === null) throw new Error("the run has not started");
    return this.#gateway;
  }

  async #startGateway(): Promise<GatewayProcess> {
    const gateway = await startGatewayProcess(this.#config);
    const areNodesUp = await comesTrue(
      async () => (await gateway.fleet()).totals.healthy_nodes === 2 * LANES + 1,
      10_000,
    );
    if (!areNodesUp) throw new Error(`the nodes do not come up: ${gateway.log.slice(-5).join("\n")}`);
    return gateway;
  }

  *#names(cutStride: number, endMs: number): Generator<CaseName> {
    const random = new Seeded(this.#seed, 0);
    if (Number.isFinite(cutStride)) {
      for (let index = random.below(cutStride); index < CUT_CASES; index += cutStride) yield { kind: "cut", index };
    }
    for (let index = 0; performance.now() < endMs; index++) {
      const dice = random.next();
      yield { kind: dice < 0.45 ? "http1" : dice < 0.6 ? "http2" : dice < 0.9 ? "answer" : "frames", index };
    }
  }

  #isUp(): boolean {
    return this.#gate.child.exitCode === null && this.#gate.child.signalCode === null;
  }

  #rss(): number {
    return this.#isUp() ? this.#gate.rssMib() : Number.NaN;
  }

  async #fleetTotals(): Promise<{ inFlight: number; workerCrashes: number }> {
    if (!this.#isUp()) return { inFlight: Number.NaN, workerCrashes: Number.NaN };
    const { totals } = await this.#gate.fleet();
    return { inFlight: totals.in_flight + totals.parked, workerCrashes: totals.worker_crashes };
  }

  async #try(name: CaseName, lane: number): Promise<void> {
    this.#cases[name.kind] += 1;
    this.#recent.push(name);
    if (this.#recent.length > 10 * LANES) this.#recent.shift();
    const what = await this.#runCase(name, lane).catch((error: unknown) => (this.#isUp() ? String(error) : null));
    if (what === null) return;
    this.#failures.push({ name, what, bytes: await this.#shrunk(name, what) });
  }

  /** Runs a case on the present gateway. Null: all that a case alone can show holds. */
  async #runCase({ kind, index }: CaseName, lane: number): Promise<string | null> {
    switch (kind) {
      case "http1":
        return this.#connection(http1Case(this.#seed, index), index, true);
      case "http2":
        return this.#connection(http2Case(this.#seed, index), index, false);
      case "answer":
      case "frames":
      case "cut":
        return this.#request(kind, index, lane);
    }
  }

  async #connection(one: ConnectionCase, index: number, isStrict: boolean): Promise<string | null> {
    this.#made.open(index, Buffer.concat(one.pieces), isStrict);
    const closed = await send(this.#gate.dataPort, one);
    const fault = this.#made.close(index);
    return closed === null ? `the connection is open ${CASE_MS_MAX} ms later` : fault;
  }

  async #request(kind: "answer" | "frames" | "cut", index: number, lane: number): Promise<string | null> {
    const model = `${kind === "frames" ? "k" : "h"}${lane}`;
    const cut = kind === "cut" ? cutCase(index) : null;
    const isStream = cut?.isStream ?? new Seeded(this.#seed, index, 5).chance(0.5);
    const body = chatRequest(`${kind}-${index}-0`, model, isStream ? { stream: true } : {});
    const bytes = Buffer.from(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    for (let times = 0; times < 40; times++) {
      const text = await send(this.#gate.dataPort, { pieces: [bytes], after: "wait" });
      if (text === null) return `no end of the answer within ${CASE_MS_MAX} ms`;
      // the node still cools from the case before
      if (text.includes('"no_node_available"') || text.includes('"queue_saturated"')) {
        await new Promise((resolve) => setTimeout(resolve, 25));
        continue;
      }
      return oneAnswer(text, kind === "cut");
    }
    return null;
  }

  /** Looks for the case that is to blame for a fault of the process, on gateways of their own. */
  async #blame(): Promise<void> {
    for (const name of this.#recent.toReversed()) {
      await this.#gateway?.stop();
      this.#gateway = await this.#startGateway();
      await this.#runCase(name, 0).catch(() => undefined);
      await comesTrue(() => !this.#isUp() || this.#gate.faults.length > 0, 300);
      if (this.#isUp() && this.#gate.faults.length === 0) continue;
      const what = this.#gate.faults[0] ?? `the process ended: ${this.#gate.log.slice(-5).join("\n")}`;
      this.#failures.push({ name, what, bytes: bytesOf(this.#seed, name) });
      break;
    }
    if (!this.#isUp()) this.#gateway = await this.#startGateway();
  }

  /** Takes parts out of what was sent for as long as it still fails in the same way. */
  async #shrunk(name: CaseName, what: string): Promise<Buffer> {
    let bytes = bytesOf(this.#seed, name);
    if (name.kind !== "http1" || what.startsWith("the connection is open")) return bytes;
    const { after } = http1Case(this.#seed, name.index);
    for (let size = bytes.length >> 1; size >= 1; size >>= 1) {
      for (let at = 0; at + size <= bytes.length && size > 8; at += size) {
        const less = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)]);
        const result = await this.#connection(
          { pieces: [less], after: after === "reset" ? "wait" : after },
          name.index,
          true,
        ).catch(() => null);
        if (result === null) continue;
        bytes = less;
        at -= size;
      }
    }
    return bytes;
  }
}

/** Listeners of two workers and the admin port, polls that run, and what the system closes late. */
const SOCKETS_AT_REST = 120;

function bytesOf(seed: number, { kind, index }: CaseName): Buffer {
  switch (kind) {
    case "http1":
      return Buffer.concat(http1Case(seed, index).pieces);
    case "http2":
      return Buffer.concat(http2Case(seed, index).pieces);
    case "answer":
      return Buffer.concat(answerCase(seed, index).pieces);
    case "frames":
      return Buffer.concat(frameAnswer(seed, index, 1).frames);
    case "cut":
      return Buffer.concat(cutCase(index).pieces);
  }
}

/** What is wrong with what the caller of one request got; null: nothing. */
function oneAnswer(text: string, isCut: boolean): string | null {
  if (text === "") return "the connection closed without an answer";
  const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[!-9;-~]+: ?[^\r\n]*\r\n)*)\r\n/.exec(text);
  if (head === null) return `the answer has no head of HTTP/1.1: ${JSON.stringify(text.slice(0, 200))}`;
  const [whole, status = "", fields = ""] = head;
  if (Number(status) < 200) return oneAnswer(text.slice(whole.length), isCut);
  const body = text.slice(whole.length);
  const length = /^content-length: (\d+)\r$/im.exec(fields)?.[1];
  const isChunked = /^transfer-encoding: chunked\r$/im.test(fields);
  if (length !== undefined && body.length > Number(length))
    return `there are bytes behind the answer: ${JSON.stringify(body.slice(Number(length)).slice(0, 200))}`;
  const isWhole = length !== undefined ? body.length === Number(length) : isChunked && body.endsWith("0\r\n\r\n");
  const saysSo = Number(status) >= 400 || /"error"/.test(body);
  if (isCut && isWhole && !saysSo) return `an answer that was cut looks whole: ${JSON.stringify(text.slice(0, 300))}`;
  return null;
}

/** Sends on a connection of its own; resolves with all that came once it has closed, null after the deadline. */
function send(port: number, one: ConnectionCase): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    const socket: Socket = connect({ port, host: "127.0.0.1" });
    socket.setNoDelay(true);
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(null);
    }, CASE_MS_MAX);
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") reject(error);
    });
    socket.on("data", (bytes) => parts.push(bytes));
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(Buffer.concat(parts).toString("latin1"));
    });
    const pieces = [...one.pieces];
    const next = (): void => {
      const piece = pieces.shift();
      if (socket.destroyed) return;
      if (piece !== undefined) {
        socket.write(piece);
        setImmediate(next);
      } else if (one.after === "fin") socket.end();
      else if (one.after === "reset") socket.resetAndDestroy();
    };
    socket.once("connect", next);
  });
}
