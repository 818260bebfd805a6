/**
 * How long one request's body holds a serving thread. The data plane runs on this thread, the caller and the node on
 * others; a chain of immediates measures the longest turn of the event loop while a 64 MiB body comes in and goes out.
 * A turn counts with the lesser of its wall time and its thread's CPU time: what else runs on the machine lengthens the
 * one, and the other moves in ticks of the kernel. Each shape counts with the median of its runs; the same chain with
 * nothing to do is shown beside it.
 */

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { FIXTURE_MODEL, startPlane } from "../packages/gateway/test/plane-fixture.ts";
import { type Figure, isJsonAsked, median, report } from "./report.ts";

const BODY_BYTES = 64 * 2 ** 20;
const RUNS = 3;

/** Bodies of the full size that strain different parts of the way. */
const SHAPES: Record<string, () => Buffer> = {
  string: () => filled('"', "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0", '"'),
  escapes: () => filled('"', '\\n\\u00e9\\"', '"'),
  multibyte: () => filled('"', "漢字é🙂", '"'),
  structure: () => filled("[", '{"a":[1,{}]},', "0]"),
  nested: () => filled("[", `${"[".repeat(60)}1${"]".repeat(60)},`, "0]"),
  spaces: () => filled("", " ", "0"),
};

function filled(open: string, unit: string, close: string): Buffer {
  const head = Buffer.from(`{"model":"${FIXTURE_MODEL}","x":${open}`);
  const tail = Buffer.from(`${close}}`);
  const one = Buffer.from(unit);
  const count = Math.floor((BODY_BYTES - head.length - tail.length) / one.length);
  return Buffer.concat([head, Buffer.alloc(count * one.length, one), tail]);
}

/** A node that reads to the end and answers with the bytes it counted. */
const NODE = `
const { parentPort } = require("node:worker_threads");
const server = require("node:http").createServer((request, response) => {
  let bytes = 0;
  request.on("data", (piece) => { bytes += piece.length; });
  request.on("end", () => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ bytes, choices: [] }));
  });
}).listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
`;

/** A caller that sends what it is given as fast as it can, and tells the answer. */
const CALLER = `
const { parentPort } = require("node:worker_threads");
const { request } = require("node:http");
parentPort.on("message", ({ port, body }) => {
  const call = request({ port, host: "127.0.0.1", method: "POST", path: "/v1/chat/completions", agent: false,
    headers: { "content-type": "application/json", "content-length": body.length } }, (response) => {
    let text = "";
    response.on("data", (piece) => { text += piece; });
    response.on("end", () => parentPort.postMessage({ status: response.statusCode, text }));
  });
  call.end(Buffer.from(body.buffer, body.byteOffset, body.length));
});
`;

/** Watches the turns of this thread's event loop; the function that is returned stops it and tells the longest, ms. */
function watchTurns(): () => number {
  let isOn = true;
  let longestMs = 0;
  let wallMs = performance.now();
  let cpuMs = cpuNowMs();
  const look = (): void => {
    if (!isOn) return;
    const wallNowMs = performance.now();
    const cpuNow = cpuNowMs();
    longestMs = Math.max(longestMs, Math.min(wallNowMs - wallMs, cpuNow - cpuMs));
    wallMs = wallNowMs;
    cpuMs = cpuNow;
    setImmediate(look);
  };
  setImmediate(look);
  return () => {
    isOn = false;
    return longestMs;
  };
}

function cpuNowMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

async function measure(port: number, caller: Worker, body: Buffer): Promise<number> {
  const answered = once(caller, "message");
  caller.postMessage({ port, body });
  const stop = watchTurns();
  const [answer] = (await answered) as [{ status: number; text: string }];
  const longestMs = stop();
  if (answer.status !== 200 || !answer.text.includes(`"bytes":${body.length}`)) {
    throw new Error(`the body did not pass: ${answer.status} ${answer.text.slice(0, 200)}`);
  }
  return longestMs;
}

async function measureIdle(): Promise<number> {
  const stop = watchTurns();
  await new Promise((resolve) => setTimeout(resolve, 500));
  return stop();
}

const node = new Worker(NODE, { eval: true });
const caller = new Worker(CALLER, { eval: true });
const [nodePort] = (await once(node, "message")) as [number];
const plane = await startPlane([{ id: "a", url: `http://127.0.0.1:${nodePort}` }]);
const figures: Figure[] = [];
let worstMs = 0;
for (const [shape, make] of Object.entries(SHAPES)) {
  const body = make();
  const turnsMs: number[] = [];
  for (let run = 0; run < RUNS; run++) turnsMs.push(await measure(plane.port, caller, body));
  const value = median(turnsMs);
  worstMs = Math.max(worstMs, value);
  figures.push({ name: `max_stall_ms{body=64MiB,shape=${shape}}`, value, unit: "ms" });
}
figures.unshift({ name: "max_stall_ms{body=64MiB}", value: worstMs, unit: "ms" });
const idleMs: number[] = [];
for (let run = 0; run < RUNS; run++) idleMs.push(await measureIdle());
figures.push({ name: "max_stall_ms{body=none}", value: median(idleMs), unit: "ms" });
await plane.stop();
await node.terminate();
await caller.terminate();
report({ bench: "stall", figures, json: isJsonAsked(process.argv) });
