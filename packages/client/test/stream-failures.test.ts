/** Streams that break, stall, lie, or are left, from servers on raw sockets. The shapes of events are in conformance/. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { until } from "../../gateway/test/plane-fixture.ts";
import {
  chunk,
  DONE,
  LAST_CHUNK,
  type NodeScript,
  STREAM_HEAD,
  startScriptedNode,
  streaming,
  token,
} from "../../gateway/test/scripted-node.ts";
import {
  APITimeoutError,
  type ClientOptions,
  ConfigurationError,
  type InferStream,
  ResponseFormatError,
  StreamInterruptedError,
  UpstreamError,
  ZML,
} from "../src/index.ts";
import { fakeTiming } from "./fake-timing.ts";

const ask = { model: "m", messages: [{ role: "user", content: "hello" }], stream: true } as const;

const unhandled: unknown[] = [];
process.on("unhandledRejection", (reason) => unhandled.push(reason));

/** Opens a stream from a node that plays this. */
async function open(
  t: { after(f: () => Promise<void>): void },
  script: NodeScript,
  options: ClientOptions = {},
  call = {},
) {
  const node = await startScriptedNode(script);
  t.after(() => node.stop());
  const stream = await new ZML({ baseUrl: node.url, ...options }).infer({ ...ask, ...call });
  return { node, stream };
}

/** A script: these events, and then nothing more. */
function stalling(...events: string[]): NodeScript {
  return (call) => {
    call.write(STREAM_HEAD);
    for (const event of events) call.write(chunk(event));
  };
}

/** Reads to the end or the error. */
async function read(stream: InferStream<unknown>): Promise<{ count: number; error: unknown }> {
  let count = 0;
  try {
    for await (const _ of stream) count += 1;
  } catch (error) {
    return { count, error };
  }
  return { count, error: undefined };
}

test("a reset in the middle tells how many events came and what the text was, and where it was", async (t) => {
  const { promise: resetAfterRead, resolve } = Promise.withResolvers<void>();
  const { stream, node } = await open(t, async (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("Hel") + token("lo")));
    await resetAfterRead;
    call.rst();
  });
  await stream.next();
  await stream.next();
  resolve();
  const { error } = await read(stream);
  assert.ok(error instanceof StreamInterruptedError);
  assert.equal(error.events, 2);
  assert.equal(error.text, "Hello");
  assert.match(error.message, /broke off after 2 events: the answer is not whole: ask again/);
  assert.ok(error.cause instanceof Error);
  assert.doesNotMatch(JSON.stringify(error), /Hello/, "no log shows the text by accident");
  assert.deepEqual(await stream.next(), { done: true, value: undefined }, "an error is told once");
  assert.equal(node.calls.length, 1);
});

test("an abort in the middle rejects with the signal's reason, and the node sees its connection close", async (t) => {
  const controller = new AbortController();
  const { stream, node } = await open(t, stalling(token("a"), token("b")), {}, { signal: controller.signal });
  await stream.next();
  const reason = new Error("the user left");
  controller.abort(reason);
  // although an event is there already
  await assert.rejects(stream.next(), reason);
  await until(() => node.calls[0]?.isClosed === true);
  assert.deepEqual(await read(stream), { count: 0, error: undefined });
});

test("an abort while a read waits ends the wait", async (t) => {
  const controller = new AbortController();
  const { stream, node } = await open(t, stalling(token("a")), {}, { signal: controller.signal });
  await stream.next();
  const waiting = assert.rejects(stream.next(), { name: "AbortError" });
  controller.abort();
  await waiting;
  await until(() => node.calls[0]?.isClosed === true);
});

test("a controller in place of its signal is told before anything is sent", async (t) => {
  const node = await startScriptedNode(() => {});
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url });
  // @ts-expect-error the wrong type
  await assert.rejects(client.infer({ ...ask, signal: new AbortController() }), (error) => {
    return error instanceof ConfigurationError && /member signal of an AbortController/.test(error.message);
  });
  assert.equal(node.calls.length, 0);
});

