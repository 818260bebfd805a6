// What reading bodies costs a serving thread: µs per small request beside the bare minimum, and how long the event loop
// is held by large bodies. Run: node read-body.bench.ts
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { gzipSync } from "node:zlib";
import { Deadlines } from "../deadlines.ts";
import type { BodySource } from "./read-body.ts";
import { readBody } from "./read-body.ts";
import { LocalByteBudget } from "./testing/local-byte-budget.ts";

const MIB = 1 << 20;
const options = {
  limitBytes: 64 * MIB,
  budget: new LocalByteBudget(1024 * MIB),
  deadlineMs: 60_000,
  deadlines: new Deadlines(),
};

/** The least that any server does: collect, and parse nothing. */
function collect(source: Readable): Promise<Buffer[]> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    source.on("data", (chunk: Buffer) => chunks.push(chunk));
    source.on("end", () => resolve(chunks));
  });
}

function sourceOf(body: Buffer): BodySource {
  const source = new Readable({ read() {} });
  source.push(body);
  source.push(null);
  return Object.assign(source, { headers: { "content-length": String(body.length) } });
}

async function small(): Promise<void> {
  const body = Buffer.from(
    JSON.stringify({ model: "llama3-70b", stream: true, messages: [{ role: "user", content: "word ".repeat(180) }] }),
  );
  const runs = 20_000;
  const bests = { readBody: Number.POSITIVE_INFINITY, collect: Number.POSITIVE_INFINITY };
  for (let round = 0; round < 6; round++) {
    let startMs = performance.now();
    for (let run = 0; run < runs; run++) {
      const read = await readBody(sourceOf(body), options);
      if (!read.ok) throw new Error(read.code);
      read.release();
    }
    bests.readBody = Math.min(bests.readBody, performance.now() - startMs);
    startMs = performance.now();
    for (let run = 0; run < runs; run++) await collect(sourceOf(body));
    bests.collect = Math.min(bests.collect, performance.now() - startMs);
  }
  const us = (ms: number) => ((ms * 1000) / runs).toFixed(2);
  console.log(`1 KB body: readBody ${us(bests.readBody)} µs, collecting alone ${us(bests.collect)} µs`);
}

/** CPU time of this thread so far: wall time would count what other processes took. Many kernels count it in 4 ms ticks. */
function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Most CPU time between two turns of the loop while `work` runs, counted from its call of `restart`. */
async function longestTurnMs(work: (restart: () => void) => Promise<void>): Promise<number> {
  let longest = 0;
  let last = threadCpuMs();
  let isRunning = true;
  const turn = () => {
    const now = threadCpuMs();
    longest = Math.max(longest, now - last);
    last = now;
    if (isRunning) setImmediate(turn);
  };
  turn();
  await work(() => {
    longest = 0;
    last = threadCpuMs();
  });
  isRunning = false;
  return longest;
}

/** Sends a body from a thread of its own, so that only reading is measured. */
async function send(port: number, body: Buffer, headers: Record<string, string>, onReady: () => void): Promise<void> {
  // Shared, since copying it into the worker would hold this thread.
  const shared = new Uint8Array(new SharedArrayBuffer(body.length));
  shared.set(body);
  const worker = new Worker(new URL(import.meta.url), { workerData: { port, body: shared, headers } });
  const isDone = Promise.all([once(worker, "message"), once(worker, "exit")]);
  await once(worker, "online");
  await new Promise((resolve) => setTimeout(resolve, 50));
  onReady();
  worker.postMessage("send");
  await isDone;
}

async function large(): Promise<void> {
  const prose = Buffer.from(JSON.stringify({ model: "m", messages: [{ content: "word ".repeat(12_000_000) }] }));
  const dense = Buffer.from(`{"model":"m","a":[${"[[],{}],".repeat(7_500_000)}0]}`);
  const cases: [string, Buffer, Record<string, string>][] = [
    ["prose", prose, {}],
    ["nothing but structure", dense, {}],
    ["prose, gzip", gzipSync(prose), { "content-encoding": "gzip" }],
  ];
  const server = createServer(async (request, response) => {
    const read = await readBody(request, options);
    if (!read.ok) throw new Error(read.code);
    read.release();
    response.end();
  });
  const bare = createServer(async (request, response) => {
    await collect(request);
    response.end();
  });
  for (const each of [server, bare]) {
    each.listen(0, "127.0.0.1");
    await once(each, "listening");
  }
  const portOf = (each: typeof server) => (each.address() as AddressInfo).port;
  for (const [name, body, headers] of cases) {
    // The second round is warm.
    for (let round = 0; round < 2; round++) {
      const heldMs = await longestTurnMs((restart) => send(portOf(server), body, headers, restart));
      const bareMs = await longestTurnMs((restart) => send(portOf(bare), body, headers, restart));
      console.log(
        `${(body.length / MIB).toFixed(0)} MiB ${name}: longest turn ${heldMs.toFixed(2)} ms, collecting alone ${bareMs.toFixed(2)} ms`,
      );
    }
  }
  const inOneChunk = await longestTurnMs(async (restart) => {
    const source = sourceOf(prose);
    restart();
    const read = await readBody(source, options);
    if (!read.ok) throw new Error(read.code);
    read.release();
  });
  console.log(`${(prose.length / MIB).toFixed(0)} MiB prose in one chunk: longest turn ${inOneChunk.toFixed(2)} ms`);
  server.close();
  bare.close();
}

if (isMainThread) {
  await small();
  await large();
} else {
  const { port, body, headers } = workerData as { port: number; body: Uint8Array; headers: Record<string, string> };
  if (parentPort === null) throw new Error("not a worker");
  await once(parentPort, "message");
  const request = httpRequest({ port, method: "POST", headers: { ...headers, "content-length": body.length } });
  request.end(Buffer.from(body));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "end");
  request.destroy();
  parentPort.postMessage("done");
  parentPort.close();
}
