/** No answer, or none of ZML, from servers on raw sockets. */
import assert from "node:assert/strict";
import { createServer, type Server, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { until } from "../../gateway/test/plane-fixture.ts";
import { answering, chatAnswer, head, plain, startScriptedNode } from "../../gateway/test/scripted-node.ts";
import {
  APIConnectionError,
  APIStatusError,
  APITimeoutError,
  AuthenticationError,
  type ClientOptions,
  ConfigurationError,
  NotFoundError,
  ResponseFormatError,
  TLSError,
  ZML,
  ZMLError,
} from "../src/index.ts";
import { fakeTiming } from "./fake-timing.ts";
import { selfSigned } from "./self-signed.ts";

const messages = [{ role: "user", content: "a secret prompt" }];
const KEY = "sk-very-secret-key";

/** Whatever is thrown away unhandled fails the run: node --test watches, this names it. */
const unhandled: unknown[] = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));

/** A server that does this with each connection; returns where it listens. */
async function listen(t: TestContext, server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket.on("error", () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  return `127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
}

/** The error of one call, sent once unless told otherwise. */
async function errorOf(baseUrl: string, options: Pick<ClientOptions, "maxRetries" | "timing" | "fetch"> = {}) {
  const client = new ZML({ baseUrl, apiKey: KEY, maxRetries: 0, ...options });
  const error: unknown = await client.infer({ model: "m", messages }).then(
    () => assert.fail("the call went well"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof ZMLError, String(error));
  assert.doesNotMatch(`${error.message}${JSON.stringify(error)}`, /very-secret|secret prompt/);
  assert.match(error.message, /: [a-z]/, "what failed, and what to do");
  return error;
}

/** The platform's fetch, and when its first head has been handed on. */
function watchedFetch(): { fetch: typeof fetch; headIsIn: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const watched = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const response = await fetch(...args);
    setImmediate(resolve);
    return response;
  };
  return { fetch: watched, headIsIn: promise };
}

test("a gateway that is down is a connection error that says where, after all retries", async () => {
  const server = createServer();
  const where = await new Promise<string>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`127.0.0.1:${(server.address() as { port: number }).port}`));
  });
  await new Promise((resolve) => server.close(resolve));
  const timing = fakeTiming();
  const error = await errorOf(`http://${where}`, { maxRetries: 2, timing });
  assert.ok(error instanceof APIConnectionError);
  assert.match(error.message, new RegExp(`^no answer from http://${where} \\(ECONNREFUSED\\): nobody listens there`));
  assert.deepEqual(timing.waits, [500, 1000]);
  assert.equal(timing.timers, 0, "no timer is left");
});

test("a name that no resolver knows is a connection error that names the base URL", async () => {
  const error = await errorOf("http://no-such-host.invalid");
  assert.ok(error instanceof APIConnectionError);
  assert.match(error.message, /base URL/);
});

test("a server that resets before a byte is asked again, one that closes too", async (t) => {
  for (const end of ["rst", "fin"] as const) {
    const node = await startScriptedNode((call, index) => {
      if (index < 2) call[end]();
      else call.write(plain(200, chatAnswer("late")));
    });
    t.after(() => node.stop());
    const timing = fakeTiming();
    const answer = await new ZML({ baseUrl: node.url, timing }).infer({ model: "m", messages });
    assert.equal(answer.text, "late");
    assert.equal(node.calls.length, 3);
    assert.deepEqual(timing.waits, [500, 1000]);
  }
});

test("a port that speaks no HTTP is a connection error", async (t) => {
  const where = await listen(
    t,
    createServer((socket) => void socket.end("220 mail.example ESMTP\r\n")),
  );
  const error = await errorOf(`http://${where}`);
  assert.ok(error instanceof APIConnectionError);
  assert.match(error.message, /is no HTTP: check the port/);
});

test("a port that fetch refuses is told as that, and not tried again", async () => {
  const timing = fakeTiming();
  const error = await errorOf("http://127.0.0.1:6000", { maxRetries: 2, timing });
  assert.match(error.message, /refuses the port/);
  assert.deepEqual(timing.waits, []);
});

test("a certificate that nobody signed is a TLS error that says how to trust it, and not tried again", async (t) => {
  const server = createTlsServer(selfSigned());
  server.on("tlsClientError", () => {});
  const where = await listen(t, server);
  const timing = fakeTiming();
  const error = await errorOf(`https://${where}`, { maxRetries: 2, timing });
  assert.ok(error instanceof TLSError);
  assert.match(error.message, /DEPTH_ZERO_SELF_SIGNED_CERT.*NODE_EXTRA_CA_CERTS/);
  assert.deepEqual(timing.waits, []);
  // the other way round: no TLS spoken to a port with TLS
  const other = await errorOf(`http://${where}`);
  assert.ok(other instanceof APIConnectionError && !(other instanceof TLSError));
});