test("an abort before the head, and one before the call, reject with the reason; nothing more is sent", async (t) => {
  const node = await startScriptedNode(() => {});
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url });
  const controller = new AbortController();
  const call = assert.rejects(client.infer({ ...ask, signal: controller.signal }), { name: "AbortError" });
  await until(() => node.calls.length === 1);
  controller.abort();
  await call;
  await until(() => node.calls[0]?.isClosed === true);
  await assert.rejects(client.infer({ ...ask, signal: controller.signal }), { name: "AbortError" });
  await assert.rejects(
    client.infer({ ...ask, signal: AbortSignal.abort("no reason") }),
    (reason) => reason === "no reason",
  );
  assert.equal(node.calls.length, 1);
});

test("a stream that is dropped, read or not, is closed when the garbage is collected, and the shared signal holds none", async (t) => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { signal } = new AbortController();
  const node = await startScriptedNode(stalling(token("a"), token("b")));
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url });
  // in functions of their own, so that no frame holds the streams
  const drop = async (): Promise<void> => void (await client.infer({ ...ask, signal }));
  const readAndDrop = async (): Promise<void> => {
    const stream = await client.infer({ ...ask, signal });
    await stream.next();
  };
  for (const leave of [drop, readAndDrop]) await leave();
  await until(() => {
    collect();
    return node.calls.length === 2 && node.calls.every((call) => call.isClosed);
  });
});

test("leaving the loop, close() and return() each close the connection; what waits ends without an error", async (t) => {
  for (const leave of ["break", "close", "return", "throw"]) {
    const { stream, node } = await open(t, stalling(token("a"), token("b")));
    if (leave === "break") {
      for await (const _ of stream) break;
    } else if (leave === "throw") {
      const thrown = new Error("the loop's own");
      const loop = async (): Promise<void> => {
        for await (const _ of stream) throw thrown;
      };
      await assert.rejects(loop(), thrown);
    } else {
      await stream.next();
      await stream.next();
      const waiting = stream.next();
      if (leave === "close") stream.close();
      else assert.deepEqual(await stream.return(), { done: true, value: undefined });
      assert.deepEqual(await waiting, { done: true, value: undefined });
    }
    await until(() => node.calls[0]?.isClosed === true, leave);
    stream.close();
    assert.deepEqual(await stream.next(), { done: true, value: undefined });
  }
});

test("a silence of timeoutMs is a time-out; events keep it away, and so does a reader who takes his time", async (t) => {
  const timing = fakeTiming();
  const go = Array.from({ length: 2 }, () => Promise.withResolvers<void>());
  const { stream, node } = await open(
    t,
    async (call) => {
      call.write(STREAM_HEAD);
      call.write(chunk(token("a")));
      for (const [index, each] of go.entries()) {
        await each.promise;
        call.write(chunk(token(String(index))));
      }
    },
    { timing, timeoutMs: 1000 },
  );
  await stream.next();
  timing.advance(5000);
  for (const each of go) {
    const next = stream.next();
    timing.advance(999);
    each.resolve();
    assert.equal((await next).done, false);
  }
  const silent = assert.rejects(stream.next(), (error) => {
    assert.ok(error instanceof APITimeoutError);
    assert.match(error.message, /silent for 1000 ms \(timeoutMs\)/);
    return true;
  });
  timing.advance(999);
  timing.advance(1);
  await silent;
  await until(() => node.calls[0]?.isClosed === true);
  assert.equal(timing.timers, 0);
});

test("an error event closes the connection and keeps its body", async (t) => {
  const event = {
    error: { message: "the answer broke off", type: "upstream_error", code: "stream_interrupted", param: null },
  };
  const { stream, node } = await open(t, stalling(token("a"), `data: ${JSON.stringify(event)}\n\n`));
  const { count, error } = await read(stream);
  assert.equal(count, 1);
  assert.ok(error instanceof UpstreamError);
  assert.equal(error.status, 502);
  assert.deepEqual(error.body, event);
  assert.match(error.message, /told of an error \(stream_interrupted\) after 1 events: the answer broke off/);
  await until(() => node.calls[0]?.isClosed === true);
});

test("an error event that is plain text is an error with that text", async (t) => {
  const { stream } = await open(t, stalling("event: error\ndata: out of memory\n\n"));
  await assert.rejects(stream.next(), /told of an error after 0 events: out of memory/);
});

test("an end mark with blanks around it is one", async (t) => {
  const { stream } = await open(t, streaming(token("a"), "data:  [DONE] \n\n"));
  assert.deepEqual(await read(stream), { count: 1, error: undefined });
});

