import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { ZML } from "./index.ts";

const GLOBAL = Symbol.for("undici.globalDispatcher.1");
const slot = globalThis as unknown as Record<
  symbol,
  { constructor: new (options: object) => object; destroy(): Promise<void> }
>;
const ANSWER = '{"choices":[{"index":0,"message":{"role":"assistant","content":"late"}}]}';

/** Puts a dispatcher in place that waits for a head and between reads only so long. */
function limitPlatform(t: TestContext, limits: object): void {
  void globalThis.Response;
  const before = slot[GLOBAL];
  assert.ok(before !== undefined, "this Node keeps its dispatcher where the client looks for it");
  const short = new before.constructor(limits) as typeof before;
  slot[GLOBAL] = short;
  t.after(async () => {
    slot[GLOBAL] = before;
    await short.destroy();
  });
}

/** A server whose requests wait for the test. */
async function startWaiting(t: TestContext) {
  const waiting: ServerResponse[] = [];
  const server = createServer((_request: IncomingMessage, response) => void waiting.push(response));
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { waiting, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("an answer for which the platform's fetch would not have waited is waited for", async (t) => {
  limitPlatform(t, { headersTimeout: 100 });
  const { waiting, url } = await startWaiting(t);
  const answer = new ZML({ baseUrl: url, maxRetries: 0 }).infer({ model: "m", messages: [] });
  answer.catch(() => {});
  await assert.rejects(fetch(url), ({ cause }) => (cause as { code: string }).code === "UND_ERR_HEADERS_TIMEOUT");
  for (const response of waiting) response.end(ANSWER);
  assert.equal((await answer).text, "late");
});

test("a gap in a stream for which the platform's fetch would not have waited is waited for", async (t) => {
  limitPlatform(t, { bodyTimeout: 100 });
  const { waiting, url } = await startWaiting(t);
  const opening = new ZML({ baseUrl: url, maxRetries: 0 }).infer({ model: "m", messages: [], stream: true });
  const plain = fetch(url);
  while (waiting.length < 2) await new Promise((resolve) => setImmediate(resolve));
  for (const response of waiting) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": here\n\n");
  }
  const next = (await opening).next();
  next.catch(() => {});
  await assert.rejects(
    (await plain).text(),
    ({ cause }) => (cause as { code: string }).code === "UND_ERR_BODY_TIMEOUT",
  );
  for (const response of waiting) response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n');
  assert.equal((await next).done, false);
});

test("the dispatcher that the application has set is the one that is used", async (t) => {
  const { waiting, url } = await startWaiting(t);
  void globalThis.Response;
  const before = slot[GLOBAL] as unknown as { dispatch(options: object, handler: object): boolean };
  const seen: object[] = [];
  slot[GLOBAL] = {
    dispatch(options: object, handler: object) {
      seen.push(options);
      return before.dispatch(options, handler);
    },
  } as never;
  t.after(() => {
    slot[GLOBAL] = before as never;
  });
  const answer = new ZML({ baseUrl: url }).infer({ model: "m", messages: [] });
  while (waiting.length < 1) await new Promise((resolve) => setImmediate(resolve));
  waiting[0]?.end(ANSWER);
  assert.equal((await answer).text, "late");
  assert.equal(seen.length, 1);
});

test("a fetch of the application's own gets what the platform's would, and no dispatcher", async () => {
  const inits: RequestInit[] = [];
  const client = new ZML({
    fetch: async (_url, init) => {
      inits.push(init);
      return new Response(ANSWER);
    },
  });
  await client.infer({ model: "m", messages: [] });
  assert.deepEqual(Object.keys(inits[0] ?? {}).sort(), ["body", "headers", "method", "redirect", "signal"]);
});