test("a server that never answers is a time-out at the deadline, and its socket is closed", async (t) => {
  const node = await startScriptedNode(() => {});
  t.after(() => node.stop());
  const timing = fakeTiming();
  const call = errorOf(node.url, { timing });
  await until(() => node.calls.length === 1);
  timing.advance(600_000);
  const error = await call;
  assert.ok(error instanceof APITimeoutError);
  assert.match(error.message, /within 600000 ms \(timeoutMs, retries included\)/);
  await until(() => node.calls[0]?.isClosed === true);
});

test("an answer that stops in its body is a time-out, too", async (t) => {
  const node = await startScriptedNode((call) => call.write(`${head(200, { "content-length": "100" })}{"id":`));
  t.after(() => node.stop());
  const timing = fakeTiming();
  const { fetch, headIsIn } = watchedFetch();
  const call = errorOf(node.url, { timing, fetch });
  await headIsIn;
  timing.advance(600_000);
  assert.ok((await call) instanceof APITimeoutError);
  await until(() => node.calls[0]?.isClosed === true);
});

test("an answer that breaks off in its body is a connection error and is not asked for again", async (t) => {
  const node = await startScriptedNode((call) => {
    call.write(`${head(200, { "content-length": "100", "content-type": "application/json" })}{"id":`);
    call.fin();
  });
  t.after(() => node.stop());
  const error = await errorOf(node.url, { maxRetries: 2, timing: fakeTiming() });
  assert.ok(error instanceof APIConnectionError && !(error instanceof APITimeoutError));
  assert.match(error.message, /broke off in its body/);
  assert.equal(node.calls.length, 1);
});