test("an event without an end is left after a bound", async (t) => {
  const { stream, node } = await open(t, async (call) => {
    call.write(STREAM_HEAD);
    call.write(chunk('data: {"a": "'));
    while (!call.isClosed) {
      call.write(chunk(Buffer.alloc(262_144, 97)));
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  const { error } = await read(stream);
  assert.ok(error instanceof ResponseFormatError);
  assert.match(error.message, /an event of more than 16777216 characters/);
  await until(() => node.calls[0]?.isClosed === true);
});

test("an event with choices of another shape is an error, never a missing member", async (t) => {
  for (const data of [
    '{"choices":null}',
    '{"choices":[null]}',
    '{"choices":["a"]}',
    '{"type":"ping"}',
    "[]",
    "null",
    '"x"',
  ]) {
    const { stream } = await open(t, streaming(`data: ${data}\n\n`, DONE));
    await assert.rejects(stream.next(), ResponseFormatError, data);
  }
});

test("reads that are asked for at once come in order, and after an error in their midst are over", async (t) => {
  const { stream } = await open(t, streaming(token("a"), token("b"), "data: oops\n\n", token("c"), DONE));
  const reads = await Promise.allSettled(Array.from({ length: 5 }, () => stream.next()));
  const told = reads.map((each) => {
    if (each.status === "rejected") return (each.reason as Error).name;
    return each.value.done === true ? "done" : each.value.value.choices[0]?.delta.content;
  });
  assert.deepEqual(told, ["a", "b", "ResponseFormatError", "done", "done"]);
});

test("after [DONE] the connection is used again, and one that isn't ended then is closed", async (t) => {
  const timing = fakeTiming();
  const node = await startScriptedNode((call, index) => {
    call.write(STREAM_HEAD);
    call.write(chunk(token("a", "stop") + DONE));
    if (index !== 1) call.write(LAST_CHUNK);
  });
  t.after(() => node.stop());
  const client = new ZML({ baseUrl: node.url, timing });
  for (let index = 0; index < 2; index++) {
    assert.deepEqual(await read(await client.infer(ask)), { count: 1, error: undefined });
    // the last bytes of the first one take a turn of their own
    if (index === 0) await until(() => timing.timers === 0);
  }
  assert.equal(node.connections, 1);
  await until(() => timing.timers === 1);
  timing.advance(1000);
  await until(() => node.calls[1]?.isClosed === true);
});

test("a stream that is left lying keeps no process alive once the server has ended it", async (t) => {
  const node = await startScriptedNode(streaming(token("a"), token("b", "stop"), DONE));
  t.after(() => node.stop());
  const program = `
    import { ZML } from ${JSON.stringify(new URL("../src/index.ts", import.meta.url).href)};
    const stream = await new ZML({ baseUrl: process.argv[1] }).infer({ model: "m", messages: [], stream: true });
    const { value } = await stream.next();
    console.log(value.choices[0].delta.content);
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, node.url], {
    timeout: 20_000,
  });
  assert.equal(stdout, "a\n");
});

test("a signal that many calls share has one listener, reaches those that run, and no longer those that ended", async (t) => {
  const controller = new AbortController();
  const { signal } = controller;
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  const node = await startScriptedNode((call, index) => {
    if (index === 0) return streaming(token("a", "stop"), DONE)(call, index);
    return stalling(token("a"))(call, index);
  });
  t.after(() => node.stop());
  const signals: (AbortSignal | null | undefined)[] = [];
  const watched = (url: string, init: RequestInit): Promise<Response> => {
    signals.push(init.signal);
    return fetch(url, init);
  };
  const client = new ZML({ baseUrl: node.url, fetch: watched });
  await read(await client.infer({ ...ask, signal }));
  const streams = await Promise.all(Array.from({ length: 12 }, () => client.infer({ ...ask, signal })));
  await Promise.all(streams.map((stream) => stream.next()));
  assert.equal(listeners, 1);
  const failed = streams.map((stream) => assert.rejects(stream.next(), { name: "AbortError" }));
  controller.abort();
  await Promise.all(failed);
  assert.deepEqual(
    signals.map((each) => each?.aborted),
    [false, ...streams.map(() => true)],
  );
  await until(() => node.calls.slice(1).every(({ isClosed }) => isClosed));
});

test("no rejection was left unhandled", async () => {
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
});
