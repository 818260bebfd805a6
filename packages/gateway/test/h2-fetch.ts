/** `fetch` over HTTP/2 with prior knowledge, as far as tests use it, so that what holds for HTTP/1.1 is asked of it too. */

import { type ClientHttp2Session, connect, constants } from "node:http2";

const sessions = new Map<string, ClientHttp2Session>();

/** One connection per origin, which keeps no process alive. */
function sessionTo(origin: string): ClientHttp2Session {
  let session = sessions.get(origin);
  if (session === undefined || session.closed || session.destroyed) {
    session = connect(origin);
    session.on("error", () => {});
    session.unref();
    sessions.set(origin, session);
  }
  return session;
}

export function h2Fetch(url: string, init: RequestInit = {}): Promise<Response> {
  const { origin, pathname, search } = new URL(url);
  const session = sessionTo(origin);
  session.ref();
  const { method = "GET", signal, body } = init;
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const stream = session.request({
    ":method": method,
    ":path": `${pathname}${search}`,
    ...Object.fromEntries(new Headers(init.headers)),
  });
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const abort = (): void => stream.close(constants.NGHTTP2_CANCEL);
  const fail = (error: unknown): void => {
    reject(error);
    controller?.error(error);
    controller = null;
  };
  signal?.addEventListener("abort", () => {
    fail(signal.reason);
    abort();
  });
  if (signal?.aborted === true) abort();
  stream.on("response", ({ ":status": status = 0, ...fields }) => {
    const headers = new Headers();
    for (const [name, value] of Object.entries(fields)) {
      if (typeof value === "string") headers.append(name, value);
    }
    const readable = new ReadableStream<Uint8Array>(
      {
        start: (given) => {
          controller = given;
        },
        pull: () => void stream.resume(),
        cancel: abort,
      },
      { highWaterMark: 0 },
    );
    const isGzip = headers.get("content-encoding") === "gzip";
    resolve(
      new Response(isGzip ? readable.pipeThrough(new DecompressionStream("gzip")) : readable, { status, headers }),
    );
  });
  stream.on("data", (bytes: Buffer) => {
    stream.pause();
    controller?.enqueue(new Uint8Array(bytes));
  });
  stream.pause();
  stream.on("end", () => {
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) return;
    controller?.close();
    controller = null;
  });
  stream.on("error", (error) => fail(new TypeError("fetch failed", { cause: error })));
  stream.on("close", () => {
    fail(new TypeError("fetch failed", { cause: new Error(`the stream ended with code ${stream.rstCode}`) }));
    session.unref();
  });
  stream.end(typeof body === "string" ? body : body == null ? undefined : Buffer.from(body as Uint8Array));
  return promise;
}