test("an error page that never ends is left after a bound, and its status is told", async (t) => {
  const node = await startScriptedNode(async (call) => {
    call.write(head(500, { "content-type": "text/html" }));
    while (!call.isClosed) {
      call.write(Buffer.alloc(65_536, 32));
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  t.after(() => node.stop());
  const error = await errorOf(node.url);
  assert.ok(error instanceof APIStatusError);
  assert.equal(error.status, 500);
  assert.match(error.message, /text\/html of more than \d+ bytes/);
  await until(() => node.calls[0]?.isClosed === true);
});

test("a page in place of an answer is not even read, and its connection is closed", async (t) => {
  const node = await startScriptedNode((call) => {
    call.write(`${head(200, { "content-type": "text/html" })}<html>Sign in with your password`);
  });
  t.after(() => node.stop());
  const error = await errorOf(node.url);
  assert.ok(error instanceof ResponseFormatError);
  assert.equal(error.contentType, "text/html");
  assert.match(error.message, /200 with text\/html of unknown size in place of JSON with choices/);
  assert.doesNotMatch(error.message, /Sign in/);
  await until(() => node.calls[0]?.isClosed === true);
});

test("an error that is told with a good status is an error with its text", async (t) => {
  const body = JSON.stringify({ error: { message: "engine died: ask again", type: "server_error", code: "dead" } });
  const node = await startScriptedNode(answering(200, body));
  t.after(() => node.stop());
  const error = await errorOf(node.url);
  assert.ok(error instanceof APIStatusError);
  assert.deepEqual([error.status, error.code], [200, "dead"]);
  assert.match(error.message, /answered 200 \(dead\): engine died/);
});

test("an error's body that stalls does not hide its status", async (t) => {
  const node = await startScriptedNode((call) => call.write(`${head(503, { "content-length": "99" })}{"er`));
  t.after(() => node.stop());
  const timing = fakeTiming();
  const { fetch, headIsIn } = watchedFetch();
  const call = errorOf(node.url, { maxRetries: 2, timing, fetch });
  await headIsIn;
  timing.advance(600_000);
  const error = await call;
  assert.ok(error instanceof APIStatusError, error.message);
  assert.equal(error.status, 503);
  assert.equal(node.calls.length, 1, "no time is left for another");
});

test("a wrong key is an authentication error; a server that echoes the key doesn't get it into the message", async (t) => {
  const body = JSON.stringify({ error: { message: `wrong key ${KEY}`, type: "authentication_error", code: "x" } });
  const node = await startScriptedNode(answering(401, body));
  t.after(() => node.stop());
  const error = await errorOf(node.url);
  assert.ok(error instanceof AuthenticationError);
  assert.match(error.message, /wrong key \[key\]; the key of this port is apiKey or ZML_API_KEY/);
  const client = new ZML({ baseUrl: "http://127.0.0.1:1", adminUrl: node.url, apiKey: KEY, adminKey: "none" });
  await assert.rejects(client.decisions.explain("id"), (cause) => {
    assert.ok(cause instanceof AuthenticationError);
    assert.match(cause.message, /the key of this port is adminKey or ZML_ADMIN_KEY/);
    return true;
  });
  assert.equal(node.calls[1]?.headers["authorization"], "Bearer none");
  assert.deepEqual(error.body, JSON.parse(body), "who asks for the body gets it");
});

test("a wrong path is told with the address that was asked", async (t) => {
  const node = await startScriptedNode(answering(404, '{"detail":"Not Found"}'));
  t.after(() => node.stop());
  const error = await errorOf(`${node.url}/wrong`);
  assert.ok(error instanceof NotFoundError);
  assert.match(error.message, /\/wrong\/v1\/chat\/completions answered 404: Not Found: .*base URL/);
});

test("a fetch that knows no signal, and never settles, does not hang the call", async () => {
  const timing = fakeTiming();
  const client = new ZML({ timing, fetch: () => new Promise(() => {}) });
  const call = client.infer({ model: "m", messages });
  const failed = assert.rejects(call, APITimeoutError);
  await new Promise((resolve) => setImmediate(resolve));
  timing.advance(600_000);
  await failed;
});

test("a fetch that throws is a connection error, and its throw is the cause", async () => {
  const cause = new RangeError("no");
  const client = new ZML({
    maxRetries: 0,
    fetch: () => {
      throw cause;
    },
  });
  await assert.rejects(client.infer({ model: "m", messages }), (error) => {
    assert.ok(error instanceof APIConnectionError);
    assert.equal(error.cause, cause);
    return true;
  });
});

test("what undici's own limit ends is a time-out that says how to get around it, and is not sent again", async () => {
  const cause = new TypeError("fetch failed", {
    cause: Object.assign(new Error(), { code: "UND_ERR_HEADERS_TIMEOUT" }),
  });
  const timing = fakeTiming();
  const client = new ZML({ timing, fetch: () => Promise.reject(cause) });
  await assert.rejects(client.infer({ model: "m", messages }), (error) => {
    assert.ok(error instanceof APITimeoutError);
    assert.match(error.message, /stream the answer/);
    return true;
  });
  assert.deepEqual(timing.waits, []);
});

test("parameters that are no JSON are refused before anything is sent", async () => {
  const client = new ZML({ fetch: () => assert.fail("it was sent") });
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  for (const bad of [circle, 1n]) {
    await assert.rejects(client.infer({ model: "m", messages, bad }), ConfigurationError);
  }
  // JSON's own way for what it has no number for; the body stays valid
  const bodies: unknown[] = [];
  const fetch = async (_url: string, init: RequestInit): Promise<Response> => {
    bodies.push(JSON.parse(String(init.body)));
    return new Response(chatAnswer("x"));
  };
  await new ZML({ fetch }).infer({ model: "m", messages, temperature: Number.NaN });
  assert.deepEqual(bodies, [{ model: "m", messages, temperature: null }]);
});

test("calls without parameters, and with wrong ones, are typed rejections", async () => {
  const client = new ZML({ fetch: () => assert.fail("it was sent") }) as unknown as Record<
    string,
    (x?: unknown) => Promise<never>
  >;
  await assert.rejects(client["infer"]?.() ?? Promise.resolve(), ConfigurationError);
  await assert.rejects(client["infer"]?.(null) ?? Promise.resolve(), ConfigurationError);
  await assert.rejects(client["embed"]?.() ?? Promise.resolve(), ConfigurationError);
  const good = { model: "m", messages };
  for (const bad of [
    { timeoutMs: 0 },
    { timeoutMs: Number.NaN },
    { timeoutMs: "1" },
    { timeoutMs: 2 ** 31 },
    { maxRetries: -1 },
    { maxRetries: 1.5 },
    { extraHeaders: { "a b": "c" } },
    { extraHeaders: { a: "b\r\nc: d" } },
    { policy: "é" },
    { accelerator: "a\nb" },
    { accelerator: 7 },
  ]) {
    await assert.rejects(
      client["infer"]?.({ ...good, ...bad }) ?? Promise.resolve(),
      ConfigurationError,
      JSON.stringify(bad),
    );
  }
});

test("no rejection was left unhandled", async () => {
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
});
